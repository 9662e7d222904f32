// Stream: a rank's blocks of shared memory, each with a flag line, read by all (team/board.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/task.hpp"
#include "team/team.hpp"

namespace tutti {

/// Who may read what a rank has posted: any member, or its peers along the machine (MachineLevels)
/// alone. Whether they have is asked of those. Both where a block is taken and where it is posted.
enum class Readers : std::uint8_t { all, peers };

/// One collective's items in the streams of all members; items count from 0. A view: as long as
/// the team lives.
class Stream {
 public:
  Stream(Team& team, const Ticket& ticket) noexcept : team_(team), first_(ticket.first_item) {}

  /// Awaits this collective's turn to use the streams: one at a time per team, in their order.
  Engine::Reached turn() const noexcept {
    return team_.engine().reached(team_.stream_turn_, first_, team_.membership());
  }
  bool has_turn() const noexcept {
    return team_.stream_turn_.load(std::memory_order_relaxed) >= first_;
  }
  /// `bytes` (at most block_bytes()) of shared memory of the own arena for item `item`. False: not
  /// yet (or no memory at present): use wait_block().
  bool try_block(std::uint64_t item, std::size_t bytes, std::byte** block,
                 Readers readers = Readers::all) const noexcept;
  /// What the collective has posted must be readable without this item: its blocks may be what is
  /// waited for.
  Task wait_block(std::uint64_t item, std::size_t bytes, std::byte** block,
                  Readers readers = Readers::all) const noexcept {
    return wait_block(team_, *this, item, bytes, block, readers);
  }
  /// Publishes a block obtained from try_block/wait_block as item `item`.
  void post(std::uint64_t item, const std::byte* block, std::size_t bytes,
            Readers readers = Readers::all) const noexcept;
  /// All members have posted something of this collective, so they have read what they had to of
  /// the earlier ones.
  void all_have_begun() const noexcept {
    team_.drained_floor_ = std::max(team_.drained_floor_, first_);
  }
  /// Publishes user memory as item `item` by its key; the flag line must be free (wait_line).
  void post_key(std::uint64_t item, const Key& key) const noexcept;
  bool line_free(std::uint64_t item) const noexcept { return team_.line_free(first_ + item); }
  Task wait_line(std::uint64_t item) const noexcept { return wait_line(team_, first_ + item); }
  /// Awaits item `item` of `member`.
  Engine::Reached posted(std::uint64_t item, int member) const noexcept {
    return team_.reached(line_of(item, member).flag, first_ + item + 1, member);
  }
  const std::byte* block(std::uint64_t item, int member) const noexcept {
    const StreamLine& line = line_of(item, member);
    const std::byte* const block = team_.arena(member) + line.offset;
    team_.fabric().look(block, line.bytes);
    return block;
  }
  /// `bytes` of that block, from `begin` on: for those that read no more of it.
  const std::byte* part(std::uint64_t item, int member, std::size_t begin,
                        std::size_t bytes) const noexcept {
    const std::byte* const part = team_.arena(member) + line_of(item, member).offset + begin;
    team_.fabric().look(part, bytes);
    return part;
  }
  /// Where a block of the own arena is, for those that do not learn it from a line; and a block of
  /// `member`, which they may write to where the algorithm says so.
  std::uint64_t offset(const std::byte* block) const noexcept {
    return static_cast<std::uint64_t>(block -
                                      static_cast<const std::byte*>(team_.fabric().arena().base));
  }
  std::byte* memory(int member, std::uint64_t offset) const noexcept {
    return team_.arena(member) + offset;
  }
  const Key& posted_key(std::uint64_t item, int member) const noexcept {
    return line_of(item, member).key;
  }
  /// This rank has read all that it needs of the items up to and including `item`, of all members.
  void drain(std::uint64_t item) const noexcept {
    team_.fabric().signal(team_.job_rank(team_.rank()), team_.own_board_->drained,
                          first_ + item + 1);
    team_.wake_members();
  }
  /// Awaits that all members have drained items up to and including `item` (own buffers may be
  /// reused).
  Task wait_drained(std::uint64_t item) const noexcept {
    return team_.wait_drained(first_ + item + 1);
  }
  /// Around a write into the memory whose key `owner` has posted: it may come after the owner's
  /// collective has failed, and the memory is the program's again. False: nobody may write there.
  bool begin_write(int owner) const noexcept;
  void end_write() const noexcept;
  /// Lets nobody write into this rank's memory any more, and waits for those that are at it: what
  /// they write is a copy away from its end, so not for long. After a failure.
  void close_memory() const noexcept;
  /// Fails as the team does, which `owner` has seen.
  Engine::Reached failure_of(int owner) const noexcept;

 private:
  static Task wait_block(Team& team, Stream stream, std::uint64_t item, std::size_t bytes,
                         std::byte** block, Readers readers) noexcept;
  static Task wait_line(Team& team, std::uint64_t item) noexcept;
  StreamLine& line_of(std::uint64_t item, int member) const noexcept {
    return team_.board(member)->stream[(first_ + item) % kStreamLines];
  }
  void publish(std::uint64_t item) const noexcept;

  Team& team_;
  const std::uint64_t first_;
};

}  // namespace tutti
