// The shared buffer of a node for a team (ALLGATHER-2006, section 4): one segment that all members
// on the node map and that the network writes to, so that data which arrives is where every one of
// them can copy it from, and data to be sent is where they have put it.
//
// It lies in the arena of the node's leader (its first member), which is registered with the
// network as a whole; any member can post puts from it and to it. Two generations of data: a use
// may write to its generation when all members of the team are through with the use before the last
// one. That needs no word of its own, because whoever uses a segment does not finish before every
// member has contributed to that use, and members use it one after the other ("synchronising").
//
// Flags count uses and steps, and only grow. On a node: one per member, written by it when its
// contribution is in place. For the network: one per step and one per node, written behind the data
// by whoever drives that step at the node that it comes from; polled by all members of this node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "team/node_map.hpp"

namespace tutti {

class Team;

class NodeSegment {
 public:
  static constexpr std::size_t kMost = std::size_t{16} << 20;  // data bytes of a generation
  static constexpr int kSteps = 32;                            // of log2 (nodes)
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};    // an offset: no memory there

  explicit NodeSegment(Team& team);  // reads Team::node_map()
  ~NodeSegment() = default;
  NodeSegment(const NodeSegment&) = delete;
  NodeSegment& operator=(const NodeSegment&) = delete;

  const NodeMap& map() const noexcept { return map_; }
  int local() const noexcept { return local_; }                     // of this rank on its node
  int locals() const noexcept { return map_.count(map_.my_node); }  // members on this node
  bool leads() const noexcept { return local_ == 0; }

  // ---- making it: collective, when nobody uses it

  /// Data bytes that the next segment is made for.
  static std::size_t rounded(std::size_t bytes) noexcept;
  /// Of the largest segment of a team of `members`, with all that belongs to it.
  static std::size_t bytes_for_most(int members) noexcept {
    return 2 * kMost + static_cast<std::size_t>(kSteps + 2 * members + 2) * kCacheLine;
  }
  bool holds(std::size_t bytes) const noexcept { return bytes <= capacity_; }
  /// Takes memory for `capacity` bytes in the own arena, where this rank is the leader of its node.
  /// Gives its offset, or kNone. In a symmetric team: the place that was set aside on every rank.
  std::uint64_t allocate(std::size_t capacity) noexcept;
  /// The offsets of all nodes, when they are known. False where one of them had no memory: then
  /// nobody has a segment.
  bool adopt(const std::uint64_t* offsets, std::size_t capacity) noexcept;
  /// Gives the memory back, when nobody will write to it any more.
  void release() noexcept;

  // ---- using it

  /// Begins the next use; the same on all members.
  void begin() noexcept { ++use_; }
  /// Data of this use on this node.
  std::byte* data(std::size_t offset) noexcept { return mapped_ + data_offset() + offset; }
  /// The contribution of this rank is in place.
  void say_written() noexcept;
  Engine::Reached written(int local) noexcept;
  /// Puts [offset, offset + bytes) of this node's data to the same place on `node`; nothing is said
  /// there yet. `sent` counts when the data may be overwritten.
  Status put(int node, std::size_t offset, std::size_t bytes, Completion* sent) noexcept {
    return put_from(node, offset, data(offset), bytes, sent);
  }
  /// The same from memory of this rank.
  Status put_from(int node, std::size_t offset, const void* source, std::size_t bytes,
                  Completion* sent) noexcept;
  /// The same, and sets the flag `flag` of `node` to `phase` of this use, behind that and all that
  /// this rank has put there before.
  Status put_and_signal(int node, int flag, std::uint64_t phase, std::size_t offset,
                        const void* source, std::size_t bytes, Completion* sent) noexcept;
  /// Awaits that. `from`: the member that does it.
  Engine::Reached signalled(int flag, std::uint64_t phase, int from) noexcept;

  /// Flags: of step s, and of what comes from a node.
  static int flag_of_step(int step) noexcept { return step; }
  static int flag_of_node(int node) noexcept { return kSteps + node; }
  /// The member that drives step `step` on `node` where `drivers` members of each node do.
  int driver(int node, int step, int drivers) const noexcept {
    return map_.member(node, step % std::min(drivers, map_.count(node)));
  }

 private:
  static constexpr int kPhaseBits = 16;

  std::int32_t leader_of(int node) const noexcept;  // job rank
  Status target(int node, Remote* out, std::size_t* base) noexcept;

  std::size_t head() const noexcept {
    return static_cast<std::size_t>(kSteps + map_.nodes) * kCacheLine;
  }
  std::size_t data_offset() const noexcept { return head() + (use_ % 2) * capacity_; }
  std::size_t bytes_for(std::size_t capacity) const noexcept {
    return head() + 2 * capacity + static_cast<std::size_t>(locals()) * kCacheLine;
  }
  Word& word(std::size_t offset) noexcept {
    return *reinterpret_cast<Word*>(mapped_ + offset * scale_);
  }
  Word& written_word(int local) noexcept {
    return word(head() + 2 * capacity_ + static_cast<std::size_t>(local) * kCacheLine);
  }
  std::uint64_t value(std::uint64_t phase) const noexcept { return use_ << kPhaseBits | phase; }

  Team& team_;
  const NodeMap& map_;
  const int local_;
  std::vector<std::uint64_t> offsets_;  // by node, in its leader's arena
  std::byte* mapped_ = nullptr;         // the own node's
  std::size_t scale_ = 1;               // Traits::arena_scale
  std::size_t capacity_ = 0;
  std::uint64_t own_offset_ = kNone;  // of what this rank has allocated ...
  std::size_t own_bytes_ = 0;         // ... and how much
  std::uint64_t use_ = 0;
};

}  // namespace tutti
