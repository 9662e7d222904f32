// Cells: small messages of a collective, published once and read by all (team/board.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/copy_shared.hpp"
#include "base/demote.hpp"
#include "base/task.hpp"
#include "team/cell_tree.hpp"
#include "team/copy_small.hpp"
#include "team/team.hpp"

namespace tutti {

/// The cells of one collective's epoch. A view: as long as team and ticket live. `bytes` is the
/// size of the published message, the same for all publishers of an epoch but where it says that
/// either cell may be the published one.
///
/// A cell is published for all members, or for the neighbours in a tree alone. Such a cell may be
/// published twice in its epoch: first what has been folded below (`part`), then the result
/// (`whole`), which comes when the only reader of the part has read it.
class Cells {
 public:
  enum class Phase : std::uint8_t { part = 1, whole = 2 };

  Cells(Team& team, const Ticket& ticket) noexcept : team_(team), epoch_(ticket.epoch) {}

  /// For publishers that may run ahead: asks for the lines of the cells that come next, a publisher
  /// to own them, a reader to have a copy, so that their transfers overlap.
  void prefetch_own(std::size_t bytes) const noexcept {
    const char* const line = next_cell(team_.rank(), bytes);
    prefetch_to_write(line);
    if (fills_two_lines(bytes)) prefetch_to_write(line + kCacheLine);
  }
  void prefetch(int publisher, std::size_t bytes) const noexcept {
    const char* const line = next_cell(publisher, bytes);
    prefetch_to_read(line);
    if (fills_two_lines(bytes)) prefetch_to_read(line + kCacheLine);
    if (!Team::is_small(bytes)) prefetch_published(publisher, bytes);
  }
  /// True when the own cell of this epoch may be overwritten.
  bool free(std::size_t bytes) const noexcept {
    const std::uint64_t cells = team_.cells_for(bytes);
    if (epoch_ < cells) return true;
    // This rank counts too: it reads its own cell when it folds, maybe later than the others do.
    if (team_.next_done_ + cells <= epoch_) return false;
    return team_.all_done(epoch_ - cells + 1);
  }
  /// Waits until it may.
  Task wait_free(std::size_t bytes) const noexcept { return wait_free(team_, epoch_, bytes); }
  /// Copies `bytes` (at most Team::kCellCapacity) into the own cell and publishes it.
  /// `awaited`: its readers wait for it, and do not come to it later.
  void publish(const void* data, std::size_t bytes, bool awaited) const noexcept {
    fill(data, bytes);
    if (awaited && bytes > kBesideFlag && team_.fabric().traits().demotes)
      demote(own(bytes) + kBesideFlag, own(bytes) + bytes);
    publish_composed(bytes);
  }
  /// The same of what has been composed in own().
  void publish_composed(std::size_t bytes) const noexcept {
    signal(bytes, Phase::whole);
    team_.read_by_all_until_ = std::max(team_.read_by_all_until_, epoch_ + 1);
    team_.wake_members();
  }
  /// Awaits the cell of `member`.
  Engine::Reached published(int member, std::size_t bytes,
                            Phase phase = Phase::whole) const noexcept {
    return team_.reached(team_.cell_of(*team_.board(member), epoch_, bytes).flag, flag(phase),
                         member);
  }
  /// True when the cell of `member` is there now.
  bool is_published(int member, std::size_t bytes) const noexcept {
    const Word& word = team_.cell_of(*team_.board(member), epoch_, bytes).flag;
    if (word.load(std::memory_order_acquire) < flag(Phase::whole)) return false;
    team_.fabric().look(&word, sizeof word);
    return true;
  }
  /// Awaits the small or the large cell of `member`, who publishes one of them; is_published() says
  /// which.
  Engine::Reached either_published(int member) const noexcept {
    Board& board = *team_.board(member);
    return team_.engine().reached_either(
        board.small_cell(team_.cell_counts_, epoch_).flag,
        board.cell(team_.cell_counts_, epoch_).flag, flag(Phase::whole), team_.membership(),
        team_.job_rank(member));
  }
  /// True when one of the two is there, now or soon (Engine::soon).
  bool either_soon_published(int member) const noexcept {
    constexpr std::size_t kSmall = kSmallCellBytes - sizeof(Word), kLarge = Team::kCellCapacity;
    return team_.engine().soon_as([this, member] {
      return is_published(member, kSmall) || is_published(member, kLarge);
    });
  }
  /// True when the cells of all members [first, last) but this rank's are there, now or soon
  /// (Engine::soon).
  bool soon_published(int first, int last, std::size_t bytes) const noexcept {
    for (int member = first; member < last; ++member) {
      if (member == team_.rank()) continue;
      const Word& word = team_.cell_of(*team_.board(member), epoch_, bytes).flag;
      if (!team_.engine().soon(word, flag(Phase::whole))) return false;
    }
    return true;
  }

