// Collectives of which each rank knows but its own counts, between nodes: each parcel straight into
// its place, to which its receiver invites its sender. Members that have nothing for each other say
// nothing to each other.
//
// Two members have one slot for each other's mail, so of several parcels between them the n-th goes
// in round n: the invitation to it follows the arrival of the one before, whose key has then been
// read. What a rank awaits in a round depends on nothing but the rounds before of those that it has
// parcels with.
#include <algorithm>
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/parcels.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

/// Steps of the mail: they grow with the rounds.
constexpr std::uint64_t invited(std::size_t round) noexcept { return 2 * round + kInvited; }
constexpr std::uint64_t arrived(std::size_t round) noexcept { return 2 * round + kArrived; }
static_assert(invited(1) > arrived(0));

/// Whether a parcel is the one of its member whose turn it is.
bool is_of_round(std::span<const Parcel> parcels, std::size_t index, std::size_t round) noexcept {
  return Parcels::same_member(parcels, index, round) &&
         !Parcels::same_member(parcels, index, round + 1);
}

/// Rounds that these take.
std::size_t rounds_of(std::span<const Parcel> parcels) noexcept {
  std::size_t rounds = 0;
  for (std::size_t i = 0; i < parcels.size(); ++i)
    while (Parcels::same_member(parcels, i, rounds)) ++rounds;
  return rounds;
}

/// The places of all parcels that come, for the life of the algorithm.
class Places {
 public:
  explicit Places(Collective& c) noexcept : c_(c) {}
  ~Places() {
    for (Region& region : regions_) c_.team.fabric().withdraw(region);
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  Status invite(std::size_t round) {
    const std::span<const Parcel> received = c_.call.parcels->received();
    regions_.reserve(received.size());
    for (std::size_t i = 0; i < received.size(); ++i) {
      if (!is_of_round(received, i, round)) continue;
      Region region;
      TUTTI_TRY(c_.team.fabric().expose(received[i].data, received[i].bytes, &region));
      regions_.push_back(region);
      TUTTI_TRY(c_.mail(received[i].member, invited(round), &regions_.back().key));
    }
    return Status::success();
  }

 private:
  Collective& c_;
  std::vector<Region> regions_;
};

/// What is sent in a round: each parcel when its receiver has invited to it.
Task put_round(Collective& c, std::size_t round, Completion& posted) {
  const std::span<const Parcel> sent = c.call.parcels->sent();
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (!is_of_round(sent, i, round)) continue;
    co_await c.mailed(sent[i].member, invited(round));
    co_await put_direct(c, sent[i].member, 0, sent[i].data, sent[i].bytes, &posted);
    co_await c.mail(sent[i].member, arrived(round));
  }
  co_return Status::success();
}

Task parcels_direct(Collective& c) {
  const Parcels& parcels = *c.call.parcels;
  const std::span<const Parcel> received = parcels.received();
  Places places(c);
  Completion posted;
  co_await c.enter(false);
  co_await places.invite(0);
  co_await parcels.each_own(
      [&c](std::byte* to, const std::byte* from, std::size_t bytes) { c.place(to, from, bytes); });
  const std::size_t rounds = std::max(rounds_of(parcels.sent()), rounds_of(received));
  for (std::size_t round = 0; round < rounds; ++round) {
    if (round != 0) co_await places.invite(round);
    co_await put_round(c, round, posted);
    for (std::size_t i = 0; i < received.size(); ++i)
      if (is_of_round(received, i, round)) co_await c.mailed(received[i].member, arrived(round));
  }
  co_await c.completed(posted);
  c.finish();
  co_return Status::success();
}

constexpr Algorithm direct_of(Coll coll) {
  return {.coll = coll,
          .name = "direct",
          .run = with_parameters<parcels_direct>,
          .restriction_of = with_parameters<between_nodes>,
          .source = "VIA-2003, section 3.3: dynamic registration"};
}

}  // namespace

namespace algorithm {

const Algorithm gatherv_direct = direct_of(Coll::gatherv);
const Algorithm scatterv_direct = direct_of(Coll::scatterv);
const Algorithm alltoallv_direct = direct_of(Coll::alltoallv);
const Algorithm alltoallw_direct = direct_of(Coll::alltoallw);
const Algorithm neighbor_allgather_direct = direct_of(Coll::neighbor_allgather);
const Algorithm neighbor_allgatherv_direct = direct_of(Coll::neighbor_allgatherv);
const Algorithm neighbor_alltoall_direct = direct_of(Coll::neighbor_alltoall);
const Algorithm neighbor_alltoallv_direct = direct_of(Coll::neighbor_alltoallv);
const Algorithm neighbor_alltoallw_direct = direct_of(Coll::neighbor_alltoallw);

}  // namespace algorithm
}  // namespace tutti
