#include "coll/pattern/segment.hpp"

#include <cstring>

#include "coll/pattern/direct.hpp"
#include "coll/pattern/hierarchical.hpp"

namespace tutti {
namespace {

/// Every member has a segment of its own: all tell all others where it is, by mail.
Task exchange_among_all(Collective& c, std::uint64_t mine, std::uint64_t* offsets) noexcept {
  const Key key{{mine, 0, 0, 0}};
  for (int i = 1; i < c.size(); ++i) co_await c.mail((c.rank() + i) % c.size(), kInvited, &key);
  for (int member = 0; member < c.size(); ++member) {
    if (member != c.rank()) co_await c.mailed(member, kInvited);
    offsets[member] = member == c.rank() ? mine : c.mail_key(member).words[0];
  }
  co_return Status::success();
}

/// The leaders do, and then their nodes. `allocate` runs on leaders when nobody on the node uses
/// the segment before.
template <class Allocate>
Task exchange_in_layers(Collective& c, Allocate allocate, std::uint64_t* offsets) noexcept {
  const Layers& layers = *c.team.layers();
  const auto nodes = static_cast<std::size_t>(layers.nodes);
  const Call here = like(Call{}, Coll::barrier, 0, nullptr, nullptr, 0);
  const Call down = like(Call{}, Coll::bcast, 0, nullptr, offsets, nodes * sizeof *offsets);
  co_await in_layer(c, layers.node, here);
  if (layers.leaders) {
    const std::uint64_t mine = allocate();
    const Call across = like(Call{}, Coll::allgather, 0, &mine, offsets, sizeof mine);
    co_await in_layer(c, layers.leaders, across);
  }
  co_await in_layer(c, layers.node, down);
  co_return Status::success();
}

}  // namespace

Task enter_segment(Collective& c, std::size_t bytes, bool* made) noexcept {
  *made = true;
  if (c.team.layers() != nullptr) {
    co_await c.layers_turn();
  } else {
    co_await c.enter(true);
  }
  NodeSegment& segment = c.team.segment();
  if (!segment.holds(bytes)) {
    const std::size_t capacity =
        c.team.symmetric() ? NodeSegment::kMost : NodeSegment::rounded(bytes);
    std::vector<std::uint64_t> offsets(static_cast<std::size_t>(segment.map().nodes));
    const auto allocate = [&] { return segment.allocate(capacity); };
    if (c.team.symmetric()) {
      std::fill(offsets.begin(), offsets.end(), allocate());
    } else if (c.team.layers() != nullptr) {
      co_await exchange_in_layers(c, allocate, offsets.data());
    } else {
      co_await exchange_among_all(c, allocate(), offsets.data());
    }
    *made = segment.adopt(offsets.data(), capacity);
    if (!*made) co_return Status::success();
  }
  segment.begin();
  co_return Status::success();
}

}  // namespace tutti
