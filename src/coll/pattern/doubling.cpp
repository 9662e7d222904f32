#include "coll/pattern/doubling.hpp"

#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/partners.hpp"

namespace tutti {
namespace {

/// Exchanges vectors: slot 0 is for the neighbour, slot 1 + r for the partner of round r.
class Exchange {
 public:
  Exchange(Team& t, const Ticket& k, std::size_t bytes) noexcept
      : t_(t), k_(k), bytes_(bytes), window_(t), eager_(bytes <= Inbox::kBlockBytes) {}
  FramePool& frames() noexcept { return t_.frames(); }

  Status open(int slots) noexcept {
    if (eager_) return Status::success();
    TUTTI_TRY(memory_.allocate(t_, bytes_ * static_cast<std::size_t>(slots)));
    return window_.open(memory_.memory(), bytes_ * static_cast<std::size_t>(slots));
  }
  Status invite(int member) noexcept {
    return eager_ ? Status::success() : window_.invite(k_, member);
  }
  Task send(int member, int slot, const void* data) noexcept {
    if (eager_) co_return t_.inbox().put(k_, member, slot, data, bytes_, &sent_);
    co_await t_.inbox().mailed(k_, member, kInvited);
    co_await put_direct(t_, k_, member, bytes_ * static_cast<std::size_t>(slot), data, bytes_,
                        &sent_);
    co_return t_.inbox().mail(k_, member, kArrived, nullptr);
  }
  Engine::Reached arrived(int member, int slot) noexcept {
    return eager_ ? t_.inbox().arrival(k_, slot, member) : t_.inbox().mailed(k_, member, kArrived);
  }
  const void* data(int slot) noexcept {
    if (eager_) return t_.inbox().data(k_, slot, bytes_);
    return at(memory_.memory(), bytes_ * static_cast<std::size_t>(slot));
  }
  Engine::Reached sent() noexcept { return all_sent(t_, sent_); }

 private:
  Team& t_;
  const Ticket& k_;
  std::size_t bytes_;
  Temporary memory_;
  Window window_;  // goes before the memory
  Completion sent_;
  bool eager_;
};

}  // namespace

Task double_up(Team& t, const Ticket& k, const Reduction& reduction, void* vector,
               std::size_t bytes) noexcept {
  const Partners partners(t.rank(), t.size());
  const int rounds = partners.rounds();
  const int neighbour = partners.neighbour();
  Exchange exchange(t, k, bytes);
  co_await t.inbox().enter(k, true);
  co_await exchange.open(1 + rounds);
  if (partners.represented() || partners.represents()) co_await exchange.invite(neighbour);
  for (int round = 0; !partners.represented() && round < rounds; ++round) {
    co_await exchange.invite(partners.partner(round));
  }
  if (partners.represented()) {
    co_await exchange.send(neighbour, 0, vector);
    co_await exchange.arrived(neighbour, 0);
    co_await exchange.sent();
    place(t, vector, exchange.data(0), bytes);
    co_return Status::success();
  }
  if (partners.represents()) {
    co_await exchange.arrived(neighbour, 0);
    fold_bytes(t, reduction, exchange.data(0), vector, vector, bytes);
  }
  for (int round = 0; round < rounds; ++round) {
    const int other = partners.partner(round);
    co_await exchange.send(other, 1 + round, vector);
    co_await exchange.arrived(other, 1 + round);
    co_await exchange.sent();
    const void* theirs = exchange.data(1 + round);
    if (other < t.rank()) {
      fold_bytes(t, reduction, theirs, vector, vector, bytes);
    } else {
      fold_bytes(t, reduction, vector, theirs, vector, bytes);
    }
  }
  if (partners.represents()) {
    co_await exchange.send(neighbour, 0, vector);
    co_await exchange.sent();
  }
  co_return Status::success();
}

}  // namespace tutti
