#include "coll/pattern/exchange.hpp"

#include "coll/pattern/direct.hpp"

namespace tutti {

Task exchange_blocks(Team& t, const Ticket& k, const void* send, void* recv,
                     std::size_t bytes) noexcept {
  const int size = t.size();
  const std::size_t own = static_cast<std::size_t>(t.rank()) * bytes;
  Inbox& inbox = t.inbox();
  Window window(t);
  Completion sent;
  TUTTI_CO_TRY(window.open(recv, bytes * static_cast<std::size_t>(size)));
  TUTTI_CO_TRY(co_await inbox.enter(k, true));
  for (int step = 1; step < size; ++step)
    TUTTI_CO_TRY(window.invite(k, (t.rank() + size - step) % size));
  place(t, at(recv, own), at(send, own), bytes);
  for (int step = 1; step < size; ++step) {
    const int to = (t.rank() + step) % size;
    TUTTI_CO_TRY(co_await inbox.mailed(k, to, kInvited));
    TUTTI_CO_TRY(
        put_direct(t, k, to, own, at(send, static_cast<std::size_t>(to) * bytes), bytes, &sent));
    TUTTI_CO_TRY(inbox.mail(k, to, kArrived, nullptr));
  }
  for (int step = 1; step < size; ++step) {
    TUTTI_CO_TRY(co_await inbox.mailed(k, (t.rank() + size - step) % size, kArrived));
  }
  TUTTI_CO_TRY(co_await all_sent(t, sent));
  co_return sent.status;
}

}  // namespace tutti
