// Broadcast by multicast with acknowledgements: the classical ways to make it reliable, which
// MCAST-2007 compares its ring with.
//
// The root casts the message. A member that has it, and whose children in a tree of
// acknowledgements have acknowledged, acknowledges to its parent; who does not get all
// acknowledgements in time casts again.
//
//   linear   every member to the root: a hot spot
//   tree     a binomial tree: log2 N acknowledgements one after the other
//   co-root  groups of about sqrt N: the members of a group to its first, these to the root
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "coll/algorithms.hpp"
#include "coll/pattern/casts.hpp"
#include "coll/pattern/tree.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

enum class Scheme { linear, tree, co_root };

/// Who acknowledges to whom, by place: the distance from the root.
class Acknowledgements {
 public:
  Acknowledgements(Scheme scheme, int place, int size) noexcept
      : scheme_(scheme), place_(place), size_(size), binomial_(place, size) {
    if (scheme == Scheme::linear) group_ = size;
    if (scheme == Scheme::co_root)
      group_ = std::max(1, static_cast<int>(std::lround(std::sqrt(size))));
    while (binomial_.child(branches_) >= 0) ++branches_;
  }

  /// -1 for the root.
  int parent() const noexcept {
    if (place_ == 0) return -1;
    if (scheme_ == Scheme::tree) return binomial_.parent();
    return place_ == first() ? 0 : first();
  }
  /// The i-th of those that acknowledge to this one; -1 when there is none.
  int child(int i) const noexcept {
    // The smallest branches first, because they acknowledge first.
    if (scheme_ == Scheme::tree) return i < branches_ ? binomial_.child(branches_ - 1 - i) : -1;
    if (place_ != first()) return -1;
    const int in_group = std::min(group_, size_ - place_) - 1;
    if (i < in_group) return place_ + 1 + i;
    if (place_ != 0) return -1;
    const std::int64_t co_root = static_cast<std::int64_t>(i - in_group + 1) * group_;
    return co_root < size_ ? static_cast<int>(co_root) : -1;
  }
  /// The root, and the co-roots for their groups: whoever else waits knows that they do.
  bool casts_again() const noexcept {
    return place_ == 0 || (scheme_ == Scheme::co_root && place_ == first());
  }

 private:
  int first() const noexcept { return place_ - place_ % group_; }

  Scheme scheme_;
  int place_;
  int size_;
  int group_ = 1;
  BinomialTree binomial_;
  int branches_ = 0;
};

/// Awaits the acknowledgements of all children; casts again where one is late.
Task wait_for_acks(Collective& c, Casts& casts, const Acknowledgements& acks,
                   std::uint64_t timeout_ns) noexcept {
  std::uint64_t deadline = c.team.fabric().now_ns() + timeout_ns;
  for (int i = 0; acks.child(i) >= 0; ++i) {
    const int from = casts.member(acks.child(i));
    while (!c.has_mail(from, 1)) {
      if (!acks.casts_again()) {
        co_await c.mailed(from, 1);
        break;
      }
      co_await c.mailed_by(from, 1, deadline);
      if (c.team.fabric().now_ns() < deadline) continue;
      co_await casts.cast();
      deadline = c.team.fabric().now_ns() + timeout_ns;
    }
    c.team.fabric().spend(Work::match, 0);
  }
  co_return Status::success();
}

Task acknowledged(Collective& c, Casts::Timeout p, Scheme scheme) {
  co_await c.team.open_multicast();
  co_await c.enter(false);
  Casts casts(c);
  const Acknowledgements acks(scheme, casts.place(), c.size());
  if (casts.place() == 0) {
    co_await casts.cast();
  } else {
    co_await casts.take_all();
  }
  co_await wait_for_acks(c, casts, acks, static_cast<std::uint64_t>(p.timeout) * 1000);
  if (acks.parent() >= 0) co_await c.mail(casts.member(acks.parent()), 1);
  c.finish();
  co_return Status::success();
}

}  // namespace

Task bcast_multicast_linear_ack(Collective& c, Casts::Timeout p) {
  return acknowledged(c, p, Scheme::linear);
}

Task bcast_multicast_tree_ack(Collective& c, Casts::Timeout p) {
  return acknowledged(c, p, Scheme::tree);
}

Task bcast_multicast_coroot_ack(Collective& c, Casts::Timeout p) {
  return acknowledged(c, p, Scheme::co_root);
}

namespace algorithm {

const Algorithm bcast_multicast_linear_ack = {
    .coll = Coll::bcast,
    .name = "multicast_linear_ack",
    .run = with_parameters<tutti::bcast_multicast_linear_ack>,
    .restriction_of = with_parameters<acknowledges_casts>,
    .parameters = Casts::kTimeout,
    .source = "a rival of MCAST-2007",
    .casts = true,
};

const Algorithm bcast_multicast_tree_ack = {
    .coll = Coll::bcast,
    .name = "multicast_tree_ack",
    .run = with_parameters<tutti::bcast_multicast_tree_ack>,
    .restriction_of = with_parameters<acknowledges_casts>,
    .parameters = Casts::kTimeout,
    .source = "a rival of MCAST-2007",
    .casts = true,
};

const Algorithm bcast_multicast_coroot_ack = {
    .coll = Coll::bcast,
    .name = "multicast_coroot_ack",
    .run = with_parameters<tutti::bcast_multicast_coroot_ack>,
    .restriction_of = with_parameters<acknowledges_casts>,
    .parameters = Casts::kTimeout,
    .source = "a rival of MCAST-2007",
    .casts = true,
};

}  // namespace algorithm
}  // namespace tutti
