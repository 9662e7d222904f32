#include "team/node_segment.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "team/team.hpp"

namespace tutti {
namespace {
constexpr std::size_t kLeast = std::size_t{64} << 10;  // fewer, larger segments
}

NodeSegment::NodeSegment(Team& team)
    : team_(team),
      map_(team.node_map()),
      local_(map_.local_of[static_cast<std::size_t>(team.rank())]) {}

std::int32_t NodeSegment::leader_of(int node) const noexcept {
  return team_.job_rank(map_.member(node, 0));
}

std::size_t NodeSegment::rounded(std::size_t bytes) noexcept {
  return std::max(kLeast, std::bit_ceil(std::min(bytes, kMost)));
}

std::uint64_t NodeSegment::allocate(std::size_t capacity) noexcept {
  release();
  if (team_.symmetric()) return team_.segment_place_;  // never used memory is zero
  const std::size_t bytes = bytes_for(capacity);
  std::size_t offset = 0;
  bool fresh = false;
  if (!team_.resources_.heap.allocate(bytes, &offset, &fresh).ok()) return kNone;
  own_offset_ = offset;
  own_bytes_ = bytes;
  if (fresh) return own_offset_;  // never used memory is zero
  auto* base = static_cast<std::byte*>(team_.fabric().arena().base) + offset;
  for (std::size_t at = 0; at < head(); at += kCacheLine) new (base + at) Word(0);
  for (std::size_t at = head() + 2 * capacity; at < bytes; at += kCacheLine)
    new (base + at) Word(0);
  return own_offset_;
}

void NodeSegment::release() noexcept {
  capacity_ = 0;
  mapped_ = nullptr;
  if (own_offset_ == kNone) return;
  team_.resources_.heap.free(own_offset_, own_bytes_);
  own_offset_ = kNone;
}

bool NodeSegment::adopt(const std::uint64_t* offsets, std::size_t capacity) noexcept {
  Remote leader;
  const std::int32_t its_rank = leader_of(map_.my_node);
  Fabric& fabric = team_.fabric();
  if (std::find(offsets, offsets + map_.nodes, kNone) != offsets + map_.nodes ||
      !fabric.arena_of(its_rank, &leader).ok()) {
    release();
    return false;
  }
  void* const base = its_rank == fabric.rank() ? fabric.arena().base : leader.mapped;
  offsets_.assign(offsets, offsets + map_.nodes);
  scale_ = fabric.traits().arena_scale;
  mapped_ =
      static_cast<std::byte*>(base) + offsets_[static_cast<std::size_t>(map_.my_node)] * scale_;
  capacity_ = capacity;
  use_ = 0;
  return true;
}

void NodeSegment::say_written() noexcept {
  Fabric& fabric = team_.fabric();
  fabric.signal(leader_of(map_.my_node), written_word(local_), use_);
  if (!fabric.sleepers()) return;
  for (int i = 0; i < locals(); ++i) {
    if (i != local_) fabric.wake(team_.job_rank(map_.member(map_.my_node, i)));
  }
}

Engine::Reached NodeSegment::written(int local) noexcept {
  return team_.engine().reached(written_word(local), use_, team_.membership(),
                                team_.job_rank(map_.member(map_.my_node, local)));
}

/// The leader's arena of `node`, and where its segment's data begins there.
Status NodeSegment::target(int node, Remote* out, std::size_t* base) noexcept {
  *base = offsets_[static_cast<std::size_t>(node)];
  return team_.fabric().arena_of(leader_of(node), out);
}

Status NodeSegment::put_from(int node, std::size_t offset, const void* source, std::size_t bytes,
                             Completion* sent) noexcept {
  if (bytes == 0) return Status::success();
  Remote there;
  std::size_t base = 0;
  TUTTI_TRY(target(node, &there, &base));
  return team_.fabric().put(there, base + data_offset() + offset, source, bytes, nullptr, sent);
}

Status NodeSegment::put_and_signal(int node, int flag, std::uint64_t phase, std::size_t offset,
                                   const void* source, std::size_t bytes,
                                   Completion* sent) noexcept {
  Remote there;
  std::size_t base = 0;
  TUTTI_TRY(target(node, &there, &base));
  const Tail tail{base + static_cast<std::size_t>(flag) * kCacheLine, value(phase)};
  return team_.fabric().put(there, base + data_offset() + offset, source, bytes, &tail,
                            bytes == 0 ? nullptr : sent);
}

Engine::Reached NodeSegment::signalled(int flag, std::uint64_t phase, int from) noexcept {
  return team_.engine().reached(word(static_cast<std::size_t>(flag) * kCacheLine), value(phase),
                                team_.membership(), team_.job_rank(from));
}

}  // namespace tutti
