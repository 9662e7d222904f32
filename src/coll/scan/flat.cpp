// Scan and exscan, flat: everybody but the last publishes its vector in its cell, and folds those
// of the ranks before it in rank order.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold_cells.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task scan_flat(Collective& c) {
  const bool inclusive = c.call.coll == Coll::scan;
  const int me = c.rank();
  // In place, what is folded before the own operand overwrites it, from the third rank on.
  const bool overwritten = inclusive && c.call.send == c.call.recv && me > 1;
  const int last = c.size() - 1;
  const Publishers publishers{0, me + 1, overwritten && me == last ? -1 : last};
  const void* const own = overwritten ? c.cells().data(me, c.call.bytes) : c.call.send;
  if (c.at_once())
    return through_cells(c, publishers, c.call.send, own, c.call.bytes, true,
                         [&c, own, inclusive, me](int member, const std::byte*) {
                           const int count = inclusive ? me + 1 : me;
                           if (member == me && count != 0)
                             fold_cells_at_once(c, count, own, c.call.bytes, 0, c.call.bytes);
                         });
  return through_cells(c, publishers, c.call.send, own, c.call.bytes, true,
                       [fold = Folder(c, c.call.recv, c.call.bytes), inclusive, me](
                           int member, const std::byte* data) mutable {
                         if (member < me || inclusive) fold(data);
                         if (member == me) fold.finish();
                       });
}

namespace algorithm {

const Algorithm scan_flat = {
    .coll = Coll::scan,
    .name = "flat",
    .run = with_parameters<tutti::scan_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

const Algorithm exscan_flat = {
    .coll = Coll::exscan,
    .name = "flat",
    .run = with_parameters<tutti::scan_flat>,
    .restriction_of = with_parameters<fits_cell>,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
