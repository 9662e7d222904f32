// Broadcast by a tree of cells: everybody passes on what it has read to its other neighbours.
#include "coll/algorithms.hpp"
#include "coll/pattern/through_tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {

Task bcast_tree(Collective& c, TreeOfCells p) {
  const CellTree& tree = cell_tree(c, p);
  const std::size_t bytes = c.call.bytes;
  const int source = tree.towards(c.call.root);
  const bool passes = tree.neighbour(source < 0 ? 0 : 1) >= 0;
  if (passes && !c.cells().free(tree, bytes)) co_await c.cells().wait_free(tree, bytes);
  const void* data = c.call.recv;
  if (source >= 0) {
    co_await c.cells().published(source, bytes);
    data = c.cells().data(source, bytes);
  }
  if (passes) {
    c.cells().fill(data, bytes);
    c.cells().publish(tree, bytes, Cells::Phase::whole);
  }
  if (source >= 0) c.place(c.call.recv, data, bytes);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_tree = {
    .coll = Coll::bcast,
    .name = "tree",
    .run = with_parameters<tutti::bcast_tree>,
    .restriction_of = with_parameters<fits_cell>,
    .parameters = kTreeOfCells,
    .source = "shared memory; the tree of VIA-2003, section 4.2",
};

}  // namespace algorithm
}  // namespace tutti
