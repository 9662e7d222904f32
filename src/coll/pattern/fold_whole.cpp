#include "coll/pattern/fold_whole.hpp"

#include <algorithm>

#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {
namespace {

/// Copies the part of a chunk that lies in [begin, begin + bytes) to where it belongs in `vector`.
void take_part(Team& t, std::byte* vector, std::size_t begin, std::size_t bytes, std::size_t offset,
               const std::byte* data, std::size_t length) noexcept {
  const std::size_t from = std::max(begin, offset);
  const std::size_t to = std::min(begin + bytes, offset + length);
  if (from < to) place(t, vector + (from - begin), data + (from - offset), to - from);
}

}  // namespace

std::uint64_t fold_whole_items(std::size_t bytes, std::size_t block, int size) noexcept {
  return chunks(bytes, block) * static_cast<std::uint64_t>(size);
}

Task fold_whole(Team& t, const Reduction& reduction, const Ticket& k, const void* send,
                std::size_t published, std::size_t begin, std::size_t bytes, bool reads, void* out,
                std::size_t block) {
  Temporary folded, operand;
  if (reads) {
    co_await folded.allocate(t, bytes);
    co_await operand.allocate(t, bytes);
  }
  co_await t.turn(k);
  if (!reads) t.drain(k, k.items - 1);
  const std::uint64_t count = chunks(published, block);
  for (int member = 0; member < t.size(); ++member) {
    auto* vector = static_cast<std::byte*>(member == 0 ? folded.memory() : operand.memory());
    for (std::uint64_t c = 0; c < count; ++c) {
      const std::uint64_t item = static_cast<std::uint64_t>(member) * count + c;
      const std::size_t offset = c * block;
      const std::size_t length = std::min(block, published - offset);
      if (member == t.rank()) {
        std::byte* own = nullptr;
        Status status;
        if (!t.try_block(k, item, length, &own, &status)) {
          co_await status;
          co_await t.wait_block(k, item, length, &own);
        }
        place_shared(t, own, at(send, offset), length);
        t.post(k, item, own, length);
        if (reads) take_part(t, vector, begin, bytes, offset, at(send, offset), length);
      } else if (reads) {
        co_await t.posted(k, item, member);
        take_part(t, vector, begin, bytes, offset, t.block(k, item, member), length);
      }
      if (reads) t.drain(k, item);
    }
    if (reads && member != 0) {
      fold_bytes(t, reduction, folded.memory(), operand.memory(), folded.memory(), bytes);
    }
  }
  if (reads) place(t, out, folded.memory(), bytes);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
