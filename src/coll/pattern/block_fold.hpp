// Folding blocks as they come, in rank order.
#pragma once

#include "coll/call.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

/// Visitor of through_blocks: folds the members' chunks into call.recv. The own operand may lie
/// there as well (in place); before something else is folded over it, it is set aside, in `aside`
/// (a chunk's room).
class BlockFold {
 public:
  BlockFold(Team& team, const Call& call, std::byte* aside) noexcept
      : team_(team), call_(call), aside_(aside) {}

  void operator()(int member, std::size_t offset, const std::byte* data,
                  std::size_t bytes) noexcept {
    std::byte* const out = at(call_.recv, offset);
    const bool in_place = call_.send == call_.recv;
    if (member == 0) {
      first_ = data;
      if (team_.rank() > 1 && in_place) place(team_, aside_, out, bytes);
      return;
    }
    if (member == team_.rank() && member > 1 && in_place) data = aside_;
    fold_bytes(team_, *call_.reduction, member == 1 ? first_ : out, data, out, bytes);
  }

 private:
  Team& team_;
  const Call& call_;
  std::byte* aside_;
  const std::byte* first_ = nullptr;
};

/// Everybody's vector goes through shared blocks; members that read fold it into call.recv.
inline Task fold_through_blocks(Team& t, const Call& call, const Ticket& k, std::size_t block,
                                bool reads) {
  Scratch aside(t);
  if (reads && t.rank() > 1 && call.send == call.recv) co_await aside.take();
  const std::size_t chunk = whole_elements(block, call.reduction->element_bytes);
  co_await through_blocks(
      t, k, Publishers::all(t), call.send, [&call](int) { return call.bytes; }, chunk, reads,
      BlockFold(t, call, aside.memory()));
  co_return Status::success();
}

}  // namespace tutti
