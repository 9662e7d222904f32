#include "coll/call.hpp"

namespace tutti {

const char* name(Coll coll) noexcept {
  static constexpr const char* kNames[kColls] = {
      "barrier", "bcast",   "reduce",  "allreduce",            "allgather",
      "allgatherv", "gather", "scatter", "reduce_scatter_block", "alltoall"};
  const auto index = static_cast<int>(coll);
  return index < kColls ? kNames[index] : "?";
}

}  // namespace tutti
