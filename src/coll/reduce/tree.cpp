// Reduce by a tree of cells: folded in rank order on the way up to rank 0, and passed on from there
// to another root.
#include "coll/algorithms.hpp"
#include "coll/pattern/through_tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task reduce_tree(Collective& c, TreeOfCells p) {
  const CellTree& tree = cell_tree(c, p);
  const std::size_t bytes = c.call.bytes;
  const int root = c.call.root;
  const bool result_here = root == 0 && c.rank() == 0;
  co_await fold_up_cells(c, tree, result_here ? c.call.recv : c.cells().own(bytes));
  const int next = tree.towards(root);  // on the way to the root
  const bool passes = root != 0 && c.rank() != root && next >= 0 && next != tree.parent();
  if (root != 0 && c.rank() != 0 && (passes || c.rank() == root)) {
    co_await c.cells().published(tree.parent(), bytes);
    const std::byte* const data = c.cells().data(tree.parent(), bytes);
    if (c.rank() == root) {
      c.place(c.call.recv, data, bytes);
    } else {
      c.cells().fill(data, bytes);
    }
  }
  if (passes) c.cells().publish(tree, bytes, Cells::Phase::whole);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm reduce_tree = {
    .coll = Coll::reduce,
    .name = "tree",
    .run = with_parameters<tutti::reduce_tree>,
    .restriction_of = with_parameters<folds_in_cells>,
    .parameters = kTreeOfCells,
    .source = "shared memory; the tree of VIA-2003, section 4.2",
};

}  // namespace algorithm
}  // namespace tutti
