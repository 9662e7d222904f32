// Reduce-scatter with equal blocks: everybody publishes its whole vector and folds its own block of
// all of them, in rank order.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/fold_cells.hpp"
#include "coll/pattern/fold_memory.hpp"
#include "coll/pattern/fold_whole.hpp"
#include "coll/pattern/published.hpp"
#include "coll/pattern/slice.hpp"

namespace tutti {
namespace {

std::size_t total_of(const Team& t, const Call& call) noexcept {
  return call.bytes * static_cast<std::size_t>(t.size());
}

}  // namespace

Task reduce_scatter_block_flat(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  const std::size_t begin = static_cast<std::size_t>(t.rank()) * call.bytes;
  return fold_through_cells(t, call, k, total_of(t, call), begin, true);
}

Task reduce_scatter_block_blocks(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  const std::size_t total = total_of(t, call);
  const std::size_t chunk = whole_elements(block_parameter(t, p), call.reduction->element_bytes);
  // The first operand of a slice; the second fold takes both from where they are.
  const std::byte* first = nullptr;
  co_await through_blocks(
      t, k, Publishers::all(t), call.send, [total](int) { return total; }, chunk, true,
      [&](int member, std::size_t offset, const std::byte* data, std::size_t bytes) {
        const Slice slice(t.rank(), call.bytes, offset, bytes);
        if (slice.bytes == 0) return;
        std::byte* const out = at(call.recv, slice.in_block);
        const std::byte* operand = data + slice.in_chunk;
        if (member == 0) {
          first = operand;
          if (t.size() == 1) place(t, out, operand, slice.bytes);
        } else {
          fold_bytes(t, *call.reduction, member == 1 ? first : out, operand, out, slice.bytes);
        }
      });
  co_return Status::success();
}

Task reduce_scatter_block_memory(Team& t, const Call& call, const Ticket& k, const Parameters&) {
  std::vector<Remote> remotes(static_cast<std::size_t>(t.size()));
  Scratch scratch(t);
  co_await scratch.take();
  // In place, the result would overwrite what others still read: it waits aside.
  Temporary aside;
  const bool in_place = call.send == call.recv;
  if (in_place) co_await aside.allocate(t, call.bytes);
  auto* out = static_cast<std::byte*>(in_place ? aside.memory() : call.recv);
  int known = 0;
  co_await through_memory(t, k, Publishers::all(t), call.send, total_of(t, call), true,
                          [&](int member, const Remote& remote) {
                            remotes[static_cast<std::size_t>(member)] = remote;
                            if (++known < t.size() - 1) return Status::success();
                            return fold_from_memory(t, *call.reduction, call.send, remotes,
                                                    static_cast<std::size_t>(t.rank()) * call.bytes,
                                                    call.bytes, out, scratch);
                          });
  if (in_place) place(t, call.recv, out, call.bytes);
  co_return Status::success();
}

Task reduce_scatter_block_whole(Team& t, const Call& call, const Ticket& k, const Parameters& p) {
  return fold_whole(t, *call.reduction, k, call.send, total_of(t, call),
                    static_cast<std::size_t>(t.rank()) * call.bytes, call.bytes, true, call.recv,
                    block_parameter(t, p));
}

}  // namespace tutti
