#include "team/inbox.hpp"

#include <algorithm>
#include <new>

#include "team/team.hpp"

namespace tutti {
namespace {

/// The barrier's words come first, then the blocks of generation 0, 1, ...
constexpr std::size_t kHead = (Inbox::kMaxRounds * sizeof(Word) + kCacheLine - 1) / kCacheLine * kCacheLine;

int steps_of_degree(int size, int degree) {
  int steps = 0;
  for (std::int64_t reach = 1; reach < size; reach *= degree + 1) ++steps;
  return steps;
}

std::size_t stride_of(std::size_t capacity) {
  // Payload elided: counters lie side by side, or a page would be touched for each of them.
  return capacity == 0 ? sizeof(Word) : (capacity + sizeof(Word) + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace

Inbox::~Inbox() = default;

FramePool& Inbox::frames() noexcept { return team_.frames(); }

int Inbox::reduce_blocks(int size) noexcept {
  int blocks = kBcastBlocks * steps_of_degree(size, 1);
  for (const int degree : {1, 3, 7, 15}) {
    const int children = std::min(degree * steps_of_degree(size, degree), size - 1);
    blocks = std::max(blocks, children);
  }
  return blocks;
}

std::size_t Inbox::bytes(int size, bool elided) noexcept {
  const auto blocks = static_cast<std::size_t>(reduce_blocks(size) + kBcastBlocks);
  return kHead + kGenerations * blocks * stride_of(elided ? 0 : kBlockBytes);
}

Status Inbox::open() noexcept {
  const bool elided = team_.fabric().traits().elided_payload;
  blocks_ = reduce_blocks(team_.size()) + kBcastBlocks;
  capacity_ = elided ? 0 : kBlockBytes;
  stride_ = stride_of(capacity_);
  const std::size_t total = bytes(team_.size(), elided);
  bool fresh = false;
  TUTTI_TRY(team_.resources_.heap.allocate(total, &offset_, &fresh));
  team_.shared_bytes_ += total;
  scale_ = team_.fabric().traits().arena_scale;
  base_ = static_cast<std::byte*>(team_.fabric().arena().base) + offset_ * scale_;
  if (!fresh) clear();  // never used memory is zero, and stays untouched until a block is used
  team_.inbox_in_use_ = true;
  finished(team_.next_done_);
  if (team_.mapped_) {
    team_.fabric().signal(team_.job_rank(team_.rank()), team_.own_board_->inbox, offset_ + 1);
    team_.ring_members();
  }
  return Status::success();
}

void Inbox::clear() noexcept {
  for (int round = 0; round < kMaxRounds; ++round) new (base_ + round * sizeof(Word)) Word(0);
  for (std::uint64_t epoch = 0; epoch < kGenerations; ++epoch) {
    for (int index = 0; index < blocks_; ++index) new (&tail(Ticket{epoch, 0, 0}, index)) Word(0);
  }
}

std::size_t Inbox::block_offset(const Ticket& ticket, int index) const noexcept {
  const std::uint64_t generation = ticket.epoch % kGenerations;
  const auto place = generation * static_cast<std::uint64_t>(blocks_) + static_cast<std::uint64_t>(index);
  return kHead + place * stride_;
}

Word& Inbox::tail(const Ticket& ticket, int index) noexcept {
  return word_at(block_offset(ticket, index) + stride_ - sizeof(Word));
}

Task Inbox::enter(const Ticket& ticket, bool synchronising) noexcept {
  if (base_ == nullptr) TUTTI_CO_TRY(open());
  const std::uint64_t epoch = ticket.epoch;
  if (team_.mapped_) {
    for (int member = 0; member < team_.size(); ++member) {
      const Word& opened = team_.board(member)->inbox;
      TUTTI_CO_TRY(co_await team_.engine().reached(opened, 1, team_.membership_, team_.job_rank(member)));
    }
    if (epoch >= kGenerations && !team_.all_done(epoch - kGenerations + 1)) {
      TUTTI_CO_TRY(co_await team_.wait_done(epoch - kGenerations + 1));
    }
    co_return Status::success();
  }
  TUTTI_CO_TRY(co_await team_.engine().reached(in_order_, epoch, team_.membership_));
  if (epoch % kWindow == 0) {
    if (epoch != 0 && !synchronised_) TUTTI_CO_TRY(co_await dissemination_barrier(epoch / kWindow));
    synchronised_ = false;
  }
  if (synchronising) synchronised_ = true;
  co_return Status::success();
}

Task Inbox::dissemination_barrier(std::uint64_t number) noexcept {
  const int size = team_.size();
  for (int round = 0; (std::int64_t{1} << round) < size; ++round) {
    const auto distance = static_cast<int>(std::int64_t{1} << round);
    Remote peer;
    TUTTI_CO_TRY(remote((team_.rank() + distance) % size, &peer));
    const auto place = static_cast<std::size_t>(round) * sizeof(Word);
    const Tail tail{offset_ + place, number};
    TUTTI_CO_TRY(team_.fabric().put(peer, 0, nullptr, 0, &tail, nullptr));
    const Word& mine = word_at(place);
    const int from = (team_.rank() - distance + size) % size;
    TUTTI_CO_TRY(co_await team_.engine().reached(mine, number, team_.membership_, team_.job_rank(from)));
  }
  co_return Status::success();
}

Status Inbox::remote(int member, Remote* out) noexcept {
  return team_.fabric().arena_of(team_.job_rank(member), out);
}

Status Inbox::put(const Ticket& ticket, int member, int index, const void* data, std::size_t bytes,
                  Completion* completion) noexcept {
  if (bytes > kBlockBytes) return Status::error(Code::truncated, "larger than an inbox block");
  Remote peer;
  TUTTI_TRY(remote(member, &peer));
  const std::size_t inbox = team_.mapped_
      ? team_.board(member)->inbox.load(std::memory_order_acquire) - 1 : offset_;
  const std::size_t counter = inbox + block_offset(ticket, index) + stride_ - sizeof(Word);
  const Tail tail{counter, ticket.epoch + 1};
  const std::size_t start = capacity_ == 0 ? counter : counter - bytes;
  return team_.fabric().put(peer, start, data, bytes, &tail, completion);
}

Engine::Reached Inbox::arrival(const Ticket& ticket, int index, int from) noexcept {
  return team_.engine().reached(tail(ticket, index), ticket.epoch + 1, team_.membership_,
                                team_.job_rank(from));
}

std::byte* Inbox::data(const Ticket& ticket, int index, std::size_t bytes) noexcept {
  auto* counter = reinterpret_cast<std::byte*>(&tail(ticket, index));
  return capacity_ == 0 ? base_ : counter - bytes;
}

}  // namespace tutti
