// Reductions through cells.
#pragma once

#include "coll/collective.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

/// Everybody publishes `published` bytes; members that read fold [begin, begin + call.bytes) of all
/// of them in rank order into call.recv.
inline Task fold_through_cells(Collective& c, std::size_t published, std::size_t begin,
                               bool reads) noexcept {
  const int last = c.size() - 1;
  // In place, what is folded before the own operand would overwrite it, except the first operand.
  const bool overwritten = c.call.send == c.call.recv && c.rank() > 1;
  const void* const own = overwritten ? c.cells().data(c.rank(), published) : c.call.send;
  // The last visit ends the fold, so the whole state is the folder itself.
  return through_cells(c, Publishers::all(c), c.call.send, own, published, reads,
                       [fold = Folder(c, c.call.recv, c.call.bytes), begin, last](
                           int member, const std::byte* data) mutable {
                         fold(data + begin);
                         if (member == last) fold.finish();
                       });
}

}  // namespace tutti
