// The inbox of a team member: blocks that peers put into, one-sided (VIA-2003, section 3.1).
//
// A block is filled from the bottom: the data ends where the counter begins, so the counter is
// always at the same place, whatever the size (VIA-2003, Figure 2). The counter is the epoch, so
// nothing has to be reset before a block is used again. Blocks of an epoch are block 0 ... blocks-1
// of generation epoch % kGenerations; memory is O(k log N) blocks instead of the paper's N.
//
// Safe reuse (the paper's notification buffer): an epoch may use its generation when all members
// have finished the epoch that used it before. Where members map each other's boards that is read
// from there. Elsewhere epochs enter in order, and it is known from a synchronising collective in
// between (the paper's argument for allreduce), or else from a dissemination barrier of one-sided
// signals, one for each window of kWindow epochs, that has been under way since; what is known
// depends only on the order of collectives and so is the same on all members. Epochs that use
// letters (team/letters.hpp) and no generation need none of that.
//
// Larger messages go straight to the user's memory (VIA-2003, section 3.3: dynamic registration):
// the receiver sends the key of its buffer by mail, the sender puts there and mails that it is
// done. Every member has a mail slot for each other one and generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "team/letters.hpp"

namespace tutti {

class Team;
struct Ticket;

class Inbox {
 public:
  static constexpr std::uint64_t kGenerations = 8;
  static constexpr std::uint64_t kWindow = kGenerations / 2;
  static constexpr int kMaxRounds = 32;                 // of the barrier: up to 2^32 members
  static constexpr std::size_t kBlockBytes = 5 * 1024;  // data bytes of a block (VIA-2003: 5 KB)
  static constexpr int kBcastBlocks = 5;                // blocks for the broadcast part of an epoch
  static constexpr int kMostMail = 4096;                // members of teams that have mail slots
  static constexpr int kMostElidedMail = 1 << 17;       // ... without payload: words, no keys

  /// Whether members of a team of that size have mail slots, and letters.
  static bool has_mail(int size, bool elided) noexcept { return !elided && size <= kMostMail; }

  explicit Inbox(Team& team) noexcept : team_(team), letters_(team) {}
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  /// Blocks for the reduce part: what the largest of the degrees 1, 3, 7, 15 needs for `size`
  /// members, and what a binomial tree does whose messages are cut into kBcastBlocks packets.
  static int reduce_blocks(int size) noexcept;
  /// Shared bytes of an inbox; without the blocks' data where the payload is elided, with the area
  /// of the ring (team/reliable_ring.hpp) where the fabric has multicast.
  static std::size_t bytes(int size, bool elided, bool ring) noexcept;
  /// The same of a team that has letters alone: no blocks, no mail.
  static std::size_t letters_bytes(int size) noexcept;

  /// Begins an epoch: makes the own inbox if need be, and waits until this epoch's blocks are free
  /// at all members. `synchronising`: nobody finishes the collective before everybody has entered
  /// it. The same on all members.
  Task enter(const Ticket& ticket, bool synchronising) noexcept;
  /// Begins an epoch that moves its data by letters and invitations alone: waits for nobody.
  Task enter_by_letters(const Ticket& ticket) noexcept;

  /// Puts `bytes` (at most kBlockBytes) into block `index` of `member`, counter behind the data.
  /// `data` may be reused when `completion` has counted; on fabrics that copy, at once.
  Status put(const Ticket& ticket, int member, int index, const void* data, std::size_t bytes,
             Completion* completion) noexcept;
  /// Awaits the counter of an own block; `from`: the member that fills it.
  Engine::Reached arrival(const Ticket& ticket, int index, int from) noexcept;
  /// The data of an own block.
  std::byte* data(const Ticket& ticket, int index, std::size_t bytes) noexcept;
  /// For Team::finish: all epochs below `epoch` have finished on this rank.
  void finished(std::uint64_t epoch) noexcept { in_order_.store(epoch, std::memory_order_release); }

  /// Raises the counter of an own block that was filled from here, for members that fetch it.
  void fill(const Ticket& ticket, int index) noexcept;
  /// Reads the counter of a block of `member`: ticket.epoch + 1 where it is filled. Then the data,
  /// of which there are `bytes`. Both get(): `completion` counts.
  Status fetch_counter(const Ticket& ticket, int member, int index, std::uint64_t* out,
                       Completion* completion) noexcept;
  Status fetch(const Ticket& ticket, int member, int index, void* out, std::size_t bytes,
               Completion* completion) noexcept;

