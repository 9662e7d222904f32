#include "fabric/world.hpp"

#include <cstring>
#include <numeric>
#include <utility>

namespace tutti::test {
namespace {

// A line for the Word of each round of the barrier, then for each sender a line for its Word and
// its message.
constexpr std::size_t kRounds = 3;
constexpr std::size_t kMailbox = kCacheLine + Node::kMessageBytes;
constexpr std::size_t mailbox(int sender) {
  return kRounds * kCacheLine + static_cast<std::size_t>(sender) * kMailbox;
}
static_assert(mailbox(kMostRanks) <= Node::kControlBytes && 1 << kRounds >= kMostRanks);

}  // namespace

Node::Node(Fabric& its_fabric, Engine& its_engine, std::function<void()> its_die)
    : fabric(its_fabric),
      engine(its_engine),
      die(std::move(its_die)),
      ranks_(static_cast<std::size_t>(its_fabric.size())) {
  std::iota(ranks_.begin(), ranks_.end(), 0);
  members.ranks = ranks_.data();
  members.size = fabric.size();
}

Task Node::barrier() {
  ++barriers_;
  for (int round = 0; (1 << round) < size(); ++round) {
    const int distance = 1 << round;
    const std::size_t offset = static_cast<std::size_t>(round) * kCacheLine;
    Remote peer;
    co_await fabric.arena_of((rank() + distance) % size(), &peer);
    const Tail tail{offset, barriers_};
    co_await fabric.put(peer, 0, nullptr, 0, &tail, &posted_);
    co_await reached(word(offset), barriers_, (rank() - distance + size()) % size());
  }
  // A fabric may carry puts out only while it is looked after.
  co_await completed(posted_);
  co_return Status::success();
}

Status Node::send(int peer, const void* data, std::size_t bytes) {
  if (bytes > kMessageBytes) return Status::error(Code::truncated, "longer than a message");
  Remote arena;
  TUTTI_TRY(fabric.arena_of(peer, &arena));
  std::memcpy(outgoing_[peer], data, bytes);
  const std::size_t offset = mailbox(rank());
  const Tail tail{offset, ++sent_[peer]};
  return fabric.put(arena, offset + kCacheLine, outgoing_[peer], bytes, &tail, &posted_);
}

Task Node::receive(int peer, void* data, std::size_t bytes) {
  const std::size_t offset = mailbox(peer);
  co_await reached(word(offset), ++received_[peer], peer);
  std::memcpy(data, arena() + offset + kCacheLine, bytes);
  co_return Status::success();
}

}  // namespace tutti::test
