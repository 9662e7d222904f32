// All algorithms, by name: a function, and what it is called and where it can run. Both are in
// coll/<collective>/<algorithm>.cpp.
#pragma once

#include "coll/algorithm.hpp"

namespace tutti {

#define TUTTI_ALGORITHM(name)                    \
  Task name(Collective& c, const Parameters& p); \
  namespace algorithm {                          \
  extern const Algorithm name;                   \
  }

TUTTI_ALGORITHM(barrier_flat)
TUTTI_ALGORITHM(barrier_degree_k)
TUTTI_ALGORITHM(bcast_flat)
TUTTI_ALGORITHM(bcast_blocks)
TUTTI_ALGORITHM(bcast_memory)
TUTTI_ALGORITHM(bcast_binomial)
TUTTI_ALGORITHM(bcast_sendrecv_binomial)
TUTTI_ALGORITHM(bcast_multicast)
TUTTI_ALGORITHM(bcast_multicast_window)
TUTTI_ALGORITHM(bcast_multicast_linear_ack)
TUTTI_ALGORITHM(bcast_multicast_tree_ack)
TUTTI_ALGORITHM(bcast_multicast_coroot_ack)
TUTTI_ALGORITHM(bcast_multicast_nack)
TUTTI_ALGORITHM(reduce_flat)
TUTTI_ALGORITHM(reduce_blocks)
TUTTI_ALGORITHM(reduce_memory)
TUTTI_ALGORITHM(reduce_whole)
TUTTI_ALGORITHM(reduce_degree_k)
TUTTI_ALGORITHM(allreduce_flat)
TUTTI_ALGORITHM(allreduce_blocks)
TUTTI_ALGORITHM(allreduce_split)
TUTTI_ALGORITHM(allreduce_memory)
TUTTI_ALGORITHM(allreduce_whole)
TUTTI_ALGORITHM(allreduce_degree_k)
TUTTI_ALGORITHM(allreduce_sendrecv_binomial)
TUTTI_ALGORITHM(allreduce_sendrecv_recursive_doubling)
TUTTI_ALGORITHM(allgather_flat)
TUTTI_ALGORITHM(allgather_blocks)
TUTTI_ALGORITHM(allgather_memory)
TUTTI_ALGORITHM(allgather_sendrecv_recursive_doubling)
TUTTI_ALGORITHM(allgather_sendrecv_bruck)
TUTTI_ALGORITHM(allgather_sendrecv_ring)
TUTTI_ALGORITHM(allgatherv_blocks)
TUTTI_ALGORITHM(allgatherv_memory)
TUTTI_ALGORITHM(gather_flat)
TUTTI_ALGORITHM(gather_blocks)
TUTTI_ALGORITHM(gather_memory)
TUTTI_ALGORITHM(scatter_flat)
TUTTI_ALGORITHM(scatter_blocks)
TUTTI_ALGORITHM(scatter_memory)
TUTTI_ALGORITHM(reduce_scatter_block_flat)
TUTTI_ALGORITHM(reduce_scatter_block_blocks)
TUTTI_ALGORITHM(reduce_scatter_block_memory)
TUTTI_ALGORITHM(reduce_scatter_block_whole)
TUTTI_ALGORITHM(alltoall_flat)
TUTTI_ALGORITHM(alltoall_blocks)
TUTTI_ALGORITHM(alltoall_memory)
TUTTI_ALGORITHM(barrier_dissemination)
TUTTI_ALGORITHM(barrier_layered)
TUTTI_ALGORITHM(bcast_direct)
TUTTI_ALGORITHM(bcast_layered)
TUTTI_ALGORITHM(bcast_lanes)
TUTTI_ALGORITHM(reduce_direct)
TUTTI_ALGORITHM(reduce_ordered)
TUTTI_ALGORITHM(reduce_layered)
TUTTI_ALGORITHM(reduce_layered_ordered)
TUTTI_ALGORITHM(allreduce_doubling)
TUTTI_ALGORITHM(allreduce_ring)
TUTTI_ALGORITHM(allreduce_ordered)
TUTTI_ALGORITHM(allreduce_halving)
TUTTI_ALGORITHM(allreduce_layered)
TUTTI_ALGORITHM(allreduce_lanes)
TUTTI_ALGORITHM(allreduce_layered_ordered)
TUTTI_ALGORITHM(allgather_bruck)
TUTTI_ALGORITHM(allgather_direct)
TUTTI_ALGORITHM(allgather_layered)
TUTTI_ALGORITHM(allgatherv_bruck)
TUTTI_ALGORITHM(allgatherv_direct)
TUTTI_ALGORITHM(allgatherv_layered)
TUTTI_ALGORITHM(bcast_scatter_allgather)
TUTTI_ALGORITHM(allreduce_exchange)
TUTTI_ALGORITHM(allreduce_split_exchange)
TUTTI_ALGORITHM(allgather_exchange)
TUTTI_ALGORITHM(allgatherv_exchange)
TUTTI_ALGORITHM(allgather_shared_buffer)
TUTTI_ALGORITHM(allgather_multicast)
TUTTI_ALGORITHM(allreduce_multicast)
TUTTI_ALGORITHM(allgatherv_shared_buffer)
TUTTI_ALGORITHM(gather_direct)
TUTTI_ALGORITHM(gather_layered)
TUTTI_ALGORITHM(scatter_direct)
TUTTI_ALGORITHM(scatter_layered)
TUTTI_ALGORITHM(reduce_scatter_block_direct)
TUTTI_ALGORITHM(reduce_scatter_block_doubling)
TUTTI_ALGORITHM(reduce_scatter_block_ordered)
TUTTI_ALGORITHM(reduce_scatter_block_layered)
TUTTI_ALGORITHM(reduce_scatter_block_layered_ordered)
TUTTI_ALGORITHM(alltoall_direct)
TUTTI_ALGORITHM(alltoall_layered)

#undef TUTTI_ALGORITHM

/// How much of a shared block an algorithm uses. 0: all of it.
inline constexpr Parameter kBlockParameter{"block", 0, "bytes"};

/// Bytes of a shared block that an algorithm uses: its parameter, or all of the block.
inline std::size_t block_parameter(const Collective& c, const Parameters& p) noexcept {
  const auto wanted = static_cast<std::size_t>(p.value[0]);
  return wanted == 0 || wanted > c.team.block_bytes() ? c.team.block_bytes() : wanted;
}

}  // namespace tutti
