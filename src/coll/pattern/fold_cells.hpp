// Reductions through cells.
#pragma once

#include "coll/collective.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

/// Folds [begin, begin + bytes) of the first `count` members' cells, which are all there, into
/// call.recv. `own`: where the own vector is read.
inline void fold_cells_at_once(Collective& c, int count, const void* own, std::size_t published,
                               std::size_t begin, std::size_t bytes) noexcept {
  const auto vector_of = [&](int member) {
    const auto* const vector =
        member == c.rank() ? static_cast<const std::byte*>(own) : c.cells().data(member, published);
    return vector + begin;
  };
  c.fold_at_once(count, vector_of, c.call.recv, bytes);
}

/// `published` bytes of everybody are read; whoever reads folds [begin, begin + bytes) of all of
/// them in rank order into call.recv. `rooted`: only the root reads.
inline Task fold_through_cells(Collective& c, std::size_t published, std::size_t begin,
                               std::size_t bytes, bool rooted) noexcept {
  const bool reads = !rooted || c.rank() == c.call.root;
  const int last = c.size() - 1;
  // In place, what is folded before the own operand would overwrite it, except the first operand;
  // and that of the second member where it lies across the result.
  const bool across = begin != 0 && begin < bytes;
  const bool overwritten = c.call.send == c.call.recv && (c.rank() > 1 || across);
  const void* const own = overwritten ? c.cells().data(c.rank(), published) : c.call.send;
  // The root reads its own vector from its cell only where it has to.
  const Publishers publishers =
      rooted && !overwritten ? Publishers::all_but(c.call.root, c) : Publishers::all(c);
  if (c.at_once())
    return through_cells(c, publishers, c.call.send, own, published, reads,
                         [&c, own, published, begin, bytes, last](int member, const std::byte*) {
                           if (member == last)
                             fold_cells_at_once(c, c.size(), own, published, begin, bytes);
                         });
  // The last visit ends the fold, so the whole state is the folder itself.
  return through_cells(c, publishers, c.call.send, own, published, reads,
                       [fold = Folder(c, c.call.recv, bytes), begin, last](
                           int member, const std::byte* data) mutable {
                         fold(data + begin);
                         if (member == last) fold.finish();
                       });
}

}  // namespace tutti
