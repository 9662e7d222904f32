// Broadcast by unreliable multicast and a reliable ring, in about two send times however many ranks
// there are (MCAST-2007).
//
// Stage 1: the root casts the message in fragments of a datagram. Stage 2: whoever has a fragment
// is a root for the member behind it, and puts the fragment there, unless that member has told that
// it has it. Nobody waits for a timeout: a member that has everything leaves, one that lacks
// something gets it from the member before it, which got it by multicast, or by the ring in turn.
//
// Where many in a row have lost a fragment the ring takes a step for each of them. With chords, a
// member that has lost it and got it by the ring or a chord puts it also to the members that are 2,
// 4, 8, ... places behind, so that a run of L is over in about log2 L steps. `chords` is the number
// of these distances: 1 is the paper's ring.
#include <algorithm>
#include <cstdint>

#include "coll/algorithms.hpp"
#include "coll/pattern/published.hpp"
#include "coll/restrictions.hpp"
#include "team/multicast.hpp"
#include "team/reliable_ring.hpp"

namespace tutti {
namespace {

/// A flag costs a member as much as a short message does, and saves the other one a message only if
/// that one comes later: not worth telling below this size.
constexpr std::size_t kToldFrom = 256;

/// One rank's part in one broadcast.
class Broadcast {
 public:
  Broadcast(Collective& c, std::int64_t chords) noexcept
      : c_(c),
        multicast_(c.team.multicast()),
        ring_(c.team),
        chords_(static_cast<int>(std::min<std::int64_t>(chords, ReliableRing::chords(c.size())))),
        place_((c.rank() - c.call.root + c.size()) % c.size()),
        fragment_(std::min(Multicast::fragment_bytes(c.team.fabric().traits().datagram_bytes),
                           ReliableRing::kSlotBytes)),
        fragments_(static_cast<int>(chunks(c.call.bytes, fragment_))) {}

  bool complete() const noexcept { return had_ == (std::uint64_t{1} << fragments_) - 1; }
  bool is_root() const noexcept { return place_ == 0; }
  Multicast& multicast() noexcept { return multicast_; }
  ReliableRing& ring() noexcept { return ring_; }
  Completion& sent() noexcept { return sent_; }

  /// Stage 1 of the root.
  Status cast() noexcept {
    for (int i = 0; i < fragments_; ++i)
      TUTTI_TRY(multicast_.cast(c_.ticket(), static_cast<std::uint32_t>(i), data(i), bytes(i)));
    for (int i = 0; i < fragments_; ++i) TUTTI_TRY(have(i, -1));
    return Status::success();
  }

  /// Stage 1 of the others: what the multicast has brought.
  Status take_casts() noexcept {
    const std::uint64_t before = had_;
    std::uint32_t sequence = 0;
    while (!complete() &&
           multicast_.take(c_.ticket(), c_.call.recv, fragment_, c_.call.bytes, &sequence)) {
      if ((had_ >> sequence & 1) == 0) TUTTI_TRY(have(static_cast<int>(sequence), -1));
    }
    if (had_ != before && c_.call.bytes >= kToldFrom && !ring_.arrived(c_.ticket(), 0, 0) &&
        place_ > 1)
      return ring_.acknowledge(c_.ticket(), had_);
    return Status::success();
  }

  /// Stage 2: what those before have put here.
  Status take_puts() noexcept {
    for (int chord = 0; chord < chords_; ++chord) {
      for (int i = 0; i < fragments_ && !complete(); ++i) {
        if ((had_ >> i & 1) != 0 || !ring_.arrived(c_.ticket(), chord, i)) continue;
        c_.place(at(c_.call.recv, offset(i)), ring_.data(c_.ticket(), chord, i), bytes(i));
        ++multicast_.counts().repaired;
        TUTTI_TRY(have(i, chord));
      }
    }
    return Status::success();
  }

 private:
  std::size_t offset(int i) const noexcept { return static_cast<std::size_t>(i) * fragment_; }
  std::size_t bytes(int i) const noexcept { return std::min(fragment_, c_.call.bytes - offset(i)); }
  const std::byte* data(int i) const noexcept {
    return at(static_cast<const void*>(c_.call.recv), offset(i));
  }

  /// This member has fragment i now, by multicast (`chord` -1) or by a put: it is a root for those
  /// behind it. Around the ring always, so that everybody is served whatever was lost.
  Status have(int i, int chord) noexcept {
    had_ |= std::uint64_t{1} << i;
    if ((ring_.acknowledged(c_.ticket()) >> i & 1) == 0) TUTTI_TRY(forward(i, 0));
    if (chord < 0) return Status::success();
    // What came by the ring starts a tree; what came by a chord goes on in that tree.
    const int height = chord == 0 ? chords_ : chord;
    for (int further = 1; further < height; ++further) TUTTI_TRY(forward(i, further));
    return Status::success();
  }
  Status forward(int i, int chord) noexcept {
    if (place_ + (1 << chord) >= c_.size()) return Status::success();
    return ring_.put(c_.ticket(), chord, i, data(i), bytes(i), &sent_);
  }

  Collective& c_;
  Multicast& multicast_;
  ReliableRing ring_;
  const int chords_;
  const int place_;  // in the ring, counted from the root
  const std::size_t fragment_;
  const int fragments_;
  std::uint64_t had_ = 0;  // by fragment
  Completion sent_;
};

}  // namespace

namespace {

struct RepairRing {
  std::int64_t chords = 1;
};

}  // namespace

Task bcast_multicast(Collective& c, RepairRing p) {
  co_await c.team.open_multicast();
  co_await c.enter(false);
  Broadcast broadcast(c, p.chords);
  if (broadcast.is_root()) co_await broadcast.cast();
  while (!broadcast.complete()) {
    // Read before looking: what comes after the look makes them grow.
    const std::uint64_t arrivals = broadcast.multicast().arrivals().load(std::memory_order_acquire);
    ReliableRing& ring = broadcast.ring();
    const std::uint64_t sum = ring.sum(c.ticket());
    co_await broadcast.take_casts();
    co_await broadcast.take_puts();
    if (broadcast.complete()) break;
    co_await c.team.engine().reached_either(ring.first(c.ticket()), ring.span(), ring.stride(),
                                            sum + 1, broadcast.multicast().arrivals(), arrivals + 1,
                                            c.team.membership());
  }
  const Completion& sent = broadcast.sent();
  co_await c.completed(sent);
  c.finish();
  co_return Status::success();
}

namespace algorithm {

const Algorithm bcast_multicast = {
    .coll = Coll::bcast,
    .name = "multicast",
    .run = with_parameters<tutti::bcast_multicast>,
    .restriction_of = with_parameters<casts_fragments>,
    .parameters = parameters_of<RepairRing>({{&RepairRing::chords, "chords", "distances", 1, 32,
                                              "chords: 1 (the paper's ring) to 32"}}),
    .source = "MCAST-2007",
    .casts = true,
};

}  // namespace algorithm
}  // namespace tutti
