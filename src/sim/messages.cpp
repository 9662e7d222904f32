#include "sim/messages.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "fabric/sim/world.hpp"
#include "sim/job.hpp"
#include "sim/process.hpp"

namespace tutti::sim {
namespace {

constexpr std::int32_t kMembers[2] = {0, 1};
constexpr int kTag = 1;

p2p::Options options_of(const Exchange& exchange) noexcept {
  p2p::Options options;
  options.eager = 0;
  options.protocol = exchange.protocol;
  return options;
}

struct Side : Process {
  using Process::Process;
  Task task;
  Word over{0};  // transfers that are over: what the program itself waits for
  std::vector<std::byte> data;
  Time data_there = 0;
  Time waited = 0;
};

/// Says when the transfer is over, also while the program computes.
Task follow(Side& process, p2p::Transfer& transfer) noexcept {
  static_cast<void>(co_await outcome(process.messages.ended(transfer)));  // the receipt says it
  process.data_there = process.fabric.clock();
  process.over.store(process.over.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  co_return transfer.receipt().status;
}

/// Start, compute, wait.
Task side(Side& process, bool sends, Time computes, bool interrupts) noexcept {
  p2p::Transfer* transfer = nullptr;
  const std::uint64_t wanted = process.over.load(std::memory_order_relaxed) + 1;
  if (sends) {
    co_await process.messages.start_send(*process.team, process.data.data(), process.data.size(), 1,
                                         kTag, SendMode::standard, &transfer);
  } else {
    co_await process.messages.start_receive(*process.team, process.data.data(), process.data.size(),
                                            0, kTag, &transfer);
  }
  Task following = follow(process, *transfer);
  following.start();
  if (computes != 0) {
    process.fabric.compute(computes, interrupts ? &process.over : nullptr, true);
  }
  Status status =
      co_await outcome(process.engine.reached(process.over, wanted, process.team->membership()));
  process.fabric.compute(0);
  if (status.ok()) status = following.result();
  process.waited = process.fabric.clock();
  process.messages.release(transfer);
  co_return status;
}

}  // namespace

Status run_exchange(const Network& network, const Exchange& exchange, ExchangeTimes* out,
                    std::string* message) {
  std::unique_ptr<World> world;
  WorldSpec spec{2, 1, network, false, std::size_t{64} << 20};
  TUTTI_TRY(World::create(spec, &world, message));
  world->on_lost = SimJob::depends_on;
  std::vector<std::unique_ptr<Side>> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.push_back(std::make_unique<Side>(world->fabric(rank), options_of(exchange)));
    TUTTI_TRY(processes.back()->open(kMembers));
    processes.back()->data.resize(exchange.bytes);
  }
  const bool selective = exchange.protocol == p2p::Protocol::read_interrupt;
  Time begin = 0;
  // The first round connects the two.
  for (const bool counts : {false, true}) {
    begin = std::max({world->now(), processes[0]->fabric.clock(), processes[1]->fabric.clock()});
    for (const int rank : {1, 0}) {
      Side& process = *processes[static_cast<std::size_t>(rank)];
      const bool sends = rank == 0;
      const Time computes = sends ? exchange.sender_computes : exchange.receiver_computes;
      process.fabric.advance_to(begin);
      process.task = side(process, sends, counts ? computes : 0, selective && !sends);
      process.task.start();
      world->settle(rank);
    }
    world->run();
  }
  Status status;
  bool waiting = false;
  for (const auto& process : processes) {
    waiting = waiting || !process->task.done();
    if (status.ok()) status = process->task.result();
  }
  if (status.ok()) {
    out->sender = processes[0]->waited - begin;
    out->receiver = processes[1]->waited - begin;
    out->arrived = processes[1]->data_there - begin;
    out->sender_interrupts = processes[0]->fabric.interrupts();
    out->receiver_interrupts = processes[1]->fabric.interrupts();
  } else {
    *message = waiting                    ? world->who_waits()
               : status.detail != nullptr ? status.detail
                                          : name(status.code);
  }
  for (const auto& process : processes) process->messages.forget(*process->team);
  return status;
}

}  // namespace tutti::sim
