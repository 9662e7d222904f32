// The one list of algorithms, in the order in which they are reported. Settings, reports,
// documentation and the test matrix derive from it; what each of them is stands at the foot of its
// file (CONTRIBUTING.md).
#include "coll/algorithms.hpp"
#include "offload/client.hpp"
#include "select/select.hpp"

namespace tutti {
namespace {

constexpr const Algorithm* kAll[] = {
    &algorithm::barrier_flat,
    &algorithm::barrier_degree_k,
    &algorithm::barrier_dissemination,
    &algorithm::barrier_layered,
    &algorithm::barrier_dcp,

    &algorithm::bcast_flat,
    &algorithm::bcast_blocks,
    &algorithm::bcast_memory,
    &algorithm::bcast_binomial,
    &algorithm::bcast_sendrecv_binomial,
    &algorithm::bcast_multicast,
    &algorithm::bcast_multicast_window,
    &algorithm::bcast_multicast_linear_ack,
    &algorithm::bcast_multicast_tree_ack,
    &algorithm::bcast_multicast_coroot_ack,
    &algorithm::bcast_multicast_nack,
    &algorithm::bcast_direct,
    &algorithm::bcast_scatter_allgather,
    &algorithm::bcast_lanes,
    &algorithm::bcast_layered,
    &algorithm::bcast_dcp,

    &algorithm::reduce_flat,
    &algorithm::reduce_blocks,
    &algorithm::reduce_memory,
    &algorithm::reduce_whole,
    &algorithm::reduce_degree_k,
    &algorithm::reduce_direct,
    &algorithm::reduce_ordered,
    &algorithm::reduce_layered,
    &algorithm::reduce_layered_ordered,
    &algorithm::reduce_dcp,

    &algorithm::allreduce_flat,
    &algorithm::allreduce_blocks,
    &algorithm::allreduce_split,
    &algorithm::allreduce_memory,
    &algorithm::allreduce_whole,
    &algorithm::allreduce_degree_k,
    &algorithm::allreduce_sendrecv_binomial,
    &algorithm::allreduce_sendrecv_recursive_doubling,
    &algorithm::allreduce_doubling,
    &algorithm::allreduce_halving,
    &algorithm::allreduce_ring,
    &algorithm::allreduce_multicast,
    &algorithm::allreduce_exchange,
    &algorithm::allreduce_split_exchange,
    &algorithm::allreduce_ordered,
    &algorithm::allreduce_lanes,
    &algorithm::allreduce_layered,
    &algorithm::allreduce_layered_ordered,
    &algorithm::allreduce_dcp,

    &algorithm::allgather_flat,
    &algorithm::allgather_blocks,
    &algorithm::allgather_memory,
    &algorithm::allgather_sendrecv_recursive_doubling,
    &algorithm::allgather_sendrecv_bruck,
    &algorithm::allgather_sendrecv_ring,
    &algorithm::allgather_bruck,
    &algorithm::allgather_direct,
    &algorithm::allgather_exchange,
    &algorithm::allgather_shared_buffer,
    &algorithm::allgather_multicast,
    &algorithm::allgather_layered,
    &algorithm::allgather_dcp,

    &algorithm::allgatherv_blocks,
    &algorithm::allgatherv_memory,
    &algorithm::allgatherv_bruck,
    &algorithm::allgatherv_direct,
    &algorithm::allgatherv_exchange,
    &algorithm::allgatherv_shared_buffer,
    &algorithm::allgatherv_layered,

    &algorithm::gather_flat,
    &algorithm::gather_blocks,
    &algorithm::gather_memory,
    &algorithm::gather_direct,
    &algorithm::gather_layered,

    &algorithm::scatter_flat,
    &algorithm::scatter_blocks,
    &algorithm::scatter_memory,
    &algorithm::scatter_direct,
    &algorithm::scatter_layered,

    &algorithm::reduce_scatter_block_flat,
    &algorithm::reduce_scatter_block_blocks,
    &algorithm::reduce_scatter_block_memory,
    &algorithm::reduce_scatter_block_whole,
    &algorithm::reduce_scatter_block_direct,
    &algorithm::reduce_scatter_block_doubling,
    &algorithm::reduce_scatter_block_ordered,
    &algorithm::reduce_scatter_block_layered,
    &algorithm::reduce_scatter_block_layered_ordered,

    &algorithm::alltoall_flat,
    &algorithm::alltoall_blocks,
    &algorithm::alltoall_memory,
    &algorithm::alltoall_direct,
    &algorithm::alltoall_layered,
    &algorithm::alltoall_dcp,
};

}  // namespace

std::span<const Algorithm* const> algorithms() { return kAll; }

const Algorithm* find_algorithm(Coll coll, std::string_view wanted) {
  for (const Algorithm* algorithm : kAll) {
    if (algorithm->coll == coll && wanted == algorithm->name) return algorithm;
  }
  return nullptr;
}

}  // namespace tutti
