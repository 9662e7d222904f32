#include "coll/pattern/recursive_doubling.hpp"

#include "coll/pattern/fold.hpp"
#include "coll/pattern/partners.hpp"
#include "coll/pattern/slots.hpp"

namespace tutti {

Task double_up(Collective& c, void* vector, std::size_t bytes) noexcept {
  const Partners partners(c.rank(), c.size());
  const int rounds = partners.rounds();
  const int neighbour = partners.neighbour();
  Slots exchange(c, bytes);
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
