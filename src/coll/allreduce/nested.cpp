// Allreduce as reduce-scatters nested along the machine (coll/pattern/nested.hpp), then allgathers
// back: a package is entered by what is folded already.
//
// Everything of a chunk lies in one block of each member: first the member's own operand, over
// which its parts are folded, each within the one before, and then the result, from the smallest
// part out. Nobody else reads a part that the member folds over, nor what it copies there before it
// says so. Items of a chunk: one for each level on the way in, and one for each on the way out.
#include "coll/pattern/nested.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {
namespace {

Task allreduce_chunk(Collective& c, const NestedChunk& chunk, std::byte* block) {
  const int levels = chunk.levels().count();
  std::byte* const result = at(c.call.recv, chunk.offset());
  for (int level = 0; level < levels; ++level) {
    if (level > 0) c.stream().post(chunk.item(level), block, chunk.bytes(), Readers::peers);
    co_await fold_part(c, chunk, level, chunk.item(level), chunk.whole(level + 1), result, block);
  }
  for (int level = levels - 1; level >= 0; --level) {
    const std::uint64_t item = chunk.last_item() - static_cast<std::uint64_t>(level);
    c.stream().post(item, block, chunk.bytes(), Readers::peers);
    co_await collect_parts(c, chunk, level, item, result, level > 0 ? block : nullptr);
  }
  c.stream().drain(chunk.last_item());
  co_return Status::success();
}

}  // namespace

Task allreduce_nested(Collective& c, SharedBlocks p) {
  const MachineLevels& levels = c.team.machine_levels();
  const std::size_t unit = nested_unit(c.call.reduction->element_bytes);
  const std::size_t most = whole_elements(p.bytes(c), c.call.reduction->element_bytes);
  const auto items = 2 * static_cast<std::uint64_t>(levels.count());
  co_await c.stream().turn();
  co_await run_with_operands(
      c, chunks(c.call.bytes, most),
      [&](std::uint64_t i) { return NestedChunk(levels, c.call.bytes, unit, most, i, items); },
      [&c](const NestedChunk& chunk, std::byte* block) {
        return allreduce_chunk(c, chunk, block);
      });
  c.stream().all_have_begun();
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_nested = {
    .coll = Coll::allreduce,
    .name = "nested",
    .run = with_parameters<tutti::allreduce_nested>,
    .restriction_of = with_parameters<nests_along_the_machine>,
    .items = with_parameters<nested_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory; reduce-scatters and allgathers along the machine",
};

}  // namespace algorithm
}  // namespace tutti
