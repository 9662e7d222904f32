#include "coll/pattern/fold_whole.hpp"

#include <algorithm>

#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {
namespace {

/// Copies the part of a chunk that lies in [begin, begin + bytes) to where it belongs in `vector`.
void take_part(Collective& c, std::byte* vector, std::size_t begin, std::size_t bytes,
               std::size_t offset, const std::byte* data, std::size_t length) noexcept {
  const std::size_t from = std::max(begin, offset);
  const std::size_t to = std::min(begin + bytes, offset + length);
  if (from < to) c.place(vector + (from - begin), data + (from - offset), to - from);
}

}  // namespace

std::uint64_t fold_whole_items(std::size_t bytes, std::size_t block, int size) noexcept {
  return chunks(bytes, block) * static_cast<std::uint64_t>(size);
}

Task fold_whole(Collective& c, const void* send, std::size_t published, std::size_t begin,
                std::size_t bytes, bool reads, void* out, std::size_t block) {
  Temporary folded, operand;
  if (reads) {
    co_await folded.allocate(c, bytes);
    co_await operand.allocate(c, bytes);
  }
  co_await c.stream().turn();
  if (!reads) c.stream().drain(c.items() - 1);
  const std::uint64_t count = chunks(published, block);
  for (int member = 0; member < c.size(); ++member) {
    auto* vector = static_cast<std::byte*>(member == 0 ? folded.memory() : operand.memory());
    for (std::uint64_t piece = 0; piece < count; ++piece) {
      const std::uint64_t item = static_cast<std::uint64_t>(member) * count + piece;
      const std::size_t offset = piece * block;
      const std::size_t length = std::min(block, published - offset);
      if (member == c.rank()) {
        std::byte* own = nullptr;
        if (!c.stream().try_block(item, length, &own))
          co_await c.stream().wait_block(item, length, &own);
        c.place_shared(own, at(send, offset), length);
        c.stream().post(item, own, length);
        if (reads) take_part(c, vector, begin, bytes, offset, at(send, offset), length);
      } else if (reads) {
        co_await c.stream().posted(item, member);
        take_part(c, vector, begin, bytes, offset, c.stream().block(item, member), length);
      }
      if (reads) c.stream().drain(item);
    }
    if (reads && member != 0) {
      c.fold(folded.memory(), operand.memory(), folded.memory(), bytes);
    }
  }
  if (reads) c.place(out, folded.memory(), bytes);
  c.finish();
  co_return Status::success();
}

}  // namespace tutti
