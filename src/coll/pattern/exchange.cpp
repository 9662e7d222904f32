#include "coll/pattern/exchange.hpp"

#include "coll/pattern/direct.hpp"

namespace tutti {

Task exchange_blocks(Collective& c, const void* send, void* recv, std::size_t bytes) noexcept {
  const int size = c.size();
  const std::size_t own = static_cast<std::size_t>(c.rank()) * bytes;
  Window window(c);
  Completion sent;
  co_await window.open(recv, bytes * static_cast<std::size_t>(size));
  co_await c.enter(true);
  for (int step = 1; step < size; ++step)
    co_await window.invite(c, (c.rank() + size - step) % size);
  c.place(at(recv, own), at(send, own), bytes);
  for (int step = 1; step < size; ++step) {
    const int to = (c.rank() + step) % size;
    co_await c.mailed(to, kInvited);
    co_await put_direct(c, to, own, at(send, static_cast<std::size_t>(to) * bytes), bytes, &sent);
    co_await c.mail(to, kArrived);
  }
  for (int step = 1; step < size; ++step) {
    co_await c.mailed((c.rank() + size - step) % size, kArrived);
  }
  co_await c.completed(sent);
  co_return Status::success();
}

}  // namespace tutti