  // ---- within a tree, where only neighbours read the own cell

  /// As free(), for the neighbours alone.
  bool free(const CellTree& tree, std::size_t bytes) const noexcept {
    if (team_.tree_ != &tree) change_tree(tree);
    const std::uint64_t cells = team_.cells_for(bytes);
    if (epoch_ < cells) return true;
    const std::uint64_t needed = epoch_ - cells + 1;
    if (team_.next_done_ < needed) return false;
    if (team_.read_by_all_until_ >= needed) return team_.all_done(needed);
    if (team_.neighbours_floor_ >= needed) return true;
    std::uint64_t floor = ~std::uint64_t{0};
    for (int i = 0; tree.neighbour(i) >= 0; ++i) {
      const Word& done = team_.board(tree.neighbour(i))->done;
      team_.fabric().look(&done, sizeof done);
      floor = std::min(floor, done.load(std::memory_order_acquire));
    }
    team_.neighbours_floor_ = floor;
    return floor >= needed;
  }
  Task wait_free(const CellTree& tree, std::size_t bytes) const noexcept {
    return wait_free(team_, epoch_, tree, bytes);
  }
  /// Where a message is composed in place.
  std::byte* own(std::size_t bytes) const noexcept {
    return team_.cell_of(*team_.own_board_, epoch_, bytes).data;
  }
  void fill(const void* data, std::size_t bytes) const noexcept {
    team_.fabric().spend(Work::copy, bytes);
    team_.fabric().wrote(own(bytes), bytes);
    if (!team_.carries(bytes)) return;
    // Of publishers that run ahead, a small cell's lines have been asked for (prefetch_own).
    Team::is_small(bytes) ? copy_small(own(bytes), data, bytes)
                          : copy_to_shared(own(bytes), data, bytes);
  }
  /// Publishes what the own cell holds, for the neighbours.
  void publish(const CellTree& tree, std::size_t bytes, Phase phase) const noexcept {
    signal(bytes, phase);
    if (!team_.fabric().sleepers()) return;
    for (int i = 0; tree.neighbour(i) >= 0; ++i)
      team_.fabric().wake_reader(team_.job_rank(tree.neighbour(i)));
  }
  const std::byte* data(int member, std::size_t bytes) const noexcept {
    const std::byte* const data = place(member, bytes);
    team_.fabric().look(data, bytes);
    return data;
  }
  /// Where that is, for readers that find out there how much of it they look at.
  const std::byte* place(int member, std::size_t bytes) const noexcept {
    return team_.cell_of(*team_.board(member), epoch_, bytes).data;
  }

 private:
  static constexpr std::size_t kBesideFlag = kCacheLine - sizeof(Word);  // bytes in its line

  std::uint64_t flag(Phase phase) const noexcept {
    return 2 * epoch_ + static_cast<std::uint64_t>(phase);
  }
  void signal(std::size_t bytes, Phase phase) const noexcept {
    Word& word = team_.cell_of(*team_.own_board_, epoch_, bytes).flag;
    team_.fabric().signal(team_.job_rank(team_.rank()), word, flag(phase));
  }
  /// The cells of all collectives that have their place were or will be published for neighbours in
  /// another tree: anybody may read them.
  void change_tree(const CellTree& tree) const noexcept {
    if (team_.tree_ != nullptr)
      team_.read_by_all_until_ = std::max(team_.read_by_all_until_, team_.next_epoch_);
    team_.tree_ = &tree;
    team_.neighbours_floor_ = 0;
  }
  /// Larger ones are asked for when they are written.
  static bool fills_two_lines(std::size_t bytes) noexcept {
    return bytes > kBesideFlag && Team::is_small(bytes);
  }
  /// The next cell, if it is there already: otherwise its publisher would have to ask for its lines
  /// again.
  void prefetch_published(int publisher, std::size_t bytes) const noexcept {
    const Team::CellView next = team_.cell_of(*team_.board(publisher), epoch_ + 1, bytes);
    if (next.flag.load(std::memory_order_relaxed) != flag(Phase::whole) + 2) return;
    for (std::size_t at = kBesideFlag; at < bytes; at += kCacheLine)
      prefetch_to_read(next.data + at);
  }
  const char* next_cell(int publisher, std::size_t bytes) const noexcept {
    const std::uint64_t ahead = epoch_ + Team::kCellsAhead;
    return reinterpret_cast<const char*>(
        &team_.cell_of(*team_.board(publisher), ahead, bytes).flag);
  }
  static Task wait_free(Team& team, std::uint64_t epoch, std::size_t bytes) noexcept;
  static Task wait_free(Team& team, std::uint64_t epoch, const CellTree& tree,
                        std::size_t bytes) noexcept;

  Team& team_;
  const std::uint64_t epoch_;
};

}  // namespace tutti
