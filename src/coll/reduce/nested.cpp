// Reduce as reduce-scatters nested along the machine (coll/pattern/nested.hpp), of which only the
// root's part folds at the largest level: so no byte leaves that part. Then gathers back towards
// the root: in the end it has few peers, which are near.
//
// Everything of a chunk lies in one block of each member, as in allreduce. Items of a chunk: one
// for each level on the way in, and one for each below the largest on the way out.
#include "coll/pattern/nested.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {
namespace {

/// `result`: where the chunk is folded, the root's receive buffer or scratch.
Task reduce_chunk(Collective& c, const NestedChunk& chunk, std::byte* result, std::byte* block) {
  const MachineLevels& levels = chunk.levels();
  const int largest = levels.count() - 1, root = c.call.root;
  for (int level = 0; level <= largest; ++level) {
    if (level > 0) c.stream().post(chunk.item(level), block, chunk.bytes(), Readers::peers);
    if (level == largest && !levels.is_near(root, largest)) break;
    const Part part = chunk.whole(level < largest ? level + 1 : largest);
    co_await fold_part(c, chunk, level, chunk.item(level), part, result, block);
  }
  const bool is_root = c.rank() == root;
  for (int level = largest - 1; level >= 0 && levels.is_near(root, level + 1); --level) {
    const std::uint64_t item = chunk.last_item() - static_cast<std::uint64_t>(level);
    c.stream().post(item, block, chunk.bytes(), Readers::peers);
    if (levels.is_near(root, level))
      co_await collect_parts(c, chunk, level, item, is_root ? result : nullptr,
                             level > 0 ? block : nullptr);
  }
  c.stream().drain(chunk.last_item());
  co_return Status::success();
}

}  // namespace

Task reduce_nested(Collective& c, SharedBlocks p) {
  const MachineLevels& levels = c.team.machine_levels();
  const std::size_t unit = nested_unit(c.call.reduction->element_bytes);
  const std::size_t most = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  const auto items = 2 * static_cast<std::uint64_t>(levels.count()) - 1;
  const bool is_root = c.rank() == c.call.root;
  Scratch folded(c);
  if (!is_root) co_await folded.take();
  co_await c.stream().turn();
  co_await run_with_operands(
      c, chunks(c.call.bytes, most),
      [&](std::uint64_t i) { return NestedChunk(levels, c.call.bytes, unit, most, i, items); },
      [&](const NestedChunk& chunk, std::byte* block) {
        std::byte* const result = is_root ? at(c.call.recv, chunk.offset()) : folded.memory();
        return reduce_chunk(c, chunk, result, block);
      });
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm reduce_nested = {
    .coll = Coll::reduce,
    .name = "nested",
    .run = with_parameters<tutti::reduce_nested>,
    .restriction_of = with_parameters<nests_along_the_machine>,
    .items = with_parameters<nested_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory; reduce-scatters and gathers along the machine",
};

}  // namespace algorithm
}  // namespace tutti
