// What an algorithm is handed: one collective of a team, as this rank sees it. Who takes part, what
// is to be done, its place in the team's order, and the ways to move data that depend on that place
// (team.hpp has the overview).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/copy_shared.hpp"
#include "base/task.hpp"
#include "coll/call.hpp"
#include "team/copy_small.hpp"
#include "team/team.hpp"

namespace tutti {

class Collective {
 public:
  /// Both must outlive it, and it the task that it is handed to.
  Collective(Team& its_team, const Call& its_call) noexcept : team(its_team), call(its_call) {}
  /// Another call in the place of that one, which it finishes.
  Collective(const Collective& outer, const Call& its_call) noexcept
      : team(outer.team), call(its_call), ticket_(outer.ticket_) {}
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  /// The next place in the team's order. `items`: stream items that the collective will use.
  void take_place(std::uint64_t items) noexcept { ticket_ = team.take_ticket(items); }
  const Ticket& ticket() const noexcept { return ticket_; }

  Team& team;
  const Call& call;

  FramePool& frames() noexcept { return team.frames(); }
  int rank() const noexcept { return team.rank(); }
  int size() const noexcept { return team.size(); }
  std::uint64_t items() const noexcept { return ticket_.items; }

  // ---- within the rank: at the cost that the fabric charges
  // --------------------------------------

  /// Copies, unless the data is in place already or is not carried at all.
  void place(void* destination, const void* source, std::size_t bytes) noexcept {
    if (destination == source || bytes == 0) return;
    team.fabric().spend(Work::copy, bytes);
    if (team.carries(bytes)) copy_small(destination, source, bytes);
  }
  /// place() into a shared block that others will read.
  void place_shared(void* destination, const void* source, std::size_t bytes) noexcept {
    team.fabric().spend(Work::copy, bytes);
    if (team.carries(bytes)) copy_to_shared(destination, source, bytes);
  }
  /// out = left (op) right for `bytes` of whole elements, by the call's reduction.
  void fold(const void* left, const void* right, void* out, std::size_t bytes) noexcept {
    const Reduction& reduction = *call.reduction;
    team.fabric().spend(Work::reduce, bytes);
    if (team.carries(bytes))
      reduction.fold(left, right, out, bytes / reduction.element_bytes, reduction);
  }

  /// Awaits the end of all that was posted to `sent`; fails when a put has failed.
  Engine::Reached completed(const Completion& sent) noexcept {
    return team.engine().completed(sent, team.membership());
  }

  // ---- cells: small messages, published once and read by all ------------------------------------

  // `bytes` is the size of the published message, the same for all publishers of an epoch.

  /// For a single publisher, which may run ahead: asks for the lines of the cells that come next, a
  /// publisher to own them, a reader to have a copy, so that their transfers overlap.
  void prefetch_cells(int publisher, std::size_t bytes) noexcept {
    const std::uint64_t ahead = ticket_.epoch + Team::kCellsAhead;
    const Word* line = &team.cell_of(*team.board(publisher), ahead, bytes).flag;
    if (publisher == rank()) {
      prefetch_to_write(line);
    } else {
      __builtin_prefetch(line);
    }
  }
  /// True when the own cell of this epoch may be overwritten.
  bool cell_free(std::size_t bytes) noexcept {
    const std::uint64_t cells = team.cells_for(bytes);
    if (ticket_.epoch < cells) return true;
    // This rank counts too: it reads its own cell when it folds, maybe later than the others do.
    if (team.next_done_ + cells <= ticket_.epoch) return false;
    return team.all_done(ticket_.epoch - cells + 1);
  }
  /// Waits until it may.
  Task wait_cell(std::size_t bytes) noexcept;
  /// Copies `bytes` (at most Team::kCellCapacity) into the own cell and publishes it.
  void publish(const void* data, std::size_t bytes) noexcept {
    const Team::CellView cell = team.cell_of(*team.own_board_, ticket_.epoch, bytes);
    team.fabric().spend(Work::copy, bytes);
    if (team.carries(bytes)) copy_small(cell.data, data, bytes);
    team.fabric().signal(team.job_rank(rank()), cell.flag, ticket_.epoch + 1);
    team.ring_members();
  }
  /// Awaits the cell of `member`.
  Engine::Reached published(int member, std::size_t bytes) noexcept {
    return team.reached(team.cell_of(*team.board(member), ticket_.epoch, bytes).flag,
                        ticket_.epoch + 1, member);
  }
  /// True when the cells of all members [first, last) but this rank's are there, now or soon
  /// (Engine::soon).
  bool soon_published(int first, int last, std::size_t bytes) noexcept {
    for (int member = first; member < last; ++member) {
      if (member == rank()) continue;
      const Word& flag = team.cell_of(*team.board(member), ticket_.epoch, bytes).flag;
      if (!team.engine().soon(flag, ticket_.epoch + 1)) return false;
    }
    return true;
  }
  const std::byte* cell(int member, std::size_t bytes) noexcept {
    return team.cell_of(*team.board(member), ticket_.epoch, bytes).data;
  }

