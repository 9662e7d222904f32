// Scan and exscan through shared blocks where all operands are folded at once: everybody but the
// last publishes its vector, and folds those of the ranks before it. More to fold than from rank to
// rank, but nobody waits for what another one folds.
#include "coll/algorithms.hpp"
#include "coll/pattern/block_fold.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task scan_gathered(Collective& c, SharedBlocks p) {
  const int me = c.rank();
  const int count = c.call.coll == Coll::scan ? me + 1 : me;
  const std::size_t chunk = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  return through_blocks(
      c, Publishers{0, me + 1, c.size() - 1}, {c.call.send}, [&c](int) { return c.call.bytes; },
      chunk, true,
      [&c, me, count, chunk](int member, std::size_t offset, const std::byte*, std::size_t bytes) {
        if (member == me && count != 0) fold_blocks_at_once(c, count, offset, chunk, bytes);
      });
}

namespace algorithm {

const Algorithm scan_gathered = {
    .coll = Coll::scan,
    .name = "gathered",
    .run = with_parameters<tutti::scan_gathered>,
    .restriction_of = with_parameters<gathers_through_shared_blocks>,
    .items = with_parameters<element_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm exscan_gathered = {
    .coll = Coll::exscan,
    .name = "gathered",
    .run = with_parameters<tutti::scan_gathered>,
    .restriction_of = with_parameters<gathers_through_shared_blocks>,
    .items = with_parameters<element_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
