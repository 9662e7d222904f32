// Gather straight into the root's buffer, to which the root invites everybody.
#include "coll/pattern/direct.hpp"
#include "coll/algorithms.hpp"

namespace tutti {

Task gather_direct(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  Inbox& inbox = t.inbox();
  Window window(t);
  Completion sent;
  const std::size_t own = static_cast<std::size_t>(t.rank()) * call.bytes;
  TUTTI_CO_TRY(co_await inbox.enter(k, false));
  if (t.rank() != call.root) {
    TUTTI_CO_TRY(co_await inbox.mailed(k, call.root, kInvited));
    TUTTI_CO_TRY(put_direct(t, k, call.root, own, call.send, call.bytes, &sent));
    TUTTI_CO_TRY(inbox.mail(k, call.root, kArrived, nullptr));
  } else {
    TUTTI_CO_TRY(window.open(call.recv, call.bytes * static_cast<std::size_t>(t.size())));
    for (int step = 1; step < t.size(); ++step)
      TUTTI_CO_TRY(window.invite(k, (t.rank() + step) % t.size()));
    place(t, at(call.recv, own), call.send, call.bytes);
    for (int step = 1; step < t.size(); ++step) {
      TUTTI_CO_TRY(co_await inbox.mailed(k, (t.rank() + step) % t.size(), kArrived));
    }
  }
  TUTTI_CO_TRY(co_await all_sent(t, sent));
  TUTTI_CO_TRY(sent.status);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
