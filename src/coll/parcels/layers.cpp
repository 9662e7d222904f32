#include "coll/parcels/layers.hpp"

#include "coll/pattern/hierarchical.hpp"

namespace tutti {

Task exchange_on_node(Collective& c, const Place& place) noexcept {
  Parcels near(place.local, place.members);
  for (const Parcel& parcel : c.call.parcels->sent())
    if (!place.far(parcel.member))
      near.send(place.local_of(parcel.member), parcel.data, parcel.bytes);
  for (const Parcel& parcel : c.call.parcels->received())
    if (!place.far(parcel.member))
      near.receive(place.local_of(parcel.member), parcel.data, parcel.bytes);
  near.arrange();
  const Call call = call_of(Coll::alltoallv, near);
  co_await in_layer(c, place.layers.node, call);
  co_return Status::success();
}

}  // namespace tutti
