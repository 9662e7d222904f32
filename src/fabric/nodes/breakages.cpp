// Breakages between nodes: whoever fails puts what has broken into boxes on the other nodes and
// says that it has; whoever hears it there tells the ranks of its node.
#include <algorithm>
#include <cstring>
#include <vector>

#include "fabric/nodes/nodes.hpp"

namespace tutti::nodes {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t word) noexcept {
  return ((hash ^ word) * 0xbf58476d1ce4e5b9 >> 7) * 0x9e3779b97f4a7c15 + word;
}

}  // namespace

std::uint64_t NodesFabric::check_of(const BreakageNotice& notice) noexcept {
  std::uint64_t hash = mix(mix(1, notice.team[0]), notice.team[1]);
  hash = mix(hash, static_cast<std::uint64_t>(static_cast<std::uint32_t>(notice.sender)) << 32 |
                       static_cast<std::uint32_t>(notice.rank));
  hash = mix(hash, static_cast<std::uint32_t>(notice.teller));
  return mix(hash, static_cast<std::uint64_t>(notice.number) << 32 | notice.code) | 1;
}

void NodesFabric::tell_broken(std::int32_t peer, const Breakage& breakage) noexcept {
  BreakageNotice notice{{breakage.team[0], breakage.team[1]},
                        rank_,
                        breakage.rank,
                        breakage.teller,
                        ++peer_at(peer).notices_sent,
                        static_cast<std::uint32_t>(breakage.code),
                        0,
                        0};
  notice.check = check_of(notice);
  NetworkTarget place = arena_target(peer);
  place.address += arena_.bytes + notice_place(rank_, notice.number);
  if (!introduce(peer).ok()) return;
  static_cast<void>(network_->put(place, &notice, sizeof notice, nullptr, 0, nullptr));
  notify(peer, kBroken, rank_);
}

void NodesFabric::tell_broken(const Breakage& breakage, const std::int32_t* members,
                              int size) noexcept {
  if (dead_) return;
  shm_->tell_broken(breakage, members, size);
  // Every member that is connected anyway, and of each other node the first: it tells its node.
  std::vector<bool> has(names_.size());
  for (int member = 0; member < size; ++member) {
    const std::int32_t peer = members[member];
    if (!is_remote(peer)) continue;
    const auto node = static_cast<std::size_t>(node_of(peer));
    const bool connected = peer_at(peer).introduced.load(std::memory_order_relaxed);
    if ((has[node] && !connected) ||
        peer_at(peer).state.load(std::memory_order_acquire) != kPresent)
      continue;
    has[node] = true;
    tell_broken(peer, breakage);
  }
  network_->progress(true);
}

/// Before the goodbye to `peer`, which may come before what another rank has told it.
void NodesFabric::repeat_breakages(std::int32_t peer) noexcept {
  constexpr std::uint64_t kMost = 8;
  const std::uint64_t known = shm_->breakages();
  Breakage breakage;
  for (std::uint64_t i = known - std::min(known, kMost); i < known; ++i) {
    if (shm_->breakage(i, &breakage) && !breakage.every_team) tell_broken(peer, breakage);
  }
}

/// One notice, one record: where that has been overwritten, all that the sender takes part in
/// counts as broken.
void NodesFabric::hear_broken(std::int32_t sender) noexcept {
  const std::uint32_t number =
      peer_at(sender).notices_received.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::byte* box = static_cast<const std::byte*>(arena_.base) + arena_.bytes;
  BreakageNotice notice;
  std::memcpy(&notice, box + notice_place(sender, number), sizeof notice);
  Breakage breakage{{notice.team[0], notice.team[1]},
                    notice.rank,
                    notice.teller,
                    static_cast<Code>(notice.code),
                    false};
  if (notice.sender != sender || notice.check != check_of(notice))
    breakage = Breakage{{0, 0}, sender, sender, Code::internal, true};
  shm_->tell_broken(breakage, nullptr, 0);
}

}  // namespace tutti::nodes