  // ---- streams: blocks of a rank, each with a flag line, read by all ----------------------------

  /// Awaits this collective's turn to use the streams: one at a time per team, in their order.
  Engine::Reached turn() noexcept {
    return team.engine().reached(team.stream_turn_, ticket_.first_item, team.membership());
  }
  /// `bytes` (at most block_bytes()) of shared memory of the own arena for item `item`. False: not
  /// yet (or no memory at present): use wait_block().
  bool try_block(std::uint64_t item, std::size_t bytes, std::byte** block) noexcept;
  /// What the collective has posted must be readable without this item: its blocks may be what is
  /// waited for.
  Task wait_block(std::uint64_t item, std::size_t bytes, std::byte** block) noexcept;
  /// Publishes a block obtained from try_block/wait_block as item `item`.
  void post(std::uint64_t item, const std::byte* block, std::size_t bytes) noexcept;
  /// Publishes user memory as item `item` by its key; the flag line must be free (wait_line).
  void post_key(std::uint64_t item, const Key& key) noexcept;
  bool line_free(std::uint64_t item) noexcept { return team.line_free(stream_item(item)); }
  Task wait_line(std::uint64_t item) noexcept;
  /// Awaits item `item` of `member`.
  Engine::Reached posted(std::uint64_t item, int member) noexcept {
    return team.reached(line_of(item, member).flag, stream_item(item) + 1, member);
  }
  const std::byte* block(std::uint64_t item, int member) noexcept {
    return team.arena(member) + line_of(item, member).offset;
  }
  const Key& posted_key(std::uint64_t item, int member) noexcept {
    return line_of(item, member).key;
  }
  /// This rank has read all that it needs of the items up to and including `item`, of all members.
  void drain(std::uint64_t item) noexcept {
    team.fabric().signal(team.job_rank(rank()), team.own_board_->drained, stream_item(item) + 1);
    team.ring_members();
  }
  /// Awaits that all members have drained items up to and including `item` (own buffers may be
  /// reused).
  Task wait_drained(std::uint64_t item) noexcept;

  // ---- inbox: puts into a peer's block, the counter behind the data (team/inbox.hpp)
  // -------------

  /// Begins it: waits until this epoch's blocks are free at all members. `synchronising`: nobody
  /// finishes the collective before everybody has entered it. The same on all members.
  Task enter(bool synchronising) noexcept { return team.inbox().enter(ticket_, synchronising); }
  /// Puts `bytes` (at most Inbox::kBlockBytes) into block `index` of `member`.
  Status put(int member, int index, const void* data, std::size_t bytes,
             Completion* sent) noexcept {
    return team.inbox().put(ticket_, member, index, data, bytes, sent);
  }
  /// Awaits an own block; `from`: the member that fills it.
  Engine::Reached arrival(int index, int from) noexcept {
    return team.inbox().arrival(ticket_, index, from);
  }
  /// The data of an own block.
  std::byte* data(int index, std::size_t bytes) noexcept {
    return team.inbox().data(ticket_, index, bytes);
  }
  /// The i-th block of the broadcast part.
  int bcast_block(int i) const noexcept { return Inbox::bcast_block(size(), i); }
  /// `step` (from 1, growing) and, unless nullptr, a key. Every mail must be awaited.
  Status mail(int member, std::uint64_t step, const Key* key = nullptr) noexcept {
    return team.inbox().mail(ticket_, member, step, key);
  }
  Engine::Reached mailed(int from, std::uint64_t step) noexcept {
    return team.inbox().mailed(ticket_, from, step);
  }
  bool has_mail(int from, std::uint64_t step) noexcept {
    return team.inbox().has_mail(ticket_, from, step);
  }
  /// As mailed(), until `deadline_ns` of the engine's clock.
  Engine::Reached mailed_by(int from, std::uint64_t step, std::uint64_t deadline_ns) noexcept {
    return team.inbox().mailed_by(ticket_, from, step, deadline_ns);
  }
  const Key& mail_key(int from) noexcept { return team.inbox().mail_key(ticket_, from); }

  // ---- layers
  // ------------------------------------------------------------------------------------

  /// On a team with layers: awaits that all earlier collectives are over on this rank.
  Engine::Reached layers_turn() noexcept {
    return team.engine().reached(team.layers_turn_, ticket_.epoch, team.membership());
  }

  // ---- end
  // ---------------------------------------------------------------------------------------

  /// This rank is through with it. Every algorithm calls it last, on success.
  void finish() noexcept {
    if (ticket_.items != 0) team.end_stream(stream_item(ticket_.items));
    team.finished(ticket_.epoch);
  }

 private:
  std::uint64_t stream_item(std::uint64_t item) const noexcept { return ticket_.first_item + item; }
  StreamLine& line_of(std::uint64_t item, int member) noexcept {
    return team.board(member)->stream[stream_item(item) % kStreamLines];
  }

  Ticket ticket_;
};

}  // namespace tutti
