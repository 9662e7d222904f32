// Alltoall in bundles along the machine: at each level, from the largest, a member gets of each of
// its peers what that one has for members with this one's place. So a message goes as many steps as
// there are levels, and a member looks at few others.
//
// A member's blocks of a chunk are in the order of positions: of the receiver's places at levels
// that are still to come, and of the sender's at the others. Each level makes a new one, since the
// peers still read the one before. In place, too: a chunk has been copied before it is received.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/nested.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "coll/shared_blocks.hpp"
#include "team/machine_levels.hpp"

namespace tutti {
namespace {

/// So much of everybody's block for everybody.
struct Bundles {
  const MachineLevels& levels;
  std::size_t offset, bytes;
  std::uint64_t first_item;

  std::uint64_t item(int level) const noexcept {
    return first_item + static_cast<std::uint64_t>(levels.count() - 1 - level);
  }
  std::uint64_t last_item() const noexcept { return item(0); }
  std::byte* of_member(const Collective& c, void* vector, int position) const noexcept {
    const auto member = static_cast<std::size_t>(levels.member_at(position));
    return at(vector, member * c.call.bytes + offset);
  }
};

void publish_own(Collective& c, const Bundles& chunk, std::byte* block) {
  for (int position = 0; position < c.size(); ++position) {
    c.place_shared(block + static_cast<std::size_t>(position) * chunk.bytes,
                   chunk.of_member(c, const_cast<void*>(c.call.send), position), chunk.bytes);
  }
}

/// Of the peer at `place` of a level, whose blocks are at `block`: those for this one's place, to
/// `next`, or to the receive buffer where it is nullptr.
void take_bundle(Collective& c, const Bundles& chunk, int level, int place, int peer,
                 const std::byte* block, std::byte* next) {
  const MachineLevels& levels = chunk.levels;
  const int stride = levels.stride(level), radix = levels.radix(level);
  const std::size_t run = static_cast<std::size_t>(stride) * chunk.bytes;
  for (int first = 0; first < c.size(); first += stride * radix) {
    const int from = first + levels.place(level) * stride, to = first + place * stride;
    const std::size_t begin = static_cast<std::size_t>(from) * chunk.bytes;
    const std::byte* const data =
        peer == c.rank() ? block + begin : c.stream().part(chunk.item(level), peer, begin, run);
    if (next != nullptr) {
      c.place_shared(next + static_cast<std::size_t>(to) * chunk.bytes, data, run);
    } else {  // the smallest level: a run is one block
      c.place(chunk.of_member(c, c.call.recv, to), data, run);
    }
  }
}

Task exchange_chunk(Collective& c, const Bundles& chunk) {
  const MachineLevels& levels = chunk.levels;
  const std::size_t total = static_cast<std::size_t>(c.size()) * chunk.bytes;
  std::byte* block = nullptr;
  co_await take_block(c, chunk.first_item, total, &block);
  publish_own(c, chunk, block);
  for (int level = levels.count() - 1; level >= 0; --level) {
    c.stream().post(chunk.item(level), block, total, Readers::peers);
    std::byte* next = nullptr;
    if (level > 0) co_await take_block(c, chunk.item(level - 1), total, &next);
    const int radix = levels.radix(level), own = levels.place(level);
    for (int step = 0; step < radix; ++step) {
      const int place = (own + step) % radix, peer = levels.peer(level, place);
      if (step != 0) co_await c.stream().posted(chunk.item(level), peer);
      take_bundle(c, chunk, level, place, peer, block, next);
    }
    block = next;
  }
  c.stream().drain(chunk.last_item());
  co_return Status::success();
}

}  // namespace

Task alltoall_nested(Collective& c, SharedBlocks p) {
  const MachineLevels& levels = c.team.machine_levels();
  const std::size_t most = p.bytes(c) / static_cast<std::size_t>(c.size());
  const auto items = static_cast<std::uint64_t>(levels.count());
  co_await c.stream().turn();
  for (std::uint64_t i = 0; i < chunks(c.call.bytes, most); ++i) {
    const std::size_t offset = i * most;
    const Bundles chunk{levels, offset, std::min(most, c.call.bytes - offset), i * items};
    co_await exchange_chunk(c, chunk);
  }
  c.stream().all_have_begun();
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm alltoall_nested = {
    .coll = Coll::alltoall,
    .name = "nested",
    .run = with_parameters<tutti::alltoall_nested>,
    .restriction_of = with_parameters<bundles_along_the_machine>,
    .items = with_parameters<bundle_items>,
    .parameters = kSharedBlocks,
    .source = "shared memory; in bundles along the machine",
};

}  // namespace algorithm
}  // namespace tutti
