#include "fabric/sim/world.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "fabric/sim/sim.hpp"

namespace tutti::sim {
namespace {

constexpr std::uintptr_t kStepMask = 15;
// Deadlines in a row after which nothing more is expected; and 1,000 for each rank. Datagrams do
// not count as arriving: they may all be damaged.
constexpr std::uint64_t kMostFruitless = 100'000;
constexpr std::size_t kPage = 4096;
constexpr Time kNoticed =
    100'000'000'000;  // 100 ms, as often as an engine looks after its peers' health

}  // namespace

World::World(const WorldSpec& spec)
    : spec_(spec),
      ranks_(spec.nodes * spec.ranks_per_node),
      lines_(spec.network.node, spec.ranks_per_node, spec.scattered) {}

World::~World() {
  for (int rank = 0; rank < constructed_; ++rank) std::destroy_at(fabrics_ + rank);
}

Status World::create(const WorldSpec& spec, std::unique_ptr<World>* out, std::string* message) {
  if (spec.nodes < 1 || spec.ranks_per_node < 1 || spec.nodes > (1 << 30) / spec.ranks_per_node) {
    *message = "nodes and ranks per node must be from 1, and together at most 2^30 ranks";
    return Status::error(Code::invalid_argument, "ranks");
  }
  if (spec.nodes > 1 && !spec.network.between_nodes) {
    *message = "the profile '" + spec.network.name +
               "' describes one node; for more it needs the table [via] or [loggp]";
    return Status::error(Code::invalid_argument, "no network");
  }
  if (spec.noise.any() && spec.noise.duration >= spec.noise.period) {
    *message = "noise must take less than its period";
    return Status::error(Code::invalid_argument, "noise");
  }
  std::unique_ptr<World> world(new World(spec));
  world->spec_.arena_bytes = (spec.arena_bytes + kPage - 1) / kPage * kPage;
  world->nics_.resize(static_cast<std::size_t>(spec.nodes));
  if (spec.network.leaf_nodes > 0) {
    const int leaves = (spec.nodes + spec.network.leaf_nodes - 1) / spec.network.leaf_nodes;
    world->up_.resize(static_cast<std::size_t>(leaves) *
                      static_cast<std::size_t>(spec.network.uplinks));
    world->down_.resize(world->up_.size());
  }
  TUTTI_TRY(world->map_arenas(message));
  if (!world->fabric_memory_.allocate(static_cast<std::size_t>(world->ranks_) * sizeof(SimFabric),
                                      true)) {
    *message = "no address space for " + std::to_string(world->ranks_) + " ranks";
    return Status::error(Code::no_memory, "ranks");
  }
  world->fabrics_ = reinterpret_cast<SimFabric*>(world->fabric_memory_.data());
  for (int rank = 0; rank < world->ranks_; ++rank, ++world->constructed_) {
    new (world->fabrics_ + rank) SimFabric(*world, rank);
  }
  *out = std::move(world);
  return Status::success();
}

Status World::map_arenas(std::string* message) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  pool_bytes_ = spec_.arena_bytes * ranks;
  if (spec_.elided && spec_.nodes > 1 && spec_.ranks_per_node == 1) arena_scale_ = ranks;
  if (!arenas_.allocate(pool_bytes_, false)) {
    *message = "no address space for the arenas of " + std::to_string(ranks_) + " ranks of " +
               std::to_string(spec_.arena_bytes) + " bytes";
    pool_bytes_ = 0;
    return Status::error(Code::no_memory, "arenas");
  }
  pool_ = arenas_.data();
  return Status::success();
}

bool World::is_lost(int rank) const noexcept { return fabrics_[rank].lost_; }

SimFabric& World::fabric(int rank) noexcept { return fabrics_[rank]; }

std::byte* World::arena_base(int rank) const noexcept {
  return pool_ +
         static_cast<std::size_t>(rank) * (arena_scale_ == 1 ? spec_.arena_bytes : sizeof(Word));
}

void World::give(Message* message) noexcept {
  if (Baggage* baggage = std::exchange(message->baggage, nullptr)) {
    delete[] baggage->staged;
    *baggage = Baggage{};
    baggage_.give(baggage);
  }
  messages_.give(message);
}

void World::run() {
  const std::uint64_t most = kMostFruitless + 1000 * static_cast<std::uint64_t>(ranks_);
  fruitless_ = 0;
  while (fruitless_ < most && step()) {
  }
}

