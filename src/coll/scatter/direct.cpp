// Scatter straight into everybody's buffer, to which they invite the root.
#include "coll/pattern/direct.hpp"
#include "coll/algorithms.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task scatter_direct(Collective& c) {
  Window window(c);
  Completion sent;
  co_await c.enter(false);
  if (c.rank() != c.call.root) {
    co_await window.open(c.call.recv, c.call.bytes);
    co_await window.invite(c, c.call.root);
    co_await c.mailed(c.call.root, kArrived);
  } else {
    for (int step = 1; step < c.size(); ++step) {
      const int member = (c.rank() + step) % c.size();
      co_await c.mailed(member, kInvited);
      co_await put_direct(c, member, 0,
                          at(c.call.send, static_cast<std::size_t>(member) * c.call.bytes),
                          c.call.bytes, &sent);
      co_await c.mail(member, kArrived);
    }
    c.place(c.call.recv, at(c.call.send, static_cast<std::size_t>(c.rank()) * c.call.bytes),
            c.call.bytes);
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm scatter_direct = {
    .coll = Coll::scatter,
    .name = "direct",
    .run = with_parameters<tutti::scatter_direct>,
    .restriction_of = with_parameters<between_nodes>,
    .source = "VIA-2003, section 3.3: dynamic registration",
};

}  // namespace algorithm
}  // namespace tutti
