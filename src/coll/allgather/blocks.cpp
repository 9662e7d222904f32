// Allgather and allgatherv through shared blocks, pipelined.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task allgather_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return through_blocks(
      t, k, Publishers::all(t), call.send, [&call](int) { return call.bytes; },
      block_parameter(t, p), true,
      [&t, &call](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        place(t, at(call.recv, static_cast<std::size_t>(member) * call.bytes + offset), data,
              bytes);
      });
}

Task allgatherv_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return through_blocks(
      t, k, Publishers::all(t), call.send, [&call](int member) { return call.counts[member]; },
      block_parameter(t, p), true,
      [&t, &call](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        place(t, at(call.recv, call.displs[member] + offset), data, bytes);
      });
}

}  // namespace tutti
