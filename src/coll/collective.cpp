#include "coll/collective.hpp"

#include <algorithm>

namespace tutti {
namespace {

constexpr std::uint64_t kBlockPatience = 1'000'000'000;     // ns without hope of memory
constexpr std::uint64_t kBlockPause = 100'000;              // ns between attempts then
constexpr std::uint64_t kLongestPatience = 60'000'000'000;  // ns in which nothing has come back
const Word kNever{0};

}  // namespace

Task Collective::wait_cell(std::size_t bytes) noexcept {
  // For half of the cells at once: who waits for every single one keeps taking the counter's line
  // away from the member that is to increase it.
  const std::uint64_t cells = team.cells_for(bytes);
  const std::uint64_t needed = ticket_.epoch - cells + 1;
  co_await team.wait_done(needed + cells / 2);
  co_await team.reached(team.own_board_->done, needed, rank());
  co_return Status::success();
}

bool Collective::try_block(std::uint64_t item, std::size_t bytes, std::byte** block) noexcept {
  if (!line_free(item)) return false;
  team.recycle_blocks();
  Piece piece;
  // Each team has one before another has many, so that none of them waits for ever.
  const bool has_one = team.outstanding_head_ != team.outstanding_.size();
  if (has_one && team.resources_.blocks.scarce()) return false;
  // Where there is none: wait_block() says whether that lasts.
  if (!team.resources_.blocks.take(bytes, &piece).ok()) return false;
  team.outstanding_.push_back({stream_item(item), piece});
  *block = static_cast<std::byte*>(team.fabric().arena().base) + piece.offset;
  return true;
}

Task Collective::wait_block(std::uint64_t item, std::size_t bytes, std::byte** block) noexcept {
  co_await wait_line(item);
  // Memory that runs short comes back when the others have read what is out, however late they
  // come. Only ranks that wait for memory themselves, in every team that has some, may never come.
  const BlockPool& blocks = team.resources_.blocks;
  const std::uint64_t began = team.fabric().now_ns();
  std::uint64_t hoped = began, came = began;  // when there was hope, and when blocks came back
  std::uint64_t given = blocks.given();
  team.own_board_->starved.store(1, std::memory_order_release);
  while (!try_block(item, bytes, block)) {
    if (!line_free(item)) co_return Status::error(Code::internal, "a stream line is not free");
    const bool lent = blocks.lent();  // before they are collected: then it tries again
    const bool coming = team.collect_all_blocks();
    const std::uint64_t now = team.fabric().now_ns();
    if (blocks.given() != given) {
      given = blocks.given();
      hoped = came = now;
      team.engine().moved_on();
      if (try_block(item, bytes, block)) break;
    }
    if (coming) hoped = now;
    if (!lent || now - hoped > kBlockPatience || now - came > kLongestPatience)
      co_return Status::error(Code::no_memory, "no shared memory for a block");
    co_await team.engine().worth_waiting(team.membership(), began);
    co_await team.engine().reached_by(kNever, 1, now + kBlockPause, team.membership());
  }
  team.own_board_->starved.store(0, std::memory_order_relaxed);
  team.engine().moved_on();  // seen on the clock, but not its doing
  co_return Status::success();
}

void Collective::post(std::uint64_t item, const std::byte* block, std::size_t bytes) noexcept {
  StreamLine& line = line_of(item, rank());
  line.offset =
      static_cast<std::uint64_t>(block - static_cast<const std::byte*>(team.fabric().arena().base));
  line.bytes = bytes;
  team.fabric().signal(team.job_rank(rank()), line.flag, stream_item(item) + 1);
  team.ring_members();
}

void Collective::post_key(std::uint64_t item, const Key& key) noexcept {
  StreamLine& line = line_of(item, rank());
  line.key = key;
  team.fabric().signal(team.job_rank(rank()), line.flag, stream_item(item) + 1);
  team.ring_members();
}

Task Collective::wait_line(std::uint64_t item) noexcept {
  const std::uint64_t n = stream_item(item);
  if (n >= kStreamLines) co_await team.wait_drained(n - kStreamLines + 1);
  co_return Status::success();
}

Task Collective::wait_drained(std::uint64_t item) noexcept {
  return team.wait_drained(stream_item(item) + 1);
}

}  // namespace tutti
