// Broadcast by RDMA write along a binomial tree in pre-registered blocks (VIA-2003, sections 3
// and 4.1).
//
// The message is cut into blocks of `block` bytes; each is put into the child's inbox, filled from
// the bottom, with the broadcast counter behind the data. An inner rank forwards when all blocks
// have arrived (the paper), straight from its inbox, and copies to the user's buffer last; a leaf
// copies each block as it arrives, so that only the last copy is not hidden.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/tree.hpp"

namespace tutti {

Task bcast_binomial(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const int size = t.size();
  const int relative = (t.rank() - call.root + size) % size;
  const BinomialTree tree(relative, size);
  const auto member = [&](int other) { return (other + call.root) % size; };
  const auto block = static_cast<std::size_t>(p.value[0]);
  const auto blocks = static_cast<int>(chunks(call.bytes, block));
  const auto bytes_of = [&](int i) {
    return std::min(block, call.bytes - static_cast<std::size_t>(i) * block);
  };
  Inbox& inbox = t.inbox();
  const bool leaf = tree.child(0) < 0;
  const int first = Inbox::bcast_block(size, 0);
  const auto copy_out = [&](int i) {
    const std::byte* data = inbox.data(k, first + i, bytes_of(i));
    place(t, at(call.recv, static_cast<std::size_t>(i) * block), data, bytes_of(i));
  };
  TUTTI_CO_TRY(co_await inbox.enter(k, false));

  for (int i = 0; tree.parent() >= 0 && i < blocks; ++i) {
    TUTTI_CO_TRY(co_await inbox.arrival(k, first + i, member(tree.parent())));
    if (leaf) copy_out(i);
  }
  Completion sent;
  for (int child = 0; tree.child(child) >= 0; ++child) {
    for (int i = 0; i < blocks; ++i) {
      const int index = first + i;
      const void* data = tree.parent() < 0 ? at(call.recv, static_cast<std::size_t>(i) * block)
                                           : inbox.data(k, index, bytes_of(i));
      TUTTI_CO_TRY(inbox.put(k, member(tree.child(child)), index, data, bytes_of(i), &sent));
    }
  }
  for (int i = 0; !leaf && tree.parent() >= 0 && i < blocks; ++i) copy_out(i);
  TUTTI_CO_TRY(co_await t.engine().reached(sent.finished, sent.posted, t.membership()));
  t.finish(k);
  co_return Status::success();
}

}  // namespace tutti
