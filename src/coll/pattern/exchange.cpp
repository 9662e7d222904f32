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
  co_await window.open(recv, bytes * static_cast<std::size_t>(size));
  co_await inbox.enter(k, true);
  for (int step = 1; step < size; ++step)
    co_await window.invite(k, (t.rank() + size - step) % size);
  place(t, at(recv, own), at(send, own), bytes);
  for (int step = 1; step < size; ++step) {
    const int to = (t.rank() + step) % size;
    co_await inbox.mailed(k, to, kInvited);
    co_await put_direct(t, k, to, own, at(send, static_cast<std::size_t>(to) * bytes), bytes,
                        &sent);
    co_await inbox.mail(k, to, kArrived, nullptr);
  }
  for (int step = 1; step < size; ++step) {
    co_await inbox.mailed(k, (t.rank() + size - step) % size, kArrived);
  }
  co_await all_sent(t, sent);
  co_return Status::success();
}

}  // namespace tutti
