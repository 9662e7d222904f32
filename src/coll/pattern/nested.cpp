#include "coll/pattern/nested.hpp"

#include <algorithm>

#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"

namespace tutti {

Part divide(const Part& whole, std::size_t unit, int parts, int index) noexcept {
  const std::size_t units = (whole.bytes + unit - 1) / unit;
  const auto begin = [&](int part) {
    const std::size_t before =
        units * static_cast<std::size_t>(part) / static_cast<std::size_t>(parts);
    return std::min(before * unit, whole.bytes);
  };
  return {whole.begin + begin(index), begin(index + 1) - begin(index)};
}

NestedChunk::NestedChunk(const MachineLevels& levels, std::size_t vector, std::size_t unit,
                         std::size_t most, std::uint64_t index, std::uint64_t items) noexcept
    : levels_(levels),
      unit_(unit),
      offset_(index * most),
      first_item_(index * items),
      items_(items) {
  own_[0] = {0, std::min(most, vector - offset_)};
  for (int level = 0; level < levels.count(); ++level)
    own_[static_cast<std::size_t>(level) + 1] = part_of(level, levels.place(level));
}

Task take_block(Collective& c, std::uint64_t item, std::size_t bytes, std::byte** block,
                Readers readers) noexcept {
  if (!c.stream().try_block(item, bytes, block, readers))
    co_await c.stream().wait_block(item, bytes, block, readers);
  co_return Status::success();
}

Task fold_part(Collective& c, const NestedChunk& chunk, int level, std::uint64_t item, Part part,
               std::byte* result, std::byte* block) noexcept {
  if (part.bytes == 0) co_return Status::success();
  const int own = chunk.levels().place(level);
  Folder fold(c, result + part.begin, part.bytes);
  for (int place = 0; place < chunk.levels().radix(level); ++place) {
    if (place == own) {
      fold(block + part.begin);
      continue;
    }
    const int peer = chunk.levels().peer(level, place);
    co_await c.stream().posted(item, peer);
    fold(c.stream().part(item, peer, part.begin, part.bytes));
  }
  fold.finish();
  c.place_shared(block + part.begin, result + part.begin, part.bytes);
  co_return Status::success();
}

Task collect_parts(Collective& c, const NestedChunk& chunk, int level, std::uint64_t item,
                   std::byte* result, std::byte* block) noexcept {
  const int radix = chunk.levels().radix(level), own = chunk.levels().place(level);
  for (int step = 1; step < radix; ++step) {
    const int place = (own + step) % radix, peer = chunk.levels().peer(level, place);
    const Part part = chunk.part_of(level, place);
    if (part.bytes == 0) continue;
    co_await c.stream().posted(item, peer);
    const std::byte* from = c.stream().part(item, peer, part.begin, part.bytes);
    if (result != nullptr) {
      c.place(result + part.begin, from, part.bytes);
      from = result + part.begin;
    }
    if (block != nullptr) c.place_shared(block + part.begin, from, part.bytes);
  }
  co_return Status::success();
}

}  // namespace tutti
