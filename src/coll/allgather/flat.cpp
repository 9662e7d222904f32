// Allgather, flat: everybody publishes its block in its cell and reads all the others'.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task allgather_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  return through_cells(t, k, Publishers::all(t), call.send, call.bytes, true,
                       [&t, &call](int member, const std::byte* data) {
                         place(t, at(call.recv, static_cast<std::size_t>(member) * call.bytes),
                               data, call.bytes);
                       });
}

}  // namespace tutti
