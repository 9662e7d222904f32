// Gatherv, scatterv, alltoallv and alltoallw between nodes: each parcel straight into its place, to
// which its receiver invites its sender. Members that have nothing for each other say nothing to
// each other.
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/parcels.hpp"
#include "coll/pattern/direct.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

/// The places of all parcels that come, for the life of the algorithm.
class Places {
 public:
  explicit Places(Collective& c) noexcept : c_(c) {}
  ~Places() {
    for (Region& region : regions_) c_.team.fabric().withdraw(region);
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  Status invite() {
    regions_.reserve(c_.call.parcels->received().size());
    for (const Parcel& parcel : c_.call.parcels->received()) {
      Region region;
      TUTTI_TRY(c_.team.fabric().expose(parcel.data, parcel.bytes, &region));
      regions_.push_back(region);
      TUTTI_TRY(c_.mail(parcel.member, kInvited, &regions_.back().key));
    }
    return Status::success();
  }

 private:
  Collective& c_;
  std::vector<Region> regions_;
};

Task parcels_direct(Collective& c) {
  const Parcels& parcels = *c.call.parcels;
  Places places(c);
  Completion posted;
  co_await c.enter(false);
  co_await places.invite();
  parcels.each_own(
      [&c](std::byte* to, const std::byte* from, std::size_t bytes) { c.place(to, from, bytes); });
  for (const Parcel& parcel : parcels.sent()) {
    co_await c.mailed(parcel.member, kInvited);
    co_await put_direct(c, parcel.member, 0, parcel.data, parcel.bytes, &posted);
    co_await c.mail(parcel.member, kArrived);
  }
  for (const Parcel& parcel : parcels.received()) co_await c.mailed(parcel.member, kArrived);
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

}  // namespace algorithm
}  // namespace tutti
