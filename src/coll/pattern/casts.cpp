#include "coll/pattern/casts.hpp"

#include <algorithm>

#include "coll/pattern/published.hpp"
#include "team/ring.hpp"

namespace tutti {

Casts::Casts(Team& t, const Call& call, const Ticket& k) noexcept
    : t_(t),
      call_(call),
      k_(k),
      multicast_(t.multicast()),
      place_((t.rank() - call.root + t.size()) % t.size()),
      fragment_(std::min(Multicast::fragment_bytes(t.fabric().traits().datagram_bytes),
                         Ring::kSlotBytes)),
      fragments_(static_cast<int>(chunks(call.bytes, fragment_))) {
  if (place_ == 0) had_ = (std::uint64_t{1} << fragments_) - 1;
}

int Casts::member(int place) const noexcept { return (place + call_.root) % t_.size(); }

std::size_t Casts::bytes(int i) const noexcept {
  return std::min(fragment_, call_.bytes - offset(i));
}

Status Casts::cast() noexcept {
  for (int i = 0; i < fragments_; ++i) {
    TUTTI_TRY(multicast_.cast(k_, static_cast<std::uint32_t>(i),
                              at(static_cast<const void*>(call_.recv), offset(i)), bytes(i)));
  }
  return Status::success();
}

Status Casts::take() noexcept {
  std::uint32_t sequence = 0;
  while (!complete() && multicast_.take(k_, call_.recv, fragment_, call_.bytes, &sequence))
    had_ |= std::uint64_t{1} << sequence;
  return Status::success();
}

Task Casts::take_until(std::uint64_t deadline_ns) noexcept {
  Engine& engine = t_.engine();
  for (;;) {
    // Read before looking: what comes after the look makes them grow.
    const Word& arrivals = multicast_.arrivals();
    const std::uint64_t seen = arrivals.load(std::memory_order_acquire);
    co_await take();
    if (complete() || t_.fabric().now_ns() >= deadline_ns) co_return Status::success();
    if (deadline_ns == kNever) {
      co_await engine.reached(arrivals, seen + 1, t_.membership());
    } else {
      co_await engine.reached_by(arrivals, seen + 1, deadline_ns, t_.membership());
    }
  }
}

Status Casts::save() noexcept {
  Inbox& inbox = t_.inbox();
  for (int i = 0; i < fragments_; ++i) {
    tutti::place(t_, inbox.data(k_, Inbox::bcast_block(t_.size(), i), bytes(i)),
                 at(static_cast<const void*>(call_.recv), offset(i)), bytes(i));
  }
  inbox.fill(k_, Inbox::bcast_block(t_.size(), 0));
  return Status::success();
}

Task Casts::fetch(bool* saved) noexcept {
  Inbox& inbox = t_.inbox();
  Engine& engine = t_.engine();
  const int root = member(0);
  *saved = false;
  Completion asked;
  std::uint64_t filled = 0;
  co_await inbox.fetch_counter(k_, root, Inbox::bcast_block(t_.size(), 0), &filled, &asked);
  co_await engine.completed(asked, t_.membership(), t_.job_rank(root));
  if (filled < k_.epoch + 1) co_return Status::success();
  *saved = true;
  Completion read;
  for (int i = 0; i < fragments_; ++i) {
    if ((had_ >> i & 1) != 0) continue;
    co_await inbox.fetch(k_, root, Inbox::bcast_block(t_.size(), i), at(call_.recv, offset(i)),
                         bytes(i), &read);
    had_ |= std::uint64_t{1} << i;
    ++multicast_.counts().repaired;
  }
  co_await engine.completed(read, t_.membership(), t_.job_rank(root));
  co_return Status::success();
}

}  // namespace tutti
