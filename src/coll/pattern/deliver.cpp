#include "coll/pattern/deliver.hpp"

#include <algorithm>
#include <vector>

#include "coll/pattern/move.hpp"

namespace tutti {
namespace {

// Two members have one place for each other's invitations, so of several parcels between them the
// n-th goes in round n: the invitation to it follows the arrival of the one before, whose key has
// then been read. What a rank awaits in a round depends on nothing but the rounds before of those
// that it has parcels with.

/// Steps of a collective between two members: they grow with turns and rounds.
constexpr int kRoundBits = 20;  // of the 24 that a step has
constexpr std::uint64_t step_of(int turn, std::size_t round) noexcept {
  return (static_cast<std::uint64_t>(turn) << kRoundBits) + 2 * round;
}

struct Delivery {
  Parcel parcel;
  std::size_t round;  // its number among those of the two members
  bool by_letter;
  std::size_t region = 0, offset = 0;  // where it is put to otherwise
};

/// `open(member)`: letters go between the two. Both ends of a parcel find the same.
template <class Open>
std::vector<Delivery> plan(std::span<const Parcel> parcels, std::size_t allowance, Open open) {
  std::vector<Delivery> plan;
  plan.reserve(parcels.size());
  std::size_t left = 0;
  for (const Parcel& parcel : parcels) {
    const bool first = plan.empty() || plan.back().parcel.member != parcel.member;
    if (first) left = open(parcel.member) ? allowance : 0;
    const bool fits = Letters::cost(parcel.bytes) <= left;
    if (fits) left -= Letters::cost(parcel.bytes);
    plan.push_back({parcel, first ? 0 : plan.back().round + 1, fits});
  }
  return plan;
}

std::size_t rounds_of(const std::vector<Delivery>& plan) noexcept {
  std::size_t rounds = 0;
  for (const Delivery& d : plan)
    if (!d.by_letter) rounds = std::max(rounds, d.round + 1);
  return rounds;
}

class Deliveries {
 public:
  Deliveries(Collective& c, const Parcels& parcels, int turn)
      : c_(c), letters_(c.letters()), turn_(turn) {
    going_ = plan(parcels.sent(), letters_.allowance(),
                  [&](int member) { return letters_.go_to(c.ticket(), member); });
    coming_ = plan(parcels.received(), letters_.allowance(),
                   [&](int member) { return letters_.come_from(c.ticket(), member); });
    regions_.reserve(coming_.size());
  }
  ~Deliveries() {
    for (Region& region : regions_) c_.team.fabric().withdraw(region);
  }
  Deliveries(const Deliveries&) = delete;
  Deliveries& operator=(const Deliveries&) = delete;
  FramePool& frames() noexcept { return c_.team.frames(); }

  std::size_t rounds() const noexcept { return std::max(rounds_of(going_), rounds_of(coming_)); }

  /// Makes those places reachable that others are invited to: where several follow each other, in
  /// one piece.
  Status expose() {
    std::vector<Delivery*> places;
    for (Delivery& d : coming_)
      if (!d.by_letter) places.push_back(&d);
    std::ranges::sort(places, {}, [](const Delivery* d) { return d->parcel.data; });
    for (std::size_t i = 0; i < places.size();) {
      std::byte* const begin = places[i]->parcel.data;
      std::byte* end = begin;
      for (; i < places.size() && places[i]->parcel.data == end; ++i) {
        places[i]->region = regions_.size();
        places[i]->offset = static_cast<std::size_t>(end - begin);
        end += places[i]->parcel.bytes;
      }
      Region region;
      TUTTI_TRY(c_.team.fabric().expose(begin, static_cast<std::size_t>(end - begin), &region));
      regions_.push_back(region);
    }
    return Status::success();
  }

  Status invite(std::size_t round) {
    for (const Delivery& d : coming_) {
      if (d.by_letter || d.round != round) continue;
      const Letters::Place place{regions_[d.region].key, d.offset, d.parcel.bytes};
      TUTTI_TRY(letters_.invite(c_.ticket(), d.parcel.member, invited(round), place));
    }
    return Status::success();
  }

