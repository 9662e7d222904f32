// What an algorithm is handed: one collective of a team, as this rank sees it. Who takes part, what
// is to be done, its place in the team's order, and the ways to move data that depend on that place
// (team.hpp has the overview).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/copy_shared.hpp"
#include "base/task.hpp"
#include "coll/call.hpp"
#include "coll/cells.hpp"
#include "coll/stream.hpp"
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

  /// The next place in the team's order. `items`: stream items that the collective will use;
  /// `watched`: Algorithm::watched.
  void take_place(std::uint64_t items, bool watched) noexcept {
    ticket_ = team.take_ticket(items, watched);
  }
  const Ticket& ticket() const noexcept { return ticket_; }

  Team& team;
  const Call& call;

  FramePool& frames() noexcept { return team.frames(); }
  int rank() const noexcept { return team.rank(); }
  int size() const noexcept { return team.size(); }
  std::uint64_t items() const noexcept { return ticket_.items; }

  // ---- within the rank: at the cost that the fabric charges

  /// Copies, unless the data is in place already or is not carried at all.
  void place(void* destination, const void* source, std::size_t bytes) noexcept {
    if (destination == source || bytes == 0) return;
    team.fabric().spend(Work::copy, bytes);
    if (team.carries(bytes)) copy_small(destination, source, bytes);
  }
  /// place() into a shared block that others will read.
  void place_shared(void* destination, const void* source, std::size_t bytes) noexcept {
    team.fabric().spend(Work::copy, bytes);
    team.fabric().wrote(destination, bytes);
    if (team.carries(bytes)) copy_to_shared(destination, source, bytes);
  }
  /// out = left (op) right for `bytes` of whole elements, by the call's reduction.
  void fold(const void* left, const void* right, void* out, std::size_t bytes) noexcept {
    const Reduction& reduction = *call.reduction;
    team.fabric().spend(Work::reduce, bytes);
    team.fabric().wrote(out, bytes);
    if (team.carries(bytes))
      reduction.fold(left, right, out, bytes / reduction.element_bytes, reduction);
  }

  /// Whether the reduction folds all operands at once, by fold_at_once(), and never two by fold().
  bool at_once() const noexcept {
    return call.reduction != nullptr && call.reduction->sum != nullptr;
  }
  /// Folds vector_of(0) to vector_of(count - 1) of `bytes` each into `out`, which may be one of
  /// them. `count`: 1 or more.
  template <class VectorOf>
  void fold_at_once(int count, const VectorOf& vector_of, void* out, std::size_t bytes) noexcept {
    const Operands operands{[](const void* self, int member) -> const void* {
                              return (*static_cast<const VectorOf*>(self))(member);
                            },
                            &vector_of, count};
    const auto folds = static_cast<std::size_t>(count > 1 ? count - 1 : 1);
    team.fabric().spend(Work::reduce, bytes * folds);
    team.fabric().wrote(out, bytes);
    if (team.carries(bytes))
      call.reduction->sum(operands, out, bytes / call.reduction->element_bytes);
  }

  /// Awaits the end of all that was posted to `sent`; fails when a put has failed.
  Engine::Reached completed(const Completion& sent) noexcept {
    return team.engine().completed(sent, team.membership());
  }

  // ---- channels

  /// Small messages, published once and read by all.
  Cells cells() noexcept { return Cells(team, ticket_); }
  /// Blocks of a rank, each with a flag line, read by all.
  Stream stream() noexcept { return Stream(team, ticket_); }

  // ---- inbox: puts into a peer's block, the counter behind the data (team/inbox.hpp)

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

  // ---- letters: what two members have for each other (team/letters.hpp)

  /// In place of enter(), where data moves by letters and their invitations alone.
  Task enter_by_letters() noexcept { return team.inbox().enter_by_letters(ticket_); }
  Letters& letters() noexcept { return team.inbox().letters(); }

  // ---- layers

  /// On a team with layers: awaits that all earlier collectives are over on this rank.
  Engine::Reached layers_turn() noexcept {
    return team.engine().reached(team.layers_turn_, ticket_.epoch, team.membership());
  }

  // ---- end

  /// This rank is through with it. Every algorithm calls it last, on success.
  void finish() noexcept {
    if (ticket_.items != 0) team.end_stream(ticket_.first_item + ticket_.items);
    team.finished(ticket_.epoch);
  }

 private:
  Ticket ticket_;
};

}  // namespace tutti
