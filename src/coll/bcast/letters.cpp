// Broadcast down a tree in letters: nobody waits for anybody but its parent, so the root may be as
// far ahead as the boxes of its children have room.
#include "coll/algorithms.hpp"
#include "coll/pattern/deliver.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct LetterTree {
  std::int64_t degree = 1;  // children of a step; with 1 the tree is binomial
};

}  // namespace

Task bcast_letters(Collective& c, LetterTree p) {
  const int root = c.call.root, size = c.size();
  const BroadcastTree tree((c.rank() - root + size) % size, size, static_cast<int>(p.degree));
  const auto member = [&](int relative) { return (relative + root) % size; };
  Parcels down(c.rank(), size), on(c.rank(), size);
  if (tree.parent() >= 0) down.receive(member(tree.parent()), c.call.recv, c.call.bytes);
  for (int i = 0; tree.child(i) >= 0; ++i)
    on.send(member(tree.child(i)), c.call.recv, c.call.bytes);
  on.arrange();
  co_await deliver(c, down);
  co_await deliver(c, on);
  c.finish();
  co_return Status::success();
}

static const char* restriction(const Shape& s, LetterTree) { return between_nodes(s); }

namespace algorithm {

const Algorithm bcast_letters = {
    .coll = Coll::bcast,
    .name = "letters",
    .run = with_parameters<tutti::bcast_letters>,
    .restriction_of = with_parameters<restriction>,
    .parameters = parameters_of<LetterTree>({{&LetterTree::degree, "degree", "members", 1,
                                              Parameter::kMostMembers, "degree: 1 to 1048576"}}),
    .source = "VIA-2003, sections 3.2 and 4.2, without generations",
};

}  // namespace algorithm
}  // namespace tutti
