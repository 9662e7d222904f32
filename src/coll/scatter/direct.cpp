// Scatter straight into everybody's buffer, to which they invite the root.
#include "coll/pattern/direct.hpp"
#include "coll/algorithms.hpp"

namespace tutti {

Task scatter_direct(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  Inbox& inbox = t.inbox();
  Window window(t);
  Completion sent;
  co_await inbox.enter(k, false);
  if (t.rank() != call.root) {
    co_await window.open(call.recv, call.bytes);
    co_await window.invite(k, call.root);
    co_await inbox.mailed(k, call.root, kArrived);
  } else {
    for (int step = 1; step < t.size(); ++step) {
      const int member = (t.rank() + step) % t.size();
      co_await inbox.mailed(k, member, kInvited);
      co_await put_direct(t, k, member, 0,
                          at(call.send, static_cast<std::size_t>(member) * call.bytes), call.bytes,
                          &sent);
      co_await inbox.mail(k, member, kArrived, nullptr);
    }
    place(t, call.recv, at(call.send, static_cast<std::size_t>(t.rank()) * call.bytes), call.bytes);
  }
  co_await all_sent(t, sent);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
