#include "coll/stream.hpp"

#include <sched.h>

namespace tutti {
namespace {

constexpr std::uint64_t kBlockPatience = 1'000'000'000;     // ns without hope of memory
constexpr std::uint64_t kBlockPause = 100'000;              // ns between attempts then
constexpr std::uint64_t kLongestPatience = 60'000'000'000;  // ns in which nothing has come back
constexpr std::uint64_t kLongestWrite = 1'000'000'000;      // ns; one that is stopped takes longer
const Word kNever{0};

}  // namespace

bool Stream::try_block(std::uint64_t item, std::size_t bytes, std::byte** block,
                       Readers readers) const noexcept {
  if (!line_free(item)) return false;
  team_.recycle_blocks();
  Piece piece;
  // Each team has one before another has many, so that none of them waits for ever.
  const bool has_one = team_.outstanding_head_ != team_.outstanding_.size();
  if (has_one && team_.resources_.blocks.scarce()) return false;
  // Where there is none: wait_block() says whether that lasts.
  if (!team_.resources_.blocks.take(bytes, &piece).ok()) return false;
  if (readers == Readers::all) team_.may_be_read_by_all(first_ + item);
  team_.outstanding_.push_back({first_ + item, piece});
  *block = static_cast<std::byte*>(team_.fabric().arena().base) + piece.offset;
  return true;
}

Task Stream::wait_block(Team& team, Stream stream, std::uint64_t item, std::size_t bytes,
                        std::byte** block, Readers readers) noexcept {
  co_await stream.wait_line(item);
  // Memory that runs short comes back when the others have read what is out, however late they
  // come. Only ranks that wait for memory themselves, in every team that has some, may never come.
  const BlockPool& blocks = team.resources_.blocks;
  const std::uint64_t began = team.fabric().now_ns();
  std::uint64_t hoped = began, came = began;  // when there was hope, and when blocks came back
  std::uint64_t given = blocks.given();
  team.own_board_->starved.store(1, std::memory_order_release);
  while (!stream.try_block(item, bytes, block, readers)) {
    if (!stream.line_free(item))
      co_return Status::error(Code::internal, "a stream line is not free");
    const bool lent = blocks.lent();  // before they are collected: then it tries again
    const bool coming = team.collect_all_blocks();
    const std::uint64_t now = team.fabric().now_ns();
    if (blocks.given() != given) {
      given = blocks.given();
      hoped = came = now;
      team.engine().moved_on();
      if (stream.try_block(item, bytes, block, readers)) break;
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

void Stream::post(std::uint64_t item, const std::byte* block, std::size_t bytes,
                  Readers readers) const noexcept {
  if (readers == Readers::all) team_.may_be_read_by_all(first_ + item);
  StreamLine& line = line_of(item, team_.rank());
  line.offset = offset(block);
  line.bytes = bytes;
  publish(item);
}

void Stream::post_key(std::uint64_t item, const Key& key) const noexcept {
  team_.may_be_read_by_all(first_ + item);
  line_of(item, team_.rank()).key = key;
  publish(item);
}

bool Stream::begin_write(int owner) const noexcept {
  team_.own_board_->writes.store(1, std::memory_order_seq_cst);
  if (team_.board(owner)->closed.load(std::memory_order_seq_cst) == 0) return true;
  end_write();
  return false;
}

void Stream::end_write() const noexcept {
  team_.own_board_->writes.store(0, std::memory_order_release);
}

void Stream::close_memory() const noexcept {
  team_.own_board_->closed.store(1, std::memory_order_seq_cst);
  const std::uint64_t began = team_.fabric().now_ns();
  for (int member = 0; member < team_.size(); ++member) {
    while (team_.board(member)->writes.load(std::memory_order_seq_cst) != 0 &&
           team_.fabric().now_ns() - began < kLongestWrite)
      sched_yield();
  }
}

Engine::Reached Stream::failure_of(int owner) const noexcept {
  return team_.reached(kNever, 1, owner);
}

void Stream::publish(std::uint64_t item) const noexcept {
  const int rank = team_.rank();
  team_.fabric().signal(team_.job_rank(rank), line_of(item, rank).flag, first_ + item + 1);
  team_.wake_members();
}

Task Stream::wait_line(Team& team, std::uint64_t item) noexcept {
  if (item >= kStreamLines) co_await team.wait_drained(item - kStreamLines + 1);
  co_return Status::success();
}

}  // namespace tutti
