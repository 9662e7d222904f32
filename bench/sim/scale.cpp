// How large a machine can be simulated, and how fast: for 2^10 ... 2^20 ranks, each in a process of
// its own, the time to create and run a collective, events a second, and the peak of memory.
//
//   bench_sim [OP=ALGORITHM] [BYTES] [LARGEST POWER OF TWO] [SMALLEST]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "sim/job.hpp"

namespace {

using tutti::sim::SimJob;

struct Clock {
  std::chrono::steady_clock::time_point wall = std::chrono::steady_clock::now();
  std::clock_t processor = std::clock();
  double wall_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
  }
  double processor_s() const {
    return static_cast<double>(std::clock() - processor) / CLOCKS_PER_SEC;
  }
};

int fail(const std::string& message) {
  std::fprintf(stderr, "bench_sim: %s\n", message.c_str());
  return 1;
}

tutti::Choice parse(const std::string& text, std::string* message) {
  tutti::Forced forced;
  if (!tutti::Forced::parse(text, &forced, message).ok()) return {};
  for (int coll = 0; coll < tutti::kColls; ++coll) {
    if (const tutti::Choice* choice = forced.of(static_cast<tutti::Coll>(coll))) return *choice;
  }
  return {};
}

struct Round {
  double wall = 0, processor = 0, events = 0;
};

/// One collective on all ranks.
tutti::Status run(SimJob& job, const tutti::Choice& choice, const tutti::Call& call, Round* round,
                  std::string* message) {
  const auto before = static_cast<double>(job.world().events());
  const Clock running;
  TUTTI_TRY(job.run(
      choice, [&](int) { return call; }, 1, message));
  round->wall += running.wall_s();
  round->processor += running.processor_s();
  round->events += static_cast<double>(job.world().events()) - before;
  return tutti::Status::success();
}

/// The first collective makes what the ranks need for it; then it is repeated, at least twice.
int measure(int ranks, const std::string& algorithm, std::size_t bytes) {
  std::string message;
  const tutti::Choice choice = parse(algorithm, &message);
  if (choice.algorithm == nullptr) return fail(message);
  tutti::sim::JobSpec spec{ranks, 1, {}, true};
  if (!load_network(TUTTI_PROFILES "/via2003.toml", &spec.network, &message).ok())
    return fail(message);
  tutti::Reduction reduction;
  tutti::find_reduction(tutti::Op::sum, tutti::Type::i32, &reduction);
  static std::byte send, recv;
  tutti::Call call;
  call.coll = choice.algorithm->coll;
  call.bytes = bytes;
  call.send = &send;
  call.recv = &recv;
  call.reduction = &reduction;

  const Clock creating;
  std::unique_ptr<SimJob> job;
  if (!SimJob::create(spec, &job, &message).ok()) return fail(message);
  const double create_s = creating.wall_s();
  Round first, again;
  if (!run(*job, choice, call, &first, &message).ok()) return fail(message);
  const int repeat = std::max(2, (1 << 20) / ranks);
  for (int i = 0; i < repeat; ++i) {
    if (!run(*job, choice, call, &again, &message).ok()) return fail(message);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto rate = [](const Round& round, double seconds) { return round.events / seconds / 1e6; };
  std::printf("%9d %8.2f %8.2f %8.2f %10.0f %7.2f %7.2f %8d %7.2f %7.2f %9.1f %7.0f\n", ranks,
              create_s, first.wall, create_s + first.wall, first.events, rate(first, first.wall),
              rate(first, first.processor), repeat, rate(again, again.wall),
              rate(again, again.processor), static_cast<double>(usage.ru_maxrss) / 1024,
              static_cast<double>(usage.ru_maxrss) * 1024 / ranks);
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string algorithm = count > 1 ? arguments[1] : "bcast=binomial";
  const std::size_t bytes = count > 2 ? std::strtoul(arguments[2], nullptr, 10) : 4;
  const int largest = count > 3 ? std::atoi(arguments[3]) : 20;
  const int smallest = count > 4 ? std::atoi(arguments[4]) : 10;
  if (smallest < 2 || largest < smallest || largest > 26)
    return fail("the powers of two are from 2 to 26");
  std::printf("%s, %zu B, one rank a node, payload elided\n", algorithm.c_str(), bytes);
  std::printf(
      "M events a second, on the wall and of processor time: of the first, and of repetitions\n");
  std::printf("%9s %8s %8s %8s %10s %7s %7s %8s %7s %7s %9s %7s\n", "ranks", "create s", "first s",
              "sum s", "events", "M/s", "M/cpu s", "again", "M/s", "M/cpu s", "peak MiB", "B/rank");
  std::fflush(stdout);
  for (int power = smallest; power <= largest; power += 2) {
    const pid_t child = fork();
    if (child == 0) _exit(measure(1 << power, algorithm, bytes));
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0) {
      return fail("2^" + std::to_string(power) + " ranks could not be measured");
    }
  }
  return 0;
}
