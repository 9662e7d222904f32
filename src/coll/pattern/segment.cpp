#include "coll/pattern/segment.hpp"

#include <cstring>

#include "coll/pattern/direct.hpp"
#include "coll/pattern/layered.hpp"

namespace tutti {
namespace {

/// Every member has a segment of its own: all tell all others where it is, by mail.
Task exchange_among_all(Team& t, const Ticket& k, std::uint64_t mine,
                        std::uint64_t* offsets) noexcept {
  Inbox& inbox = t.inbox();
  const Key key{{mine, 0, 0, 0}};
  for (int i = 1; i < t.size(); ++i)
    co_await inbox.mail(k, (t.rank() + i) % t.size(), kInvited, &key);
  for (int member = 0; member < t.size(); ++member) {
    if (member != t.rank()) co_await inbox.mailed(k, member, kInvited);
    offsets[member] = member == t.rank() ? mine : inbox.mail_key(k, member).words[0];
  }
  co_return Status::success();
}

/// The leaders do, and then their nodes. `allocate` runs on leaders when nobody on the node uses
/// the segment before.
template <class Allocate>
Task exchange_in_layers(Team& t, Allocate allocate, std::uint64_t* offsets) noexcept {
  const Layers& layers = *t.layers();
  const auto nodes = static_cast<std::size_t>(layers.nodes);
  const Call here = like(Call{}, Coll::barrier, 0, nullptr, nullptr, 0);
  const Call down = like(Call{}, Coll::bcast, 0, nullptr, offsets, nodes * sizeof *offsets);
  co_await in_layer(t, layers.node, here);
  if (layers.leaders) {
    const std::uint64_t mine = allocate();
    const Call across = like(Call{}, Coll::allgather, 0, &mine, offsets, sizeof mine);
    co_await in_layer(t, layers.leaders, across);
  }
  co_await in_layer(t, layers.node, down);
  co_return Status::success();
}

}  // namespace

Task enter_segment(Team& t, const Ticket& k, std::size_t bytes, bool* made) noexcept {
  *made = true;
  if (t.layers() != nullptr) {
    co_await t.layers_turn(k);
  } else {
    co_await t.inbox().enter(k, true);
  }
  NodeSegment& segment = t.segment();
  if (!segment.holds(bytes)) {
    const std::size_t capacity = t.symmetric() ? NodeSegment::kMost : NodeSegment::rounded(bytes);
    std::vector<std::uint64_t> offsets(static_cast<std::size_t>(segment.map().nodes));
    const auto allocate = [&] { return segment.allocate(capacity); };
    if (t.symmetric()) {
      std::fill(offsets.begin(), offsets.end(), allocate());
    } else if (t.layers() != nullptr) {
      co_await exchange_in_layers(t, allocate, offsets.data());
    } else {
      co_await exchange_among_all(t, k, allocate(), offsets.data());
    }
    *made = segment.adopt(offsets.data(), capacity);
    if (!*made) co_return Status::success();
  }
  segment.begin();
  co_return Status::success();
}

}  // namespace tutti
