#include "fabric/sim/datagrams.hpp"

#include <algorithm>
#include <cstring>

#include "fabric/sim/sim.hpp"
#include "fabric/sim/world.hpp"

namespace tutti::sim {
namespace {

/// The first member on each of the group's nodes other than the sender alone, or on each leaf.
template <class PlaceOf, class Visit>
void each_place(const Group& group, int sender, PlaceOf place_of, Visit visit) {
  int last = -1;
  for (const auto& [rank, box] : group.members) {
    if (rank == sender || place_of(rank) == last) continue;
    last = place_of(rank);
    visit(rank);
  }
}

}  // namespace

SimDatagrams::~SimDatagrams() {
  for (std::size_t i = 0; i < boxes_.size(); ++i) leave(static_cast<int>(i));
}

Status SimDatagrams::join(const std::uint64_t id[2], int depth, int* out) noexcept {
  if (depth < 1)
    return Status::error(Code::invalid_argument, "a member needs at least one receive");
  Group* group = world_.groups().of(id);
  if (group->members.count(fabric_.rank()) != 0) {
    return Status::error(Code::invalid_argument, "this rank is a member already");
  }
  auto box = std::make_unique<Mailbox>();
  box->depth = static_cast<std::size_t>(depth);
  group->members.emplace(fabric_.rank(), box.get());
  *out = static_cast<int>(boxes_.size());
  boxes_.push_back({group, std::move(box)});
  return Status::success();
}

void SimDatagrams::leave(int group) noexcept {
  if (!joined(group)) return;
  Membership& mine = boxes_[static_cast<std::size_t>(group)];
  mine.group->members.erase(fabric_.rank());
  mine.group = nullptr;
}

Status SimDatagrams::cast(int group, const void* data, std::size_t bytes) noexcept {
  if (!joined(group)) return Status::error(Code::invalid_argument, "no such group");
  if (bytes > fabric_.traits().datagram_bytes)
    return Status::error(Code::truncated, "larger than a datagram");
  auto flight = std::make_unique<Flight>();
  flight->group = boxes_[static_cast<std::size_t>(group)].group;
  const auto* begin = static_cast<const std::byte*>(data);
  flight->data = std::make_shared<const std::vector<std::byte>>(begin, begin + bytes);
  ++boxes_[static_cast<std::size_t>(group)].box->counts.sent;
  fabric_.cast(flight.release());
  return Status::success();
}

std::size_t SimDatagrams::receive(int group, void* out, std::size_t capacity) noexcept {
  std::size_t bytes = 0;
  while (const std::byte* const data = view(group, &bytes)) {
    if (bytes > capacity) {
      Mailbox& box = *boxes_[static_cast<std::size_t>(group)].box;
      ++box.counts.dropped;
      --box.counts.received;
      continue;
    }
    fabric_.spend(Work::copy, bytes);
    std::memcpy(out, data, bytes);
    return bytes;
  }
  return 0;
}

const std::byte* SimDatagrams::view(int group, std::size_t* bytes) noexcept {
  if (!joined(group)) return nullptr;
  Mailbox& box = *boxes_[static_cast<std::size_t>(group)].box;
  if (box.datagrams.empty()) return nullptr;
  box.viewed = std::move(box.datagrams.front());
  box.datagrams.pop_front();
  ++box.counts.received;
  *bytes = box.viewed->size();
  fabric_.spend(Work::match, *bytes);
  return box.viewed->data();
}

void SimDatagrams::deepen(int group, int depth) noexcept {
  if (!joined(group)) return;
  Mailbox& box = *boxes_[static_cast<std::size_t>(group)].box;
  box.depth = std::max(box.depth, static_cast<std::size_t>(std::max(depth, 0)));
}

// ---- in the machine

void World::cast(int from, Flight* flight, Time time) {
  Message* message = make();
  message->kind = Message::Kind::datagram;
  message->from = message->to = from;
  message->bytes = flight->data->size();
  message->word = nullptr;
  message->completion = nullptr;
  message->flight = flight;
  flight->copies = 1;
  post(message, time);
}

Message* World::copy_of(const Message& message, int to) {
  Message* copy = make();
  copy->kind = Message::Kind::datagram;
  copy->from = message.from;
  copy->to = to;
  copy->bytes = message.bytes;
  copy->word = nullptr;
  copy->completion = nullptr;
  copy->flight = message.flight;
  ++message.flight->copies;
  return copy;
}

void World::drop(Message* message) noexcept {
  if (--message->flight->copies == 0) delete message->flight;
  message->flight = nullptr;
  give(message);
}

/// From the sender's NIC into its switch: to the nodes of the leaf, and up once for all the others.
void World::spread(Message* message, Time time) {
  const Group& group = *message->flight->group;
  const int from = message->from;
  if (spec_.network.leaf_nodes == 0) {
    each_place(
        group, from, [this](int rank) { return node_of(rank); },
        [&](int rank) { reach(copy_of(*message, rank), time); });
    return drop(message);
  }
  const int home = leaf_of(node_of(from));
  bool beyond = false;
  each_place(
      group, from, [this](int rank) { return node_of(rank); },
      [&](int rank) {
        if (leaf_of(node_of(rank)) == home) {
          reach(copy_of(*message, rank), time);
        } else {
          beyond = true;
        }
      });
  if (beyond) at(time, copy_of(*message, from), kUp);
  drop(message);
}

/// From the spine down to every other leaf that has members.
void World::spread_to_leaves(Message* message, Time time) {
  const int home = leaf_of(node_of(message->from));
  const auto leaf = [this](int rank) { return leaf_of(node_of(rank)); };
  each_place(*message->flight->group, message->from, leaf, [&](int rank) {
    if (leaf(rank) != home) at(time, copy_of(*message, rank), kDown);
  });
  drop(message);
}

/// Within the leaf of `to`: to each of its nodes that has members.
void World::spread_in_leaf(Message* message, Time time) {
  const int leaf = leaf_of(node_of(message->to));
  each_place(
      *message->flight->group, message->from, [this](int rank) { return node_of(rank); },
      [&](int rank) {
        if (leaf_of(node_of(rank)) == leaf) reach(copy_of(*message, rank), time);
      });
  drop(message);
}

/// The last link, where a copy may be lost, doubled or delayed.
void World::reach(Message* message, Time time) {
  const Network& n = spec_.network;
  if (chance(n.loss)) return drop(message);
  if (chance(n.duplicate)) at(time, copy_of(*message, message->to), kArrive);
  at(chance(n.reorder) ? time + n.reorder_by : time, message, kArrive);
}

void World::deliver(Message* message, Time time) {
  const int node = node_of(message->to), from = message->from;
  Group& group = *message->flight->group;
  std::vector<int> reached;
  for (auto place = group.members.lower_bound(node * spec_.ranks_per_node);
       place != group.members.end() && node_of(place->first) == node; ++place) {
    Mailbox& box = *place->second;
    if (place->first == from) continue;
    if (box.datagrams.size() >= box.depth) {
      ++box.counts.dropped;
      continue;
    }
    box.datagrams.push_back(chance(spec_.network.corrupt) ? damaged(message->flight->data)
                                                          : message->flight->data);
    box.arrivals.store(box.arrivals.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    reached.push_back(place->first);
  }
  drop(message);
  for (const int rank : reached) fabric(rank).settle(time);
}

Datagram World::damaged(const Datagram& datagram) {
  std::vector<std::byte> data = *datagram;
  if (!data.empty()) {
    const std::uint64_t bit = mix(spec_.noise.seed ^ 0x626974, draws_++) % (8 * data.size());
    data[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  return std::make_shared<const std::vector<std::byte>>(std::move(data));
}

bool World::chance(double probability) noexcept {
  if (probability <= 0) return false;
  const std::uint64_t drawn = mix(spec_.noise.seed ^ 0x6c6f7373, draws_++) >> 11;  // 53 bits
  return static_cast<double>(drawn) * 0x1p-53 < probability;
}

}  // namespace tutti::sim
