#include "sim/program.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "fabric/sim/world.hpp"
#include "p2p/packet.hpp"
#include "sim/catch_up.hpp"
#include "sim/job.hpp"
#include "sim/process.hpp"

namespace tutti::sim {
namespace {

constexpr std::size_t kCarried = 2 * p2p::kMostPayload;  // every packet, which has a header
constexpr std::size_t kArena = std::size_t{64} << 20;

struct Rank : Process {
  Rank(SimFabric& its_fabric, const p2p::Options& options, const std::vector<Action>& its_actions,
       std::byte* its_buffer)
      : Process(its_fabric, options),
        actions(its_actions),
        buffer(its_buffer),
        interrupts(options.protocol == p2p::Protocol::read_interrupt) {}

  const std::vector<Action>& actions;
  std::byte* buffer;  // of all ranks; what is in it says nothing
  bool interrupts;
  p2p::Transfer* requests[Action::kRequests] = {};
  Time waited = 0, blocked = 0, marked = 0;
  Task task;
};

Task compute(Rank& rank, Time duration) noexcept {
  rank.fabric.compute(duration, rank.interrupts ? &rank.engine.clock() : nullptr, true);
  co_await catch_up(rank.engine, rank.fabric, rank.team->membership());
  rank.fabric.compute(0);
  co_return Status::success();
}

Status begin(Rank& rank, const Action& action) noexcept {
  p2p::Transfer** request = &rank.requests[action.request];
  if (action.kind == Action::Kind::send) {
    return rank.messages.start_send(*rank.team, rank.buffer, action.bytes, action.peer, action.tag,
                                    SendMode::standard, request);
  }
  return rank.messages.start_receive(*rank.team, rank.buffer, action.bytes, action.peer, action.tag,
                                     request);
}

Task wait(Rank& rank, std::uint32_t requests, Time* sum) noexcept {
  const Time began = rank.fabric.clock();
  for (int i = 0; i < Action::kRequests; ++i) {
    if ((requests >> i & 1) == 0) continue;
    p2p::Transfer*& request = rank.requests[i];
    co_await rank.messages.ended(*request);
    const Status status = request->receipt().status;
    rank.messages.release(std::exchange(request, nullptr));
    co_await status;
  }
  *sum += rank.fabric.clock() - began;
  co_return Status::success();
}

Task run_rank(Rank& rank) noexcept {
  for (const Action& action : rank.actions) {
    switch (action.kind) {
      case Action::Kind::compute:
        co_await compute(rank, action.duration);
        break;
      case Action::Kind::send:
      case Action::Kind::receive:
        co_await begin(rank, action);
        break;
      case Action::Kind::wait:
        co_await wait(rank, action.requests, &rank.waited);
        break;
      case Action::Kind::block:
        co_await wait(rank, action.requests, &rank.blocked);
        break;
      case Action::Kind::mark:
        rank.marked = rank.fabric.clock();
        break;
    }
  }
  co_return Status::success();
}

/// What would not be a program: one line, empty when it is.
std::string check(const std::vector<Action>& actions, int rank, int ranks) {
  std::uint32_t active = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& a = actions[i];
    const std::string where =
        "rank " + std::to_string(rank) + ", action " + std::to_string(i) + ": ";
    if (a.kind == Action::Kind::compute || a.kind == Action::Kind::mark) continue;
    if (a.kind == Action::Kind::wait || a.kind == Action::Kind::block) {
      if ((a.requests & ~active) != 0) return where + "waits for a request that is not active";
      active &= ~a.requests;
      continue;
    }
    if (a.request < 0 || a.request >= Action::kRequests)
      return where + "requests are from 0 to " + std::to_string(Action::kRequests - 1);
    if ((active >> a.request & 1) != 0) return where + "the request is still active";
    if (a.peer < 0 || a.peer >= ranks || a.peer == rank || a.tag < 0)
      return where + "the peer is another rank, and tags are 0 or more";
    active |= std::uint32_t{1} << a.request;
  }
  return active == 0 ? "" : "rank " + std::to_string(rank) + " leaves a request active";
}

std::size_t largest(const std::vector<std::vector<Action>>& actions) {
  std::size_t bytes = 1;
  for (const auto& list : actions) {
    for (const Action& action : list) bytes = std::max(bytes, action.bytes);
  }
  return bytes;
}

Status result_of(const std::vector<std::unique_ptr<Rank>>& ranks, const World& world,
                 std::string* message) {
  for (const auto& rank : ranks) {
    if (!rank->task.done()) continue;
    if (const Status status = rank->task.result(); !status.ok()) {
      *message = "rank " + std::to_string(rank->fabric.rank()) + ": " +
                 (status.detail != nullptr ? status.detail : name(status.code));
      return status;
    }
  }
  const bool done =
      std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->task.done(); });
  if (done) return Status::success();
  *message = world.who_waits();
  return Status::error(Code::internal, "ranks wait for ever");
}

}  // namespace

Status run_program(const ProgramSpec& spec, const std::vector<std::vector<Action>>& actions,
                   ProgramTimes* out, std::string* message) {
  std::unique_ptr<World> world;
  WorldSpec machine{spec.nodes, spec.ranks_per_node, spec.network, false, kArena};
  machine.most_carried = kCarried;
  TUTTI_TRY(World::create(machine, &world, message));
  world->on_lost = SimJob::depends_on;
  const int size = world->ranks();
  if (actions.size() != static_cast<std::size_t>(size)) {
    *message =
        "there must be one list of actions for each of the " + std::to_string(size) + " ranks";
    return Status::error(Code::invalid_argument, "program");
  }
  for (int rank = 0; rank < size && message->empty(); ++rank)
    *message = check(actions[static_cast<std::size_t>(rank)], rank, size);
  if (!message->empty()) return Status::error(Code::invalid_argument, "program");

  p2p::Options options;
  options.eager = spec.eager;
  options.protocol = spec.protocol;
  std::vector<std::int32_t> members(static_cast<std::size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::byte> buffer(largest(actions));
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<Rank>(world->fabric(rank), options,
                                           actions[static_cast<std::size_t>(rank)], buffer.data()));
    TUTTI_TRY(ranks.back()->open(members.data()));
  }
  for (const auto& rank : ranks) {
    rank->task = run_rank(*rank);
    rank->task.start();
    world->settle(rank->fabric.rank());
  }
  world->run();
  const Status status = result_of(ranks, *world, message);
  for (const auto& rank : ranks) {
    out->waited.push_back(rank->waited);
    out->blocked.push_back(rank->blocked);
    out->marked.push_back(rank->marked);
    out->finished.push_back(rank->fabric.clock());
    out->interrupts += rank->fabric.interrupts();
    const p2p::Counts& counts = rank->messages.counts();
    out->rendezvous += counts.write + counts.read + counts.pipelined;
  }
  out->events = world->events();
  for (const auto& rank : ranks) rank->messages.forget(*rank->team);
  return status;
}

}  // namespace tutti::sim
