#include "coll/pattern/through_tree.hpp"

namespace tutti {

Task fold_up_cells(Collective& c, const CellTree& tree, void* result) noexcept {
  const std::size_t bytes = c.call.bytes;
  if (!c.cells().free(tree, bytes)) co_await c.cells().wait_free(tree, bytes);
  const bool top = tree.parent() < 0;
  const void* folded = c.call.send;
  void* const out = top ? result : c.cells().own(bytes);
  for (int i = 0; tree.child(i) >= 0; ++i) {
    co_await c.cells().published(tree.child(i), bytes, Cells::Phase::part);
    if (bytes == 0) continue;
    c.fold(folded, c.cells().data(tree.child(i), bytes), out, bytes);
    folded = out;
  }
  if (top) {
    if (folded != out) c.place(out, folded, bytes);
    co_return Status::success();
  }
  if (folded != out) c.cells().fill(folded, bytes);
  c.cells().publish(tree, bytes, Cells::Phase::part);
  co_return Status::success();
}

Task pass_down_cells(Collective& c, const CellTree& tree, void* result) noexcept {
  const std::size_t bytes = c.call.bytes;
  const void* data = result;
  if (tree.parent() >= 0) {
    co_await c.cells().published(tree.parent(), bytes);
    data = c.cells().data(tree.parent(), bytes);
  }
  // The parent had read the own part before it had anything to pass down.
  if (tree.has_children()) {
    c.cells().fill(data, bytes);
    c.cells().publish(tree, bytes, Cells::Phase::whole);
  }
  if (data != result) c.place(result, data, bytes);
  co_return Status::success();
}

}  // namespace tutti
