// Reductions through cells.
#pragma once

#include "coll/pattern/fold.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

/// Everybody publishes `published` bytes; members that read fold [begin, begin + call.bytes) of all
/// of them in rank order into call.recv.
inline Task fold_through_cells(Team& t, const Call& call, const Ticket& k, std::size_t published,
                               std::size_t begin, bool reads) noexcept {
  const int last = t.size() - 1;
  // In place, what is folded before the own operand would overwrite it, except the first operand.
  const bool overwritten = call.send == call.recv && t.rank() > 1;
  const void* const own = overwritten ? t.cell(k, t.rank(), published) : call.send;
  // The last visit ends the fold, so the whole state is the folder itself.
  return through_cells(t, k, Publishers::all(t), call.send, own, published, reads,
                       [fold = Folder(t, *call.reduction, call.recv, call.bytes), begin, last](
                           int member, const std::byte* data) mutable {
                         fold(data + begin);
                         if (member == last) fold.finish();
                       });
}

}  // namespace tutti
