// Broadcast as a scatter and allgathers along the machine (coll/pattern/nested.hpp): the members of
// each of the largest parts divide what the root has published among themselves, and pass it on to
// each other. So a part is entered once by every byte, and its members share that work.
//
// Items of a chunk: the root's, and one for each level below the largest. The root's block is whole
// from the beginning, so it posts all of them at once.
#include "coll/pattern/nested.hpp"
#include "coll/algorithms.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"

namespace tutti {
namespace {

void publish_chunk(Collective& c, const NestedChunk& chunk, std::byte* block) {
  c.place_shared(block, at(c.call.recv, chunk.offset()), chunk.bytes());
  for (int i = 0; i < chunk.levels().count(); ++i)
    c.stream().post(chunk.item(i), block, chunk.bytes());
}

/// The own part from the root, and then those of the peers, from the largest level.
Task receive_chunk(Collective& c, const NestedChunk& chunk, std::byte* block) {
  std::byte* const result = at(c.call.recv, chunk.offset());
  const int largest = chunk.levels().count() - 1;
  const Part own = chunk.whole(largest);
  if (own.bytes != 0) {
    co_await c.stream().posted(chunk.item(0), c.call.root);
    const std::byte* const from = c.stream().part(chunk.item(0), c.call.root, own.begin, own.bytes);
    c.place(result + own.begin, from, own.bytes);
    c.place_shared(block + own.begin, result + own.begin, own.bytes);
  }
  for (int level = largest - 1; level >= 0; --level) {
    const std::uint64_t item = chunk.item(largest - level);
    c.stream().post(item, block, chunk.bytes(), Readers::peers);
    co_await collect_parts(c, chunk, level, item, result, level > 0 ? block : nullptr);
  }
  co_return Status::success();
}

}  // namespace

Task bcast_nested(Collective& c, SharedBlocks p) {
  const MachineLevels& levels = c.team.machine_levels();
  const auto items = static_cast<std::uint64_t>(levels.count());
  const std::uint64_t count = chunks(c.call.bytes, p.bytes(c));
  co_await c.stream().turn();
  for (std::uint64_t i = 0; i < count; ++i) {
    const NestedChunk chunk(levels, c.call.bytes, kCacheLine, p.bytes(c), i, items);
    std::byte* block = nullptr;
    const bool is_root = c.rank() == c.call.root;
    co_await take_block(c, chunk.last_item(), chunk.bytes(), &block,
                        is_root ? Readers::all : Readers::peers);
    if (is_root) {
      publish_chunk(c, chunk, block);
    } else {
      co_await receive_chunk(c, chunk, block);
    }
    c.stream().drain(chunk.last_item());
  }
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_nested = {
    .coll = Coll::bcast,
    .name = "nested",
    .run = with_parameters<tutti::bcast_nested>,
    .restriction_of = with_parameters<divides_along_the_machine>,
    .items = with_parameters<nested_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory; a scatter and allgathers along the machine",
};

}  // namespace algorithm
}  // namespace tutti
