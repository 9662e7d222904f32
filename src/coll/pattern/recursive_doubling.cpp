#include "coll/pattern/recursive_doubling.hpp"

#include "coll/pattern/direct.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/partners.hpp"

namespace tutti {
namespace {

/// Exchanges vectors: slot 0 is for the neighbour, slot 1 + r for the partner of round r.
class Exchange {
 public:
  Exchange(Collective& c, std::size_t bytes) noexcept
      : c_(c), bytes_(bytes), window_(c), eager_(bytes <= Inbox::kBlockBytes) {}
  FramePool& frames() noexcept { return c_.team.frames(); }

  Status open(int slots) noexcept {
    if (eager_) return Status::success();
    TUTTI_TRY(memory_.allocate(c_, bytes_ * static_cast<std::size_t>(slots)));
    return window_.open(memory_.memory(), bytes_ * static_cast<std::size_t>(slots));
  }
  Status invite(int member) noexcept {
    return eager_ ? Status::success() : window_.invite(c_, member);
  }
  Task send(int member, int slot, const void* data) noexcept {
    if (eager_) co_return c_.put(member, slot, data, bytes_, &sent_);
    co_await c_.mailed(member, kInvited);
    co_await put_direct(c_, member, bytes_ * static_cast<std::size_t>(slot), data, bytes_, &sent_);
    co_return c_.mail(member, kArrived);
  }
  Engine::Reached arrived(int member, int slot) noexcept {
    return eager_ ? c_.arrival(slot, member) : c_.mailed(member, kArrived);
  }
  const void* data(int slot) noexcept {
    if (eager_) return c_.data(slot, bytes_);
    return at(memory_.memory(), bytes_ * static_cast<std::size_t>(slot));
  }
  Engine::Reached sent() noexcept { return c_.completed(sent_); }

 private:
  Collective& c_;
  std::size_t bytes_;
  Temporary memory_;
  Window window_;  // goes before the memory
  Completion sent_;
  bool eager_;
};

}  // namespace

Task double_up(Collective& c, void* vector, std::size_t bytes) noexcept {
  const Partners partners(c.rank(), c.size());
  const int rounds = partners.rounds();
  const int neighbour = partners.neighbour();
  Exchange exchange(c, bytes);
  co_await c.enter(true);
  co_await exchange.open(1 + rounds);
  if (partners.represented() || partners.represents()) co_await exchange.invite(neighbour);
  for (int round = 0; !partners.represented() && round < rounds; ++round) {
    co_await exchange.invite(partners.partner(round));
  }
  if (partners.represented()) {
    co_await exchange.send(neighbour, 0, vector);
    co_await exchange.arrived(neighbour, 0);
    co_await exchange.sent();
    c.place(vector, exchange.data(0), bytes);
    co_return Status::success();
  }
  if (partners.represents()) {
    co_await exchange.arrived(neighbour, 0);
    c.fold(exchange.data(0), vector, vector, bytes);
  }
  for (int round = 0; round < rounds; ++round) {
    const int other = partners.partner(round);
    co_await exchange.send(other, 1 + round, vector);
    co_await exchange.arrived(other, 1 + round);
    co_await exchange.sent();
    const void* theirs = exchange.data(1 + round);
    if (other < c.rank()) {
      c.fold(theirs, vector, vector, bytes);
    } else {
      c.fold(vector, theirs, vector, bytes);
    }
  }
  if (partners.represents()) {
    co_await exchange.send(neighbour, 0, vector);
    co_await exchange.sent();
  }
  co_return Status::success();
}

}  // namespace tutti