std::string World::who_waits() const {
  constexpr int kShown = 4;
  int waiting = 0;
  std::string who;
  for (int rank = 0; rank < ranks_; ++rank) {
    std::int32_t peer = -1;
    if (!fabrics_[rank].waits(&peer) || ++waiting > kShown) continue;
    who += (waiting == 1 ? ": rank " : ", rank ") + std::to_string(rank) +
           (peer < 0 ? "" : " for rank " + std::to_string(peer));
  }
  return std::to_string(waiting) + " of " + std::to_string(ranks_) + " ranks wait for ever" + who +
         (waiting > kShown ? ", ..." : "") +
         (queue_.empty() ? "" : " (they try again and again, and nothing arrives)");
}

/// The state of a million ranks is not in the caches. Many events of a collective have the same
/// time, so what the next of them will touch can be asked for in steps: the message, what it points
/// to, what that points to. Only what becomes visible resumes somebody.
void World::prefetch_ahead() noexcept {
  constexpr std::size_t kMessage = 24, kRank = 18, kOthers = 12, kTask = 6;  // events ahead
  const auto message_of = [](std::uintptr_t payload) {
    return reinterpret_cast<const Message*>(payload & ~kStepMask);
  };
  const auto resumes = [](std::uintptr_t payload) { return (payload & kStepMask) == kVisible; };
  if (const Message* message = message_of(queue_.ahead(kMessage))) __builtin_prefetch(message);
  if (const auto event = queue_.ahead(kRank); event != 0) {
    const Message& message = *message_of(event);
    __builtin_prefetch(&nics_[static_cast<std::size_t>(node_of(message.to))]);
    if (resumes(event)) {
      fabric(message.to).prefetch();
      if (message.word != nullptr) __builtin_prefetch(message.word);
    }
  }
  if (const auto event = queue_.ahead(kOthers); resumes(event)) {
    const int rank = message_of(event)->to;
    fabric(rank).prefetch_waiter();
    for (const Touched& touched : touched_) {
      const auto* begin = touched.begin + static_cast<std::size_t>(rank) * touched.stride;
      for (std::size_t i = 0; i < touched.bytes; i += kCacheLine) __builtin_prefetch(begin + i);
    }
  }
  if (const auto event = queue_.ahead(kTask); resumes(event))
    fabric(message_of(event)->to).prefetch_task();
}

bool World::step() {
  if (queue_.empty()) return false;
  prefetch_ahead();
  const auto event = queue_.pop();
  ++events_;
  now_ = event.time;
  auto* message = reinterpret_cast<Message*>(event.payload & ~kStepMask);
  switch (static_cast<Step>(event.payload & kStepMask)) {
    case kPost:
      send(message, now_);
      break;
    case kRead:
      read_by_nic(message, now_);
      break;
    case kUp:
      go_up(message, now_);
      break;
    case kDown:
      go_down(message, now_);
      break;
    case kArrive:
      arrive(message, now_);
      break;
    case kTurn:
      turn_around(message, now_);
      break;
    case kVisible:
      make_visible(message, now_);
      break;
    case kLost:
      notice_loss(message, now_);
      break;
    case kStore:
      at(lines_.write(message->word, message->from, now_), message, kVisible);
      break;
    case kWrote:
      lines_.write_all(message->word, message->bytes, message->from, now_);
      give(message);
      break;
    case kLook:
      static_cast<void>(lines_.read(message->word, message->to, now_));
      give(message);
      break;
    case kCopied:
      arrive_copy(message, now_);
      break;
    case kLeaf:
      spread_in_leaf(message, now_);
      break;
  }
  return true;
}

void World::post(Message* message, Time time) {
  // A NIC of one process sees its messages in the order of that process's own clock; one that is
  // shared must not see those of a process that runs ahead before their time.
  message->posted = time;
  if (spec_.ranks_per_node == 1) {
    send(message, time);
  } else {
    at(time, message, kPost);
  }
}

void World::send(Message* message, Time time) {
  const Network& n = spec_.network;
  Nic& nic = nics_[static_cast<std::size_t>(node_of(message->from))];
  const Time processed = std::max(time + n.Ts, nic.send_nic) + n.Tn;
  nic.send_nic = processed;
  const Time begin = std::max(processed, nic.send_link);
  const Time end = begin + n.Tt.of(wire_bytes(*message));
  nic.send_link = end + n.Ta;
  nic.bytes.sent += wire_bytes(*message);
  if (message->kind == Message::Kind::datagram) return spread(message, begin + n.Tl);
  const bool carries = message->baggage != nullptr && message->baggage->staged == nullptr;
  const bool counts = message->kind == Message::Kind::put && message->completion != nullptr;
  if (message->kind != Message::Kind::request && (carries || counts)) at(end, message, kRead);
  const bool through_spine =
      n.leaf_nodes > 0 && leaf_of(node_of(message->from)) != leaf_of(node_of(message->to));
  at(begin + n.Tl, message, through_spine ? kUp : kArrive);
}