  /// Mail: `step` (from 1, growing within the epoch) and, unless nullptr, a key. Seen no earlier
  /// than what this rank has put to that member before. Every mail must be awaited by its receiver.
  Status mail(const Ticket& ticket, int member, std::uint64_t step, const Key* key) noexcept;
  Engine::Reached mailed(const Ticket& ticket, int from, std::uint64_t step) noexcept;
  bool has_mail(const Ticket& ticket, int from, std::uint64_t step) noexcept;
  /// As mailed(), until `deadline_ns` of the engine's clock.
  Engine::Reached mailed_by(const Ticket& ticket, int from, std::uint64_t step,
                            std::uint64_t deadline_ns) noexcept;
  const Key& mail_key(const Ticket& ticket, int from) noexcept;

  /// Between members of teams that have mail slots.
  Letters& letters() noexcept { return letters_; }

  /// On networks without symmetric memory: where the inboxes of the others are.
  Task meet() noexcept;
  /// Ends the team's communication, step by step: true when all members have got here, and nothing
  /// that they have put into this inbox is still on its way. Of a team that is not broken: what
  /// its algorithms put has been awaited, or goes 2^k places around the ring.
  bool say_farewell() noexcept;

  static int bcast_block(int size, int block) noexcept { return reduce_blocks(size) + block; }

  FramePool& frames() noexcept;
  /// Place of the own inbox in the arena; meaningful once it is in use.
  std::size_t offset() const noexcept { return offset_; }

 private:
  friend class Team;
  friend class Letters;
  friend class ReliableRing;
  Status open() noexcept;
  Task wait_to_enter(const Ticket& ticket, bool synchronising) noexcept;
  Task wait_for_turn(const Ticket& ticket) noexcept;
  bool known_free(std::uint64_t epoch) const noexcept;
  Status entered(std::uint64_t epoch, bool synchronising) noexcept;
  void clear() noexcept;
  void clear_ring() noexcept;
  bool has_ring() const noexcept;
  std::size_t total_bytes() const noexcept;
  std::size_t ring_place() const noexcept;  // of its area, from the start of the inbox
  std::size_t letters_place() const noexcept;  // of their lines
  Task look_up(int member, std::size_t* offset) noexcept;
  std::size_t inbox_of(int member) const noexcept;
  static std::uint64_t mail_value(const Ticket& ticket, std::uint64_t step) noexcept;
  std::size_t counter_of(const Ticket& ticket, int member, int index) const noexcept;
  std::size_t mail_offset(const Ticket& ticket, int member) const noexcept;
  Status signal(int member, std::size_t place, std::uint64_t value) noexcept;
  Status remote(int member, Remote* out) noexcept;
  Status advance_barrier() noexcept;
  Status passed(std::uint64_t epoch) noexcept;
  Task end_barrier(std::uint64_t epoch) noexcept;
  Word& barrier_word(int round) noexcept {
    return word_at(static_cast<std::size_t>(round) * sizeof(Word));
  }
  std::size_t block_offset(const Ticket& ticket, int index) const noexcept;
  Word& tail(const Ticket& ticket, int index) noexcept;
  Word& word_at(std::size_t offset) noexcept {
    return *reinterpret_cast<Word*>(base_ + offset * scale_);
  }

  Team& team_;
  std::byte* base_ = nullptr;  // of the own inbox
  std::size_t offset_ = 0;     // of the own inbox in the arena
  std::size_t capacity_ = 0;   // data bytes of a block as laid out (0 where the payload is elided)
  std::size_t stride_ = 0;     // from block to block
  std::size_t scale_ = 1;      // Traits::arena_scale
  int blocks_ = 0;             // per generation
  Word in_order_{0};           // epochs below have finished here; local
  std::vector<std::uint64_t> offsets_;  // of the members' inboxes, on networks; by member
  bool meeting_ = false;
  Word met_{0};             // 1 when offsets_ is complete; local
  int farewells_said_ = 0;  // rounds of say_farewell()
  int farewells_heard_ = 0;
  // Who has entered barrier n has finished all epochs before window n - 1.
  std::uint64_t barrier_ = 0;  // the last one that was begun
  int barrier_said_ = 0;       // rounds of it that this rank has signalled
  std::uint64_t all_finished_ = 0;          // all members have finished the epochs below
  std::uint64_t used_[kGenerations] = {};   // the last epoch that used it, from 1
  std::uint64_t last_used_ = 0;             // the last of these
  Letters letters_;
};

}  // namespace tutti
