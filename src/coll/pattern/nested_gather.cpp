#include "coll/pattern/nested_gather.hpp"

#include <algorithm>
#include <cstdint>

#include "coll/pattern/move.hpp"
#include "coll/pattern/nested.hpp"
#include "coll/pattern/published.hpp"
#include "team/machine_levels.hpp"

namespace tutti {
namespace {

/// What this rank gathers of one chunk. A level's slots hold what it has of the members that differ
/// from it in their places at larger levels: in its block, in the order in which they have come.
class Gathering {
 public:
  Gathering(Collective& c, int root, const MachineLevels& levels, std::size_t offset,
            std::size_t bytes, std::uint64_t first_item) noexcept
      : c_(c),
        levels_(levels),
        root_(root),
        offset_(offset),
        bytes_(bytes),
        first_item_(first_item) {}

  std::uint64_t last_item() const noexcept {
    return first_item_ + static_cast<std::uint64_t>(levels_.count()) - 1;
  }
  std::uint64_t item(int level) const noexcept {
    return last_item() - static_cast<std::uint64_t>(level);
  }
  /// Whether this rank collects what its peers at a level have.
  bool collects(int level) const noexcept { return root_ < 0 || levels_.is_near(root_, level); }
  bool receives() const noexcept { return root_ < 0 || c_.rank() == root_; }
  int slots(int level) const noexcept { return c_.size() / levels_.stride(level + 1); }
  /// Of the block: what the peers at the smallest level read at which they read from this rank.
  std::size_t block_bytes() const noexcept {
    int level = levels_.count() - 1;
    while (level > 0 && collects(level)) --level;
    return static_cast<std::size_t>(slots(level)) * bytes_;
  }

  void contribute(std::byte* block) noexcept {
    const std::byte* const own = at(c_.call.send, offset_);
    c_.place_shared(block, own, bytes_);
    if (receives()) c_.place(place_of(c_.rank()), own, bytes_);
  }
  /// Of the peer at `place` of a level: `data`, in its block.
  void take(int level, int place, const std::byte* data, std::byte* block) noexcept {
    const std::size_t length = static_cast<std::size_t>(slots(level)) * bytes_;
    if (level > 0) {
      const int step = (place - levels_.place(level) + levels_.radix(level)) % levels_.radix(level);
      std::byte* const kept = at(block, static_cast<std::size_t>(step) * length);
      c_.place_shared(kept, data, length);
      data = kept;
    }
    if (!receives()) return;
    for (int slot = 0; slot < slots(level); ++slot, data += bytes_)
      c_.place(place_of(member_in(level, place, slot)), data, bytes_);
  }

 private:
  std::byte* place_of(int member) const noexcept {
    return at(c_.call.recv, static_cast<std::size_t>(member) * c_.call.bytes + offset_);
  }
  /// Whose block is in that slot of the peer at `place` of a level.
  int member_in(int level, int place, int slot) const noexcept {
    int position = levels_.position() + (place - levels_.place(level)) * levels_.stride(level);
    for (int above = levels_.count() - 1; above > level; --above) {
      const int radix = levels_.radix(above), own = levels_.place(above);
      position += ((own + slot % radix) % radix - own) * levels_.stride(above);
      slot /= radix;
    }
    return levels_.member_at(position);
  }

  Collective& c_;
  const MachineLevels& levels_;
  const int root_;
  const std::size_t offset_, bytes_;
  const std::uint64_t first_item_;
};

Task gather_chunk(Collective& c, const MachineLevels& levels, Gathering& chunk,
                  std::size_t bytes) noexcept {
  std::byte* block = nullptr;
  co_await take_block(c, chunk.last_item(), chunk.block_bytes(), &block);
  chunk.contribute(block);
  for (int level = levels.count() - 1; level >= 0; --level) {
    const std::size_t length = static_cast<std::size_t>(chunk.slots(level)) * bytes;
    c.stream().post(chunk.item(level), block, length, Readers::peers);
    if (!chunk.collects(level)) break;
    for (int step = 1; step < levels.radix(level); ++step) {
      const int place = (levels.place(level) + step) % levels.radix(level);
      const int peer = levels.peer(level, place);
      co_await c.stream().posted(chunk.item(level), peer);
      chunk.take(level, place, c.stream().part(chunk.item(level), peer, 0, length), block);
    }
  }
  c.stream().drain(chunk.last_item());
  co_return Status::success();
}

}  // namespace

Task gather_nested_blocks(Collective& c, int root, std::size_t block) noexcept {
  const MachineLevels& levels = c.team.machine_levels();
  const std::size_t most = block / static_cast<std::size_t>(c.size() / levels.radix(0));
  const auto items = static_cast<std::uint64_t>(levels.count());
  co_await c.stream().turn();
  for (std::uint64_t i = 0; i < chunks(c.call.bytes, most); ++i) {
    const std::size_t offset = i * most, bytes = std::min(most, c.call.bytes - offset);
    Gathering chunk(c, root, levels, offset, bytes, i * items);
    co_await gather_chunk(c, levels, chunk, bytes);
  }
  if (root < 0) c.stream().all_have_begun();
  c.finish();
  co_return Status::success();
}

}  // namespace tutti
