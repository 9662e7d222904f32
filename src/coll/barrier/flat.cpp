// Barrier, flat: everybody raises the flag of its cell and looks at everybody else's.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

Task barrier_flat(Collective& c, const Parameters&) {
  return through_cells(c, Publishers::all(c), nullptr, 0, true, [](int, const std::byte*) {});
}

}  // namespace tutti
