// Collectives of which each rank knows but its own counts, in layers: members of a node exchange
// what they have for each other; what goes to other nodes is bundled by their leaders, who exchange
// the bundles and hand them out.
//
// Leaders know nobody's counts. A parcel in a bundle is therefore preceded by a record, and before
// bundles move their lengths do, by collectives whose lengths everybody knows.
#include <numeric>
#include <vector>

#include "coll/algorithms.hpp"
#include "coll/parcels.hpp"
#include "coll/parcels/layers.hpp"
#include "coll/pattern/hierarchical.hpp"
#include "coll/restrictions.hpp"

namespace tutti {
namespace {

struct Record {
  std::int32_t from, to;  // members of the whole team
  std::uint64_t bytes;    // that follow
};

/// Records with their parcels, in groups one behind the other.
struct Bundles {
  Temporary memory;
  std::vector<std::uint64_t> bytes;  // of each group

  std::uint64_t total() const noexcept {
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  }
  std::byte* group(std::size_t index) const noexcept {
    return at(memory.memory(),
              std::accumulate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(index),
                              std::uint64_t{0}));
  }
  /// Calls visit(record, data) for all of them.
  template <class Visit>
  void each(Visit&& visit) const {
    const std::uint64_t end = total();
    for (std::uint64_t i = 0; i < end;) {
      Record record;
      std::memcpy(&record, at(memory.memory(), i), sizeof record);
      visit(record, static_cast<const std::byte*>(at(memory.memory(), i + sizeof record)));
      i += sizeof record + record.bytes;
    }
  }
};

/// Bundles what each(visit) visits: into group group_of(record).
template <class Each, class GroupOf>
Status bundle(Collective& c, std::size_t groups, Each each, GroupOf group_of, Bundles* out) {
  out->bytes.assign(groups, 0);
  each([&](const Record& record, const std::byte*) {
    out->bytes[group_of(record)] += sizeof record + record.bytes;
  });
  if (!c.team.carries(out->total()))
    return Status::error(Code::unsupported, "cannot be simulated without its data");
  TUTTI_TRY(out->memory.allocate(c, out->total()));
  std::vector<std::byte*> places(groups);
  for (std::size_t i = 0; i < groups; ++i) places[i] = out->group(i);
  each([&](const Record& record, const std::byte* data) {
    std::byte*& place = places[group_of(record)];
    std::memcpy(place, &record, sizeof record);
    c.place(place + sizeof record, data, record.bytes);
    place += sizeof record + record.bytes;
  });
  return Status::success();
}

/// Room for groups of so many bytes.
Status make_room(Collective& c, Bundles* out) {
  if (!c.team.carries(out->total()))
    return Status::error(Code::unsupported, "cannot be simulated without its data");
  return out->memory.allocate(c, out->total());
}

/// Everybody's bundle to the leader, a group for each member.
Task collect(Collective& c, const Place& place, const Bundles& mine, Bundles* all) {
  const std::uint64_t bytes = mine.total();
  all->bytes.assign(static_cast<std::size_t>(place.members), 0);
  const Call lengths =
      like(Call{}, Coll::gather, 0, &bytes, all->bytes.data(), sizeof(std::uint64_t));
  co_await in_layer(c, place.layers.node, lengths);
  Parcels parcels(place.local, place.members);
  parcels.send(0, mine.memory.memory(), bytes);
  if (place.leads()) {
    co_await make_room(c, all);
    for (std::size_t i = 0; i < all->bytes.size(); ++i)
      parcels.receive(static_cast<int>(i), all->group(i), all->bytes[i]);
  }
  parcels.arrange();
  const Call call = call_of(Coll::gatherv, parcels);
  co_await in_layer(c, place.layers.node, call);
  co_return Status::success();
}

/// A group for each node, between their leaders.
Task exchange_bundles(Collective& c, const Place& place, const Bundles& out, Bundles* in) {
  const auto nodes = static_cast<std::size_t>(place.layers.nodes);
  in->bytes.assign(nodes, 0);
  const Call lengths =
      like(Call{}, Coll::alltoall, 0, out.bytes.data(), in->bytes.data(), sizeof(std::uint64_t));
  co_await in_layer(c, place.layers.leaders, lengths);
  co_await make_room(c, in);
  Parcels parcels(place.layers.my_node, place.layers.nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    parcels.send(static_cast<int>(i), out.group(i), out.bytes[i]);
    parcels.receive(static_cast<int>(i), in->group(i), in->bytes[i]);
  }
  parcels.arrange();
  const Call call = call_of(Coll::alltoallv, parcels);
  co_await in_layer(c, place.layers.leaders, call);
  co_return Status::success();
}

/// The leader's groups to the members, each of which gets one.
Task hand_out(Collective& c, const Place& place, const Bundles& all, Bundles* mine) {
  mine->bytes.assign(1, 0);
  const Call lengths =
      like(Call{}, Coll::scatter, 0, all.bytes.data(), mine->bytes.data(), sizeof(std::uint64_t));
  co_await in_layer(c, place.layers.node, lengths);
  co_await make_room(c, mine);
  Parcels parcels(place.local, place.members);
  for (std::size_t i = 0; i < all.bytes.size(); ++i)
    parcels.send(static_cast<int>(i), all.group(i), all.bytes[i]);
  parcels.receive(0, mine->memory.memory(), mine->total());
  parcels.arrange();
  const Call call = call_of(Coll::scatterv, parcels);
  co_await in_layer(c, place.layers.node, call);
  co_return Status::success();
}

/// Into their places. Those of one sender lie one behind the other, in their order.
Status unpack(Collective& c, const Bundles& mine) {
  const std::span<const Parcel> all = c.call.parcels->received();
  const Parcel* expected = nullptr;
  int from = -1;
  Status status;
  mine.each([&](const Record& record, const std::byte* data) {
    if (record.from != from) {
      from = record.from;
      expected = c.call.parcels->first_from(from);
    } else if (expected != nullptr) {
      const bool last = expected == &all.back() || expected[1].member != from;
      expected = last ? nullptr : expected + 1;
    }
    if (expected == nullptr || expected->bytes < record.bytes) {
      status = Status::error(Code::truncated, "a member sends more than this one's count says");
    } else {
      c.place(expected->data, data, record.bytes);
    }
  });
  return status;
}

}  // namespace

