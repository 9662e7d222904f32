#include "coll/pattern/casts.hpp"

#include <algorithm>

#include "coll/pattern/published.hpp"
#include "team/reliable_ring.hpp"

namespace tutti {

Casts::Casts(Collective& c) noexcept
    : c_(c),
      multicast_(c.team.multicast()),
      place_((c.rank() - c.call.root + c.size()) % c.size()),
      fragment_(std::min(Multicast::fragment_bytes(c.team.fabric().traits().datagram_bytes),
                         ReliableRing::kSlotBytes)),
      fragments_(static_cast<int>(chunks(c.call.bytes, fragment_))) {
  if (place_ == 0) had_ = (std::uint64_t{1} << fragments_) - 1;
}

int Casts::member(int place) const noexcept { return (place + c_.call.root) % c_.size(); }

std::size_t Casts::bytes(int i) const noexcept {
  return std::min(fragment_, c_.call.bytes - offset(i));
}

Status Casts::cast() noexcept {
  for (int i = 0; i < fragments_; ++i) {
    TUTTI_TRY(multicast_.cast(c_.ticket(), static_cast<std::uint32_t>(i),
                              at(static_cast<const void*>(c_.call.recv), offset(i)), bytes(i)));
  }
  return Status::success();
}

Status Casts::take() noexcept {
  std::uint32_t sequence = 0;
  while (!complete() &&
         multicast_.take(c_.ticket(), c_.call.recv, fragment_, c_.call.bytes, &sequence))
    had_ |= std::uint64_t{1} << sequence;
  return Status::success();
}

Task Casts::take_until(std::uint64_t deadline_ns) noexcept {
  Engine& engine = c_.team.engine();
  for (;;) {
    // Read before looking: what comes after the look makes them grow.
    const Word& arrivals = multicast_.arrivals();
    const std::uint64_t seen = arrivals.load(std::memory_order_acquire);
    co_await take();
    if (complete() || c_.team.fabric().now_ns() >= deadline_ns) co_return Status::success();
    if (deadline_ns == kNever) {
      co_await engine.reached(arrivals, seen + 1, c_.team.membership());
    } else {
      co_await engine.reached_by(arrivals, seen + 1, deadline_ns, c_.team.membership());
    }
  }
}

Status Casts::save() noexcept {
  for (int i = 0; i < fragments_; ++i) {
    c_.place(c_.data(c_.bcast_block(i), bytes(i)),
             at(static_cast<const void*>(c_.call.recv), offset(i)), bytes(i));
  }
  c_.team.inbox().fill(c_.ticket(), c_.bcast_block(0));
  return Status::success();
}

Task Casts::fetch(bool* saved) noexcept {
  Engine& engine = c_.team.engine();
  const int root = member(0);
  *saved = false;
  Completion asked;
  std::uint64_t filled = 0;
  co_await c_.team.inbox().fetch_counter(c_.ticket(), root, c_.bcast_block(0), &filled, &asked);
  co_await engine.completed(asked, c_.team.membership(), c_.team.job_rank(root));
  if (filled < c_.ticket().epoch + 1) co_return Status::success();
  *saved = true;
  Completion read;
  for (int i = 0; i < fragments_; ++i) {
    if ((had_ >> i & 1) != 0) continue;
    co_await c_.team.inbox().fetch(c_.ticket(), root, c_.bcast_block(i),
                                   at(c_.call.recv, offset(i)), bytes(i), &read);
    had_ |= std::uint64_t{1} << i;
    ++multicast_.counts().repaired;
  }
  co_await engine.completed(read, c_.team.membership(), c_.team.job_rank(root));
  co_return Status::success();
}

}  // namespace tutti
