// Broadcast along a binomial tree straight into the users' buffers (VIA-2003, sections 3.3 and 4.1,
// dynamic registration), block by block: an inner rank forwards each block as it arrives, where the
// paper forwards after the last one (a `block` of the message's size). `degree` as in binomial.
#include <algorithm>

#include "coll/algorithms.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct Direct {
  std::int64_t block = 65536;  // bytes of a put; 0: all of them
  std::int64_t degree = 1;     // as in binomial
};

}  // namespace

Task bcast_direct(Collective& c, Direct p) {
  const int size = c.size();
  const BroadcastTree tree((c.rank() - c.call.root + size) % size, size,
                           static_cast<int>(p.degree));
  const auto member = [&](int other) { return (other + c.call.root) % size; };
  const std::size_t block = p.block == 0 ? c.call.bytes : static_cast<std::size_t>(p.block);
  const std::uint64_t blocks = chunks(c.call.bytes, block);
  Window window(c);
  Completion sent;
  co_await c.enter(false);
  if (tree.parent() >= 0) {
    co_await window.open(c.call.recv, c.call.bytes);
    co_await window.invite(c, member(tree.parent()));
  }
  for (std::uint64_t i = 0; i < blocks; ++i) {
    if (tree.parent() >= 0) co_await c.mailed(member(tree.parent()), kArrived + i);
    const std::size_t offset = i * block;
    for (int child = 0; tree.child(child) >= 0; ++child) {
      const int to = member(tree.child(child));
      if (i == 0) co_await c.mailed(to, kInvited);
      co_await put_direct(c, to, offset, at(c.call.recv, offset),
                          std::min(block, c.call.bytes - offset), &sent);
      co_await c.mail(to, kArrived + i);
    }
  }
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_direct = {
    .coll = Coll::bcast,
    .name = "direct",
    .run = with_parameters<tutti::bcast_direct>,
    .restriction_of = with_parameters<between_nodes>,
    .parameters = parameters_of<Direct>({{&Direct::block, "block", "bytes"},
                                         {&Direct::degree, "degree", "members", 1,
                                          Parameter::kMostMembers, "degree: 1 to 1048576"}}),
    .source = "VIA-2003, section 3.3: dynamic registration",
};

}  // namespace algorithm
}  // namespace tutti
