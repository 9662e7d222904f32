// Gather straight into the root's buffer, to which the root invites everybody.
#include "coll/pattern/direct.hpp"
#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task gather_direct(Collective& c) {
  Window window(c);
  Completion sent;
  const std::size_t own = static_cast<std::size_t>(c.rank()) * c.call.bytes;
  co_await c.enter(false);
  if (c.rank() != c.call.root) {
    co_await c.mailed(c.call.root, kInvited);
    co_await put_direct(c, c.call.root, own, c.call.send, c.call.bytes, &sent);
    co_await c.mail(c.call.root, kArrived);
  } else {
    co_await window.open(c.call.recv, c.call.bytes * static_cast<std::size_t>(c.size()));
    for (int step = 1; step < c.size(); ++step)
      co_await window.invite(c, (c.rank() + step) % c.size());
    c.place(at(c.call.recv, own), c.call.send, c.call.bytes);
    for (int step = 1; step < c.size(); ++step) {
      co_await c.mailed((c.rank() + step) % c.size(), kArrived);
    }
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm gather_direct = {
    .coll = Coll::gather,
    .name = "direct",
    .run = with_parameters<tutti::gather_direct>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "VIA-2003, section 3.3: dynamic registration",
};

}  // namespace algorithm
}  // namespace tutti