void World::read_now(Message& message) {
  message.baggage->staged = new std::byte[message.bytes];
  std::memcpy(message.baggage->staged, message.baggage->source, message.bytes);
}

void World::read_by_nic(Message* message, Time time) {
  if (message->baggage != nullptr && message->baggage->staged == nullptr) read_now(*message);
  if (message->kind != Message::Kind::put || message->completion == nullptr) return;
  Completion* completion = message->completion;
  message->completion = nullptr;
  completion->finish(Status::success());
  fabric(message->from).settle(time);
}

void World::go_up(Message* message, Time time) {
  // Destination-based routing: all messages to a node come down the same spine link.
  const auto uplinks = static_cast<std::size_t>(spec_.network.uplinks);
  const auto leaf = static_cast<std::size_t>(leaf_of(node_of(message->from)));
  Time& link = up_[leaf * uplinks + static_cast<std::size_t>(node_of(message->to)) % uplinks];
  const Time begin = std::max(time, link);
  link = begin + spec_.network.Tt.of(wire_bytes(*message));
  if (message->kind == Message::Kind::datagram)
    return spread_to_leaves(message, begin + spec_.network.hop);
  at(begin + spec_.network.hop, message, kDown);
}

void World::go_down(Message* message, Time time) {
  const auto uplinks = static_cast<std::size_t>(spec_.network.uplinks);
  const auto node = static_cast<std::size_t>(node_of(message->to));
  Time& link =
      down_[static_cast<std::size_t>(leaf_of(node_of(message->to))) * uplinks + node % uplinks];
  const Time begin = std::max(time, link);
  link = begin + spec_.network.Tt.of(wire_bytes(*message));
  at(begin + spec_.network.hop, message,
     message->kind == Message::Kind::datagram ? kLeaf : kArrive);
}

void World::arrive(Message* message, Time time) {
  const Network& n = spec_.network;
  Nic& nic = nics_[static_cast<std::size_t>(node_of(message->to))];
  const Time begin = std::max(time, nic.receive_link);
  const Time end = begin + n.Tt.of(wire_bytes(*message));
  nic.receive_link = end + n.Tg;
  nic.bytes.received += wire_bytes(*message);
  const Time processed = std::max(end, nic.receive_nic) + n.Tn;
  nic.receive_nic = processed;
  if (message->kind == Message::Kind::request) {
    at(processed, message, kTurn);
  } else {
    at(processed + n.Ts, message, kVisible);
  }
}

void World::turn_around(Message* message, Time time) {
  message->kind = Message::Kind::response;
  std::swap(message->from, message->to);
  send(message, time);
}

void World::make_visible(Message* message, Time time) {
  if (message->kind == Message::Kind::datagram) return deliver(message, time);
  if (spec_.trace && message->kind == Message::Kind::put) {
    deliveries_.push_back({message->from, message->to, message->bytes, message->posted, time});
  }
  if (const Baggage* baggage = message->baggage)
    std::memcpy(baggage->destination, baggage->staged, message->bytes);
  // A word only grows, but the end of a rank's run-ahead may have stored a later value already.
  if (message->word != nullptr && message->word->load(std::memory_order_relaxed) < message->value) {
    message->word->store(message->value, std::memory_order_release);
  }
  fruitless_ = message->kind == Message::Kind::alarm ? fruitless_ + 1 : 0;
  const int rank = message->to;
  if (message->kind == Message::Kind::response) message->completion->finish(Status::success());
  message->completion = nullptr;
  const bool rings = message->rings && message->kind == Message::Kind::put;
  give(message);
  fabric(rank).rung_ = rings;
  settle_node_of(rank, time);
  fabric(rank).rung_ = false;
}

/// A rank has got the line that it waited for.
void World::arrive_copy(Message* message, Time time) {
  const int rank = message->to;
  give(message);
  fabric(rank).settle(time);
}

void World::settle_node_of(int rank, Time time) {
  if (spec_.ranks_per_node == 1) {
    fabric(rank).settle(time);
    return;
  }
  const int first = node_of(rank) * spec_.ranks_per_node;
  for (int neighbour = first; neighbour < first + spec_.ranks_per_node; ++neighbour) {
    fabric(neighbour).settle(time);
  }
}

void World::settle(int rank) { fabric(rank).settle(now_); }

void World::lose(int rank) {
  fabric(rank).lost_ = true;
  anybody_lost_ = true;
  Message* message = make();
  message->to = rank;
  at(std::max(now_, fabric(rank).clock()) + kNoticed, message, kLost);
}

void World::notice_loss(Message* message, Time time) {
  const int rank = message->to;
  give(message);
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank) fabric(other).fail_waits_on(rank, time);
  }
}

}  // namespace tutti::sim