  Task send_letters() {
    std::size_t total = 0;
    for (const Delivery& d : going_)
      if (d.by_letter) total += Letters::cost(d.parcel.bytes);
    if (total == 0) co_return Status::success();
    co_await envelopes_.allocate(c_, total);
    auto* envelope = static_cast<std::byte*>(envelopes_.memory());
    for (const Delivery& d : going_) {
      if (!d.by_letter) continue;
      co_await letters_.room(d.parcel.member, d.parcel.bytes);
      co_await letters_.send(c_.ticket(), d.parcel.member, static_cast<std::uint32_t>(d.round),
                             d.parcel.data, d.parcel.bytes, envelope, &sent_);
      envelope += Letters::cost(d.parcel.bytes);
    }
    co_return Status::success();
  }

  Task take_letters() {
    for (const Delivery& d : coming_) {
      if (!d.by_letter) continue;
      co_await letters_.arrival(d.parcel.member);
      co_await take_letter(d);
    }
    co_return Status::success();
  }

  /// The others of a round: each when its receiver has invited to it.
  Task put(std::size_t round) {
    for (const Delivery& d : going_) {
      if (d.by_letter || d.round != round) continue;
      const int member = d.parcel.member;
      co_await letters_.said(c_.ticket(), member, invited(round));
      co_await letters_.accept(c_.ticket(), member);
      co_await put_to(letters_.invitation(member), d.parcel);
      co_await letters_.say(c_.ticket(), member, arrived(round));
    }
    co_return Status::success();
  }

  /// Who sends less than is expected may do so in a letter.
  Task await_arrivals(std::size_t round) {
    for (const Delivery& d : coming_) {
      if (d.by_letter || d.round != round) continue;
      const int member = d.parcel.member;
      if (!letters_.come_from(c_.ticket(), member)) {
        co_await letters_.said(c_.ticket(), member, arrived(round));
        continue;
      }
      co_await letters_.said_or_arrival(c_.ticket(), member, arrived(round));
      if (!letters_.has_said(c_.ticket(), member, arrived(round))) co_await take_letter(d);
    }
    co_return Status::success();
  }

  /// All that was sent has left.
  Engine::Reached left() noexcept { return c_.completed(sent_); }

 private:
  Status put_to(const Letters::Place& place, const Parcel& parcel) {
    if (parcel.bytes > place.bytes)
      return Status::error(Code::truncated, "a member expects less than this one sends");
    Remote there;
    TUTTI_TRY(c_.team.fabric().attach(c_.team.job_rank(parcel.member), place.key, &there));
    return c_.team.fabric().put(there, place.offset, parcel.data, parcel.bytes, nullptr, &sent_);
  }

  Status take_letter(const Delivery& d) {
    const Parcel& parcel = d.parcel;
    const Letters::Letter expected{static_cast<std::uint32_t>(d.round), parcel.bytes, {}, {}};
    Letters::Letter letter;
    TUTTI_TRY(letters_.look(c_.ticket(), parcel.member, expected, &letter));
    c_.place(parcel.data, letter.pieces[0], letter.piece_bytes[0]);
    c_.place(parcel.data + letter.piece_bytes[0], letter.pieces[1], letter.piece_bytes[1]);
    return letters_.take_out(parcel.member, letter);
  }

  std::uint64_t invited(std::size_t round) const noexcept { return step_of(turn_, round) + 1; }
  std::uint64_t arrived(std::size_t round) const noexcept { return step_of(turn_, round) + 2; }

  Collective& c_;
  Letters& letters_;
  const int turn_;
  std::vector<Delivery> going_, coming_;
  std::vector<Region> regions_;
  Temporary envelopes_;
  Completion sent_;  // goes before what it was sent from
};

}  // namespace

Task deliver(Collective& c, const Parcels& parcels, int turn) noexcept {
  co_await c.enter_by_letters();
  Deliveries deliveries(c, parcels, turn);
  co_await deliveries.expose();
  co_await deliveries.invite(0);
  co_await deliveries.send_letters();
  co_await parcels.each_own(
      [&c](std::byte* to, const std::byte* from, std::size_t bytes) { c.place(to, from, bytes); });
  co_await deliveries.take_letters();
  for (std::size_t round = 0; round < deliveries.rounds(); ++round) {
    if (round != 0) co_await deliveries.invite(round);
    co_await deliveries.put(round);
    co_await deliveries.await_arrivals(round);
  }
  co_await deliveries.left();
  co_return Status::success();
}

}  // namespace tutti
