// Barrier by a tree of cells: who has heard of all children raises its flag, and rank 0's answer
// goes down.
#include "coll/algorithms.hpp"
#include "coll/pattern/through_tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task barrier_tree(Collective& c, TreeOfCells p) {
  const CellTree& tree = cell_tree(c, p);
  co_await fold_up_cells(c, tree, nullptr);
  co_await pass_down_cells(c, tree, nullptr);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm barrier_tree = {
    .coll = Coll::barrier,
    .name = "tree",
    .run = with_parameters<tutti::barrier_tree>,
    .restriction_of = with_parameters<fits_cell>,
    .parameters = kTreeOfCells,
    .source = "shared memory; the tree of VIA-2003, section 4.2",
};

}  // namespace algorithm
}  // namespace tutti
