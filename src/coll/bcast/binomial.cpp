// Broadcast by RDMA write along a binomial tree in pre-registered blocks (VIA-2003, sections 3
// and 4.1).
//
// The message is cut into blocks of `block` bytes; each is put into the child's inbox, filled from
// the bottom, with the broadcast counter behind the data. An inner rank forwards when all blocks
// have arrived (the paper), straight from its inbox, and copies to the user's buffer last; a leaf
// copies each block as it arrives, so that only the last copy is not hidden. With `early` an inner
// rank forwards each block as it arrives, and copies it while the next one is on its way.
#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct Binomial {
  std::int64_t block = 3072;  // bytes of a put
  std::int64_t degree = 1;    // children of a step; with 1 the tree is binomial
  std::int64_t early = 0;     // an inner rank forwards each block as it arrives
};

/// The message of one broadcast in blocks.
struct Blocks {
  Blocks(Collective& collective, Binomial p) noexcept
      : c(collective),
        tree((c.rank() - c.call.root + c.size()) % c.size(), c.size(), static_cast<int>(p.degree)),
        block(static_cast<std::size_t>(p.block)),
        count(static_cast<int>(chunks(c.call.bytes, block))) {}

  bool root() const noexcept { return tree.parent() < 0; }
  bool leaf() const noexcept { return tree.child(0) < 0; }
  int member(int relative) const noexcept { return (relative + c.call.root) % c.size(); }
  int index(int i) const noexcept { return c.bcast_block(i); }
  std::size_t offset(int i) const noexcept { return static_cast<std::size_t>(i) * block; }
  std::size_t bytes(int i) const noexcept { return std::min(block, c.call.bytes - offset(i)); }

  Engine::Reached arrival(int i) noexcept { return c.arrival(index(i), member(tree.parent())); }
  Status forward(int i, int child, Completion* sent) noexcept {
    const void* data = root() ? at(c.call.recv, offset(i)) : c.data(index(i), bytes(i));
    return c.put(member(tree.child(child)), index(i), data, bytes(i), sent);
  }
  void copy_out(int i) noexcept {
    c.place(at(c.call.recv, offset(i)), c.data(index(i), bytes(i)), bytes(i));
  }

  Collective& c;
  BroadcastTree tree;
  std::size_t block;
  int count;
};

}  // namespace

Task bcast_binomial(Collective& c, Binomial p) {
  Blocks blocks(c, p);
  const bool early = p.early != 0;
  const bool copies_late = !blocks.root() && !blocks.leaf() && !early;
  Completion sent;
  co_await c.enter(false);
  for (int i = 0; (early || !blocks.root()) && i < blocks.count; ++i) {
    if (!blocks.root()) co_await blocks.arrival(i);
    for (int child = 0; early && blocks.tree.child(child) >= 0; ++child)
      co_await blocks.forward(i, child, &sent);
    if (!blocks.root() && !copies_late) blocks.copy_out(i);
  }
  for (int child = 0; !early && blocks.tree.child(child) >= 0; ++child) {
    for (int i = 0; i < blocks.count; ++i) co_await blocks.forward(i, child, &sent);
  }
  for (int i = 0; copies_late && i < blocks.count; ++i) blocks.copy_out(i);
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

static const char* fits(const Shape& s, Binomial p) { return fits_inbox_blocks(s, p.block); }

namespace algorithm {

const Algorithm bcast_binomial = {
    .coll = Coll::bcast,
    .name = "binomial",
    .run = with_parameters<tutti::bcast_binomial>,
    .restriction_of = with_parameters<fits>,
    .parameters = parameters_of<Binomial>(
        {{&Binomial::block, "block", "bytes", 1, Inbox::kBlockBytes, "block: 1 to 5120"},
         {&Binomial::degree, "degree", "members", 1, Parameter::kMostMembers,
          "degree: 1 to 1048576"},
         {&Binomial::early, "early", "switch", 0, 1}}),
    .source = "VIA-2003, sections 4.1 and 4.2",
};

}  // namespace algorithm
}  // namespace tutti
