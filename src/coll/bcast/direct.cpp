// Broadcast along a binomial tree straight into the users' buffers (VIA-2003, sections 3.3 and 4.1,
// dynamic registration), block by block: an inner rank forwards each block as it arrives, where the
// paper forwards after the last one (a `block` of the message's size). `degree` as in binomial.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task bcast_direct(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const int size = t.size();
  const BroadcastTree tree((t.rank() - call.root + size) % size, size,
                           static_cast<int>(p.value[1]));
  const auto member = [&](int other) { return (other + call.root) % size; };
  const std::size_t block = p.value[0] == 0 ? call.bytes : static_cast<std::size_t>(p.value[0]);
  const std::uint64_t blocks = chunks(call.bytes, block);
  Inbox& inbox = t.inbox();
  Window window(t);
  Completion sent;
  co_await inbox.enter(k, false);
  if (tree.parent() >= 0) {
    co_await window.open(call.recv, call.bytes);
    co_await window.invite(k, member(tree.parent()));
  }
  for (std::uint64_t i = 0; i < blocks; ++i) {
    if (tree.parent() >= 0) co_await inbox.mailed(k, member(tree.parent()), kArrived + i);
    const std::size_t offset = i * block;
    for (int child = 0; tree.child(child) >= 0; ++child) {
      const int to = member(tree.child(child));
      if (i == 0) co_await inbox.mailed(k, to, kInvited);
      co_await put_direct(t, k, to, offset, at(call.recv, offset),
                          std::min(block, call.bytes - offset), &sent);
      co_await inbox.mail(k, to, kArrived + i, nullptr);
    }
  }
  co_await all_sent(t, sent);
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
