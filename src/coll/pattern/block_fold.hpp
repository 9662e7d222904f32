// Folding blocks as they come, in rank order.
#pragma once

#include "coll/call.hpp"
#include "coll/collective.hpp"
#include "coll/pattern/fold.hpp"
#include "coll/pattern/move.hpp"
#include "coll/pattern/published.hpp"

namespace tutti {

/// Folds the chunk at `offset` of the first `count` members, which are all there, into call.recv.
inline void fold_blocks_at_once(Collective& c, int count, std::size_t offset, std::size_t chunk,
                                std::size_t bytes) noexcept {
  const auto vector_of = [&](int member) -> const std::byte* {
    if (member == c.rank()) return at(c.call.send, offset);
    return c.stream().block(offset / chunk, member);
  };
  c.fold_at_once(count, vector_of, at(c.call.recv, offset), bytes);
}

/// Visitor of through_blocks: folds the members' chunks into call.recv. The own operand may lie
/// there as well (in place); before something else is folded over it, it is set aside, in `aside`
/// (a chunk's room).
class BlockFold {
 public:
  BlockFold(Collective& c, std::size_t chunk, std::byte* aside) noexcept
      : c_(c), chunk_(chunk), aside_(aside) {}

  void operator()(int member, std::size_t offset, const std::byte* data,
                  std::size_t bytes) noexcept {
    std::byte* const out = at(c_.call.recv, offset);
    if (c_.at_once()) {
      if (member == c_.size() - 1) fold_blocks_at_once(c_, c_.size(), offset, chunk_, bytes);
      return;
    }
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
  std::size_t chunk_;
  std::byte* aside_;
  const std::byte* first_ = nullptr;
};

/// Everybody's vector is folded into call.recv by the members that read, and goes to them through
/// shared blocks.
inline Task fold_through_blocks(Collective& c, Publishers publishers, std::size_t block,
                                bool reads) {
  Scratch aside(c);
  if (reads && c.rank() > 1 && c.call.send == c.call.recv && !c.at_once()) co_await aside.take();
  const std::size_t chunk = whole_elements(block, c.call.reduction->element_bytes);
  co_await through_blocks(
      c, publishers, {c.call.send}, [&c](int) { return c.call.bytes; }, chunk, reads,
      BlockFold(c, chunk, aside.memory()));
  co_return Status::success();
}

}  // namespace tutti
