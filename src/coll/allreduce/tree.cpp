// Allreduce by a tree of cells: folded in rank order on the way up, and passed down from rank 0.
#include "coll/algorithms.hpp"
#include "coll/pattern/through_tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task allreduce_tree(Collective& c, TreeOfCells p) {
  const CellTree& tree = cell_tree(c, p);
  co_await fold_up_cells(c, tree, c.call.recv);
  co_await pass_down_cells(c, tree, c.call.recv);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm allreduce_tree = {
    .coll = Coll::allreduce,
    .name = "tree",
    .run = with_parameters<tutti::allreduce_tree>,
    .restriction_of = with_parameters<folds_in_cells>,
    .parameters = kTreeOfCells,
    .source = "shared memory; the tree of VIA-2003, section 4.2",
};

}  // namespace algorithm
}  // namespace tutti
