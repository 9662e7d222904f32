// Reduce up a tree in letters: nobody waits for anybody but its children, so those may be as far
// ahead as their boxes have room. Subtrees are ranges of ranks, counted from the root, or, where
// the order of the operands counts, from rank 0, which then hands the result on.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/deliver.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct LetterTree {
  std::int64_t degree = 1;  // children that a member folds in a step
};

/// In the order in which they are folded.
std::vector<int> children_of(const DegreeTree& tree, int degree) {
  std::vector<int> children;
  for (int step = 0; step < tree.steps(); ++step) {
    for (int j = 1; j <= degree && tree.child(step, j) >= 0; ++j)
      children.push_back(tree.child(step, j));
  }
  return children;
}

}  // namespace

Task reduce_letters(Collective& c, LetterTree p) {
  constexpr int kHandOn = 1;  // the second exchange between two members
  const int root = c.call.root, size = c.size(), degree = static_cast<int>(p.degree);
  const int top = c.call.reduction->commutative ? root : 0;
  const std::size_t bytes = c.call.bytes;
  const DegreeTree tree((c.rank() - top + size) % size, size, degree);
  const std::vector<int> children = children_of(tree, degree);
  Temporary memory;  // a vector of each child, and the own accumulator
  co_await memory.allocate(c, bytes * (children.size() + 1));
  void* const folded =
      c.rank() == root ? c.call.recv : at(memory.memory(), bytes * children.size());

  Parcels come(c.rank(), size), go(c.rank(), size), result(c.rank(), size);
  for (std::size_t i = 0; i < children.size(); ++i)
    come.receive((children[i] + top) % size, at(memory.memory(), bytes * i), bytes);
  come.arrange();
  co_await deliver(c, come);
  const void* have = c.call.send;
  for (std::size_t i = 0; i < children.size() && bytes != 0; ++i) {
    c.fold(have, at(memory.memory(), bytes * i), folded, bytes);
    have = folded;
  }
  if (tree.parent() >= 0) go.send((tree.parent() + top) % size, have, bytes);
  co_await deliver(c, go);

  if (c.rank() == top && top != root) result.send(root, have, bytes);
  if (c.rank() == root && top != root) result.receive(top, c.call.recv, bytes);
  if (c.rank() == root && top == root) c.place(c.call.recv, have, bytes);
  co_await deliver(c, result, kHandOn);
  c.finish();
  co_return Status::success();
}

static const char* restriction(const Shape& s, LetterTree) { return folds_between_nodes(s); }

namespace algorithm {

const Algorithm reduce_letters = {
    .coll = Coll::reduce,
    .name = "letters",
    .run = with_parameters<tutti::reduce_letters>,
    .restriction_of = with_parameters<restriction>,
    .parameters = parameters_of<LetterTree>({{&LetterTree::degree, "degree", "members", 1,
                                              Parameter::kMostMembers, "degree: 1 to 1048576"}}),
    .source = "VIA-2003, sections 3.2 and 4.2, without generations",
};

}  // namespace algorithm
}  // namespace tutti
