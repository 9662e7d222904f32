// Gather straight into the root's buffer, to which the root invites everybody.
#include "coll/pattern/direct.hpp"
#include "coll/algorithms.hpp"

namespace tutti {

Task gather_direct(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  Inbox& inbox = t.inbox();
  Window window(t);
  Completion sent;
  const std::size_t own = static_cast<std::size_t>(t.rank()) * call.bytes;
  co_await inbox.enter(k, false);
  if (t.rank() != call.root) {
    co_await inbox.mailed(k, call.root, kInvited);
    co_await put_direct(t, k, call.root, own, call.send, call.bytes, &sent);
    co_await inbox.mail(k, call.root, kArrived, nullptr);
  } else {
    co_await window.open(call.recv, call.bytes * static_cast<std::size_t>(t.size()));
    for (int step = 1; step < t.size(); ++step)
      co_await window.invite(k, (t.rank() + step) % t.size());
    place(t, at(call.recv, own), call.send, call.bytes);
    for (int step = 1; step < t.size(); ++step) {
      co_await inbox.mailed(k, (t.rank() + step) % t.size(), kArrived);
    }
  }
  co_await all_sent(t, sent);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