Task exchange_bundled(Collective& c, const Place& place) noexcept {
  const Parcels& parcels = *c.call.parcels;
  Bundles mine, of_node, by_node, come, by_member, for_me;
  const auto each_far = [&](auto&& visit) {
    for (const Parcel& p : parcels.sent())
      if (place.far(p.member)) visit(Record{c.rank(), p.member, p.bytes}, p.data);
  };
  co_await bundle(
      c, 1, each_far, [](const Record&) { return std::size_t{0}; }, &mine);
  co_await collect(c, place, mine, &of_node);
  if (place.leads()) {
    co_await bundle(
        c, static_cast<std::size_t>(place.layers.nodes), [&](auto&& visit) { of_node.each(visit); },
        [&](const Record& r) { return static_cast<std::size_t>(place.node_of(r.to)); }, &by_node);
    co_await exchange_bundles(c, place, by_node, &come);
    co_await bundle(
        c, static_cast<std::size_t>(place.members), [&](auto&& visit) { come.each(visit); },
        [&](const Record& r) { return static_cast<std::size_t>(place.local_of(r.to)); },
        &by_member);
  }
  co_await hand_out(c, place, by_member, &for_me);
  co_await unpack(c, for_me);
  co_return Status::success();
}

namespace {

Task parcels_hierarchical(Collective& c) {
  const Place place(c);
  co_await c.layers_turn();
  co_await c.call.parcels->each_own(
      [&c](std::byte* to, const std::byte* from, std::size_t bytes) { c.place(to, from, bytes); });
  co_await exchange_on_node(c, place);
  co_await exchange_bundled(c, place);
  c.finish();
  co_return Status::success();
}

constexpr Algorithm layers_of(Coll coll) {
  return {.coll = coll,
          .name = "hierarchical",
          .run = with_parameters<parcels_hierarchical>,
          .restriction_of = with_parameters<in_layers>,
          .source = "shared memory in the node, network between leaders"};
}

}  // namespace

namespace algorithm {

const Algorithm gatherv_hierarchical = layers_of(Coll::gatherv);
const Algorithm scatterv_hierarchical = layers_of(Coll::scatterv);
const Algorithm alltoallv_hierarchical = layers_of(Coll::alltoallv);
const Algorithm alltoallw_hierarchical = layers_of(Coll::alltoallw);
const Algorithm neighbor_allgather_hierarchical = layers_of(Coll::neighbor_allgather);
const Algorithm neighbor_allgatherv_hierarchical = layers_of(Coll::neighbor_allgatherv);
const Algorithm neighbor_alltoall_hierarchical = layers_of(Coll::neighbor_alltoall);
const Algorithm neighbor_alltoallv_hierarchical = layers_of(Coll::neighbor_alltoallv);
const Algorithm neighbor_alltoallw_hierarchical = layers_of(Coll::neighbor_alltoallw);

}  // namespace algorithm
}  // namespace tutti
