#include "coll/call.hpp"

#include <cstring>

#include "coll/parcels.hpp"

namespace tutti {

const char* name(Coll coll) noexcept {
  static constexpr const char* kNames[kColls] = {"barrier",
                                                 "bcast",
                                                 "reduce",
                                                 "allreduce",
                                                 "allgather",
                                                 "allgatherv",
                                                 "gather",
                                                 "scatter",
                                                 "reduce_scatter_block",
                                                 "alltoall",
                                                 "reduce_scatter",
                                                 "scan",
                                                 "exscan",
                                                 "gatherv",
                                                 "scatterv",
                                                 "alltoallv",
                                                 "alltoallw",
                                                 "neighbor_allgather",
                                                 "neighbor_allgatherv",
                                                 "neighbor_alltoall",
                                                 "neighbor_alltoallv",
                                                 "neighbor_alltoallw"};
  const auto index = static_cast<int>(coll);
  return index < kColls ? kNames[index] : "?";
}

void run_on_one_rank(const Call& call) noexcept {
  if (call.parcels != nullptr) return call.parcels->deliver_own();
  const bool none_of_its_own =
      call.coll == Coll::barrier || call.coll == Coll::bcast || call.coll == Coll::exscan;
  if (none_of_its_own || call.bytes == 0) return;
  auto* to = static_cast<std::byte*>(call.recv);
  if (call.coll == Coll::allgatherv) to += call.displs[0];
  if (call.reduction != nullptr && call.reduction->sum != nullptr) {
    const Operands one{[](const void* send, int) { return send; }, call.send, 1};
    return call.reduction->sum(one, to, call.bytes / call.reduction->element_bytes);
  }
  if (call.send != to) std::memcpy(to, call.send, call.bytes);
}

}  // namespace tutti
