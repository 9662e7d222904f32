// Collectives of which each rank knows but its own counts, between nodes: from each member straight
// to each other one, of several on a node too. Members that have nothing for each other say nothing
// to each other.
#include "base/log.hpp"
#include "base/reduction.hpp"
#include "coll/algorithms.hpp"
#include "coll/parcels.hpp"
#include "coll/parcels/layers.hpp"
#include "coll/pattern/deliver.hpp"
#include "coll/pattern/hierarchical.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

/// The first such collective of a team makes its team for letters; where some member has no memory
/// for that, all go by the leaders for good.
Task settle_everybody(Collective& c, Layers& layers) {
  std::int32_t mine = layers.open_everybody().ok() ? 1 : 0, all = 0;
  Reduction least;
  find_reduction(Op::min, Type::i32, &least);
  Call call;
  call.coll = Coll::allreduce;
  call.send = &mine;
  call.recv = &all;
  call.bytes = sizeof mine;
  call.reduction = &least;
  co_await allreduce_in_layers(c, call);
  layers.settle_everybody(all == 1);
  if (all == 0 && c.rank() == 0)
    log(LogLevel::warn, "no memory for letters between all ranks of a communicator (TUTTI_ARENA): "
                        "its collectives with lists go by the leaders of the nodes");
  co_return Status::success();
}

/// Those of other nodes in the team that all members have for letters.
Task exchange_between_nodes(Collective& c, const Place& place) {
  Parcels far(c.rank(), c.size());
  for (const Parcel& parcel : c.call.parcels->sent())
    if (place.far(parcel.member)) far.send(parcel.member, parcel.data, parcel.bytes);
  for (const Parcel& parcel : c.call.parcels->received())
    if (place.far(parcel.member)) far.receive(parcel.member, parcel.data, parcel.bytes);
  far.arrange_added();
  const Call call = call_of(Coll::alltoallv, far);
  co_await place.layers.everybody->run(call);
  co_return Status::success();
}

Task parcels_direct(Collective& c) {
  if (c.team.layers() == nullptr) {
    co_await deliver(c, *c.call.parcels);
  } else {
    const Place place(c);
    co_await c.layers_turn();
    co_await c.call.parcels->each_own([&c](std::byte* to, const std::byte* from,
                                           std::size_t bytes) { c.place(to, from, bytes); });
    co_await exchange_on_node(c, place);
    if (!place.layers.settled_everybody()) co_await settle_everybody(c, place.layers);
    if (place.layers.everybody) {
      co_await exchange_between_nodes(c, place);
    } else {
      co_await exchange_bundled(c, place);
    }
  }
  c.finish();
  co_return Status::success();
}

constexpr Algorithm direct_of(Coll coll) {
  return {.coll = coll,
          .name = "direct",
          .run = with_parameters<parcels_direct>,
          .restriction_of = with_parameters<between_any>,
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
