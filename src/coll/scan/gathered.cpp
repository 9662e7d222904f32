// Scan and exscan through shared blocks, gathered: everybody but the last publishes its vector, and
// folds those of the ranks before it. More to fold than from rank to rank, but all operands are at
// one place, as exact sums need them, and nobody waits for what another one folds.
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {

Task scan_gathered(Collective& c, SharedBlocks p) {
  const int me = c.rank();
  const bool inclusive = c.call.coll == Coll::scan;
  const int count = inclusive ? me + 1 : me;
  const std::size_t chunk = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  // In place, what is folded one by one overwrites the own operand, from the third rank on.
  Scratch aside(c);
  const bool overwritten = inclusive && c.call.send == c.call.recv && me > 1 && !c.at_once();
  if (overwritten) co_await aside.take();
  co_await through_blocks(
      c, Publishers{0, me + 1, c.size() - 1}, {c.call.send}, [&c](int) { return c.call.bytes; },
      chunk, true,
      [&](int member, std::size_t offset, const std::byte*, std::size_t bytes) {
        if (member != me || count == 0) return;
        std::byte* const out = at(c.call.recv, offset);
        if (overwritten) c.place(aside.memory(), out, bytes);
        const std::byte* const own = overwritten ? aside.memory() : at(c.call.send, offset);
        const auto vector_of = [&](int of) -> const std::byte* {
          return of == me ? own : c.stream().block(offset / chunk, of);
        };
        fold_vectors(c, count, vector_of, out, bytes);
      });
  co_return Status::success();
}

namespace algorithm {

const Algorithm scan_gathered = {
    .coll = Coll::scan,
    .name = "gathered",
    .run = with_parameters<tutti::scan_gathered>,
    .restriction_of = with_parameters<reduces_through_shared_blocks>,
    .items = with_parameters<element_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

const Algorithm exscan_gathered = {
    .coll = Coll::exscan,
    .name = "gathered",
    .run = with_parameters<tutti::scan_gathered>,
    .restriction_of = with_parameters<reduces_through_shared_blocks>,
    .items = with_parameters<element_block_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory",
};

}  // namespace algorithm
}  // namespace tutti
