// Folding blocks as they come, in rank order.
#pragma once

#include "coll/call.hpp"
#include "coll/collective.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

/// Visitor of through_blocks: folds the members' chunks into call.recv. The own operand may lie
/// there as well (in place); before something else is folded over it, it is set aside, in `aside`
/// (a chunk's room).
class BlockFold {
 public:
  BlockFold(Collective& c, std::byte* aside) noexcept : c_(c), aside_(aside) {}

  void operator()(int member, std::size_t offset, const std::byte* data,
                  std::size_t bytes) noexcept {
    std::byte* const out = at(c_.call.recv, offset);
    const bool in_place = c_.call.send == c_.call.recv;
    if (member == 0) {
      first_ = data;
      if (c_.rank() > 1 && in_place) c_.place(aside_, out, bytes);
      return;
    }
    if (member == c_.rank() && member > 1 && in_place) data = aside_;
    c_.fold(member == 1 ? first_ : out, data, out, bytes);
  }

 private:
  Collective& c_;
  std::byte* aside_;
  const std::byte* first_ = nullptr;
};

/// Everybody's vector is folded into call.recv by the members that read, and goes to them through
/// shared blocks.
inline Task fold_through_blocks(Collective& c, Publishers publishers, std::size_t block,
                                bool reads) {
  Scratch aside(c);
  if (reads && c.rank() > 1 && c.call.send == c.call.recv) co_await aside.take();
  const std::size_t chunk = whole_elements(block, c.call.reduction->element_bytes);
  co_await through_blocks(
      c, publishers, {c.call.send}, [&c](int) { return c.call.bytes; }, chunk, reads,
      BlockFold(c, aside.memory()));
  co_return Status::success();
}

}  // namespace tutti
