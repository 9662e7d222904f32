// Barrier, flat: everybody raises the flag of its cell and looks at everybody else's.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task barrier_flat(Team& t, const Call&, const Ticket& k, const Parameters&) {
  return through_cells(t, k, Publishers::all(t), nullptr, 0, true, [](int, const std::byte*) {});
}

}  // namespace tutti
