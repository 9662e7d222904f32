// What the ranks of a case do.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/log.hpp"
#include "fabric/nodes/nodes.hpp"
#include "faults/case.hpp"
#include "offload/dedicated_jobs.hpp"
#include "p2p/messages.hpp"
#include "support/local_jobs.hpp"

namespace tutti::faults {
namespace {

using test::Rank;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 60;
constexpr int kMiddle = 8;          // the round in which the victim does something to itself
constexpr unsigned kHangs = 20;     // seconds after which a process is a hanging one
constexpr int kStopped = 400'000;   // us
constexpr int kStrangerId = 65534;  // "nobody"

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Stops this process; a child continues it.
void stop_for_a_while() {
  const pid_t self = getpid();
  const pid_t waker = fork();
  if (waker == 0) {
    usleep(kStopped);
    kill(self, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
  waitpid(waker, nullptr, 0);
}

void hurt(const Case& c, Rank& r) {
  if (c.stops) stop_for_a_while();
  if (c.few_descriptors) {
    const rlimit none{3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  if (c.no_attach && setresuid(kStrangerId, kStrangerId, kStrangerId) != 0) return;
  if (c.cut) {
    auto& fabric = dynamic_cast<JobImpl&>(r.job).fabric();
    if (auto* const nodes = dynamic_cast<nodes::NodesFabric*>(&fabric)) nodes->die();
  }
}

Status collective(const Case& c, Rank& r, const Call& call) {
  if (c.work == Work::blocking) return r.job.run(r.team, call);
  Operation* operation = nullptr;
  TUTTI_TRY(r.job.start(r.team, call, &operation));
  Status status;
  if (c.work == Work::waiting) {
    status = r.job.wait(*operation);
  } else {
    while (!r.job.test(*operation, &status)) sched_yield();
  }
  r.job.release(operation);
  return status;
}

Status message(const Case& c, Rank& r) {
  static thread_local std::vector<std::byte> data;
  data.resize(c.count);
  p2p::Messages& messages = r.job.messages();
  if (r.rank == 0)
    return messages.send(r.team, data.data(), data.size(), 1, 0, SendMode::synchronous);
  return messages.receive(r.team, data.data(), data.size(), 0, 0).status;
}

/// Inputs and results of two rounds in turn: those of one that is still about do not pass for the
/// next one's.
struct Rounds {
  explicit Rounds(const Case& c, Rank& r) {
    for (std::uint64_t i = 0; i < 2 && c.work != Work::messages; ++i) {
      models.emplace_back(c.combination.algorithm->coll, r.size, 0, c.count, i);
      expected.push_back(models.back().expected(r.rank));
    }
  }
  std::vector<test::Model> models;
  std::vector<std::vector<std::int32_t>> expected;
};

Status one_round(const Case& c, Rank& r, std::size_t turn, const Rounds& rounds,
                 const Reduction& reduction, Seen& seen) {
  if (c.work == Work::messages) return message(c, r);
  test::Case mine(rounds.models[turn], r.rank, false, reduction);
  TUTTI_TRY(collective(c, r, mine.call));
  const auto& expected = rounds.expected[turn];
  if (mine.result(expected.size()) != expected) ++seen.wrong;
  return Status::success();
}

void body(const Case& c, Rank& r, Report& report) {
  if (c.world != World::nodes) alarm(kHangs);
  Seen& seen = report.seen[static_cast<std::size_t>(r.rank)];
  Reduction reduction;
  if (!find_reduction(Op::sum, Type::i32, &reduction)) return;
  if (r.rank == c.victim) usleep(static_cast<useconds_t>(c.sleeps_ms) * 1000);
  const Rounds rounds(c, r);
  Status status;
  auto begin = Clock::now();
  for (std::uint64_t round = 0; round < kRounds && status.ok(); ++round) {
    if (round == kMiddle && r.rank == c.victim) hurt(c, r);
    begin = Clock::now();
    status = one_round(c, r, round % 2, rounds, reduction, seen);
  }
  // Who was through when another one failed hears of it here.
  if (status.ok() && c.work != Work::messages) {
    begin = Clock::now();
    status = r.job.run(r.team, Call{});
  }
  seen.code = static_cast<std::int32_t>(status.code);
  seen.peer = status.peer;
  seen.seconds = seconds_since(begin);
  if (c.work != Work::messages)
    seen.again = static_cast<std::int32_t>(r.job.run(r.team, Call{}).code);
  seen.ended = 1;
}

}  // namespace

void run_case(const Case& c, Report& report) {
  log_setup(c.settings.log, 0);
  const test::Body run = [&](Rank& r) { body(c, r, report); };
  std::vector<int> statuses;
  if (c.world == World::nodes) {
    alarm(kHangs);
    test::run_nodes(c.nodes, c.settings, run);
  } else if (c.world == World::dedicated) {
    statuses = test::run_dedicated_processes(c.ranks, c.processors, c.settings, run);
  } else {
    statuses = test::run_processes(c.ranks, c.settings, run);
  }
  std::copy(statuses.begin(), statuses.end(), report.statuses.begin());
  report.finished = 1;
}

}  // namespace tutti::faults
