#include "coll/pattern/cast_ring.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "coll/pattern/published.hpp"
#include "team/multicast.hpp"
#include "team/reliable_ring.hpp"

namespace tutti {
namespace {

/// A flag costs a member as much as a short message does, and saves the other one a message only if
/// that one comes later: not worth telling below this size.
constexpr std::size_t kToldFrom = 256;

/// Who has the message: of collectives without a root, whose calls may name any, the first member.
int caster(const Collective& c) noexcept { return c.call.coll == Coll::bcast ? c.call.root : 0; }

/// One rank's part in one broadcast.
class Broadcast {
 public:
  Broadcast(Collective& c, std::int64_t chords) noexcept
      : c_(c),
        multicast_(c.team.multicast()),
        ring_(c.team),
        chords_(static_cast<int>(std::min<std::int64_t>(chords, ReliableRing::chords(c.size())))),
        place_((c.rank() - caster(c) + c.size()) % c.size()),
        fragment_(std::min(Multicast::fragment_bytes(c.team.fabric().traits().datagram_bytes),
                           ReliableRing::kSlotBytes)),
        fragments_(static_cast<int>(chunks(c.call.bytes, fragment_))) {}

  bool complete() const noexcept { return had_ == (std::uint64_t{1} << fragments_) - 1; }
  bool is_root() const noexcept { return place_ == 0; }
  Multicast& multicast() noexcept { return multicast_; }
  ReliableRing& ring() noexcept { return ring_; }
  Completion& sent() noexcept { return sent_; }

  /// Tells the team's watch what has become of it.
  void note() noexcept {
    // A run as long as a tree is deep takes what the tree would.
    const int received = is_root() ? 0 : fragments_;
    multicast_.watch().seen(caster(c_), run_, ReliableRing::chords(c_.size()), received, repaired_);
  }

  /// Stage 1 of the root.
  Status cast() noexcept {
    for (int i = 0; i < fragments_; ++i)
      TUTTI_TRY(multicast_.cast(c_.ticket(), static_cast<std::uint32_t>(i), data(i), bytes(i)));
    for (int i = 0; i < fragments_; ++i) TUTTI_TRY(have(i, -1, 0));
    return Status::success();
  }

  /// Stage 1 of the others: what the multicast has brought.
  Status take_casts() noexcept {
    const std::uint64_t before = had_;
    std::uint32_t sequence = 0;
    while (!complete() &&
           multicast_.take(c_.ticket(), c_.call.recv, fragment_, c_.call.bytes, &sequence)) {
      if ((had_ >> sequence & 1) == 0) TUTTI_TRY(have(static_cast<int>(sequence), -1, 0));
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
        ++repaired_;
        const int run = ring_.run(c_.ticket(), chord, i);
        run_ = std::max(run_, run);
        TUTTI_TRY(have(i, chord, run));
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
  /// behind it. Around the ring always, so that everybody is served whatever was lost. `run`: of
  /// members that have it by puts, up to this one.
  Status have(int i, int chord, int run) noexcept {
    had_ |= std::uint64_t{1} << i;
    if ((ring_.acknowledged(c_.ticket()) >> i & 1) == 0) TUTTI_TRY(forward(i, 0, run));
    if (chord < 0) return Status::success();
    // What came by the ring starts a tree; what came by a chord goes on in that tree.
    const int height = chord == 0 ? chords_ : chord;
    for (int further = 1; further < height; ++further) TUTTI_TRY(forward(i, further, run));
    return Status::success();
  }
  Status forward(int i, int chord, int run) noexcept {
    if (place_ + (1 << chord) >= c_.size()) return Status::success();
    return ring_.put(c_.ticket(), chord, i, run, data(i), bytes(i), &sent_);
  }

  Collective& c_;
  Multicast& multicast_;
  ReliableRing ring_;
  const int chords_;
  const int place_;  // in the ring, counted from the root
  const std::size_t fragment_;
  const int fragments_;
  std::uint64_t had_ = 0;  // by fragment
  int run_ = 0;            // the longest of its fragments
  int repaired_ = 0;       // fragments
  Completion sent_;
};

/// Ends a survey, and says once for the team what it has changed.
void tell(Collective& c, const CastSurvey& all) noexcept {
  CastWatch& watch = c.team.multicast().watch();
  const bool had_left = watch.has_left();
  const int roots = watch.roots_left();
  watch.conclude(c.ticket().cast, &all);
  if (c.rank() != 0 || (watch.has_left() == had_left && watch.roots_left() == roots)) return;
  if (watch.has_left()) {
    log(LogLevel::info, "broadcasts of %d nodes go by a tree: multicast is repaired too often",
        c.size());
  } else if (watch.roots_left() > roots) {
    log(LogLevel::info, "broadcasts of %d nodes from rank %d go by a tree: its multicasts are lost",
        c.size(), c.team.job_rank(static_cast<int>(all.root)));
  } else {
    log(LogLevel::info, "broadcasts of %d nodes go by multicast again", c.size());
  }
}

/// The worst of all members, in log2 N rounds: whoever has heard the last one has heard all. Nobody
/// is as far as the next survey while a member is still in this one, since epochs come in order.
Task survey(Collective& c, std::uint64_t number) {
  static_assert(CastWatch::kFirst > Inbox::kGenerations);
  ReliableRing ring(c.team);
  CastSurvey all = c.team.multicast().watch().own();
  for (int round = 0; round < ReliableRing::chords(c.size()); ++round) {
    co_await ring.survey(round, all.word(number));
    const Word& word = ring.surveyed(round);
    co_await c.team.engine().reached(word, number << CastSurvey::kNumberAt, c.team.membership(),
                                     c.team.job_rank(ring.before(round)));
    all.merge(CastSurvey::of(word.load(std::memory_order_acquire)));
  }
  tell(c, all);
  co_return Status::success();
}

}  // namespace

Task await_surveys(Collective& c, bool* casts) noexcept {
  CastWatch& watch = c.team.multicast().watch();
  const std::uint64_t number = c.ticket().cast, surveys = CastWatch::surveys_before(number);
  if (watch.surveys().load(std::memory_order_acquire) < surveys)
    co_await c.team.engine().reached(watch.surveys(), surveys, c.team.membership());
  *casts = watch.casts(number, caster(c));
  co_return Status::success();
}

Task cast_and_repair(Collective& c, std::int64_t chords) noexcept {
  Broadcast broadcast(c, chords);
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
  broadcast.note();
  const std::uint64_t number = c.ticket().cast;
  if (CastWatch::is_surveyed(number)) co_await survey(c, CastWatch::surveys_before(number) + 1);
  const Completion& sent = broadcast.sent();
  co_await c.completed(sent);
  co_return Status::success();
}

}  // namespace tutti
