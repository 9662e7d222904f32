#include "model/host.hpp"

#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/copy.hpp"
#include "base/cores.hpp"
#include "base/reduction.hpp"

namespace tutti::model {
namespace {

constexpr int kRounds = 15;
constexpr std::size_t kBlock = std::size_t{64} << 10;

template <class Body>
double once_us(int repeats, Body body) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) body();
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return took.count() / repeats;
}

/// The median of rounds, so that a round in which somebody else ran does not count.
template <class Body>
double median_us(int repeats, Body body) {
  std::vector<double> rounds;
  rounds.reserve(kRounds);
  body();
  for (int round = 0; round < kRounds; ++round) rounds.push_back(once_us(repeats, body));
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

/// Two words, each with one writer, on lines of their own.
struct alignas(128) Ball {
  std::atomic<int> value{0};
};

double line_us(int first, int second) {
  constexpr int kThrows = 2000;
  constexpr int kTotal = (kRounds + 1) * kThrows;
  Ball there, back;
  std::thread other([&] {
    bind_thread(pthread_self(), second);
    for (int i = 1; i <= kTotal; ++i) {
      while (there.value.load(std::memory_order_acquire) < i) {
      }
      back.value.store(i, std::memory_order_release);
    }
  });
  int thrown = 0;
  const auto round_trips = [&] {
    for (int i = 0; i < kThrows; ++i) {
      there.value.store(++thrown, std::memory_order_release);
      while (back.value.load(std::memory_order_acquire) < thrown) {
      }
    }
  };
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  bind_thread(pthread_self(), first);
  const double round = median_us(1, round_trips);
  sched_setaffinity(0, sizeof before, &before);
  other.join();
  return round / kThrows / 2;
}

void measure_reduction(HostCosts* out) {
  Reduction sum;
  if (!find_reduction(Op::sum, Type::i32, &sum)) return;
  std::vector<std::int32_t> left(kBlock / 4, 1), right(kBlock / 4, 2), result(kBlock / 4);
  out->reduce =
      median_us(10000, [&] { sum.fold(left.data(), right.data(), result.data(), 1, sum); });
  const double whole =
      median_us(200, [&] { sum.fold(left.data(), right.data(), result.data(), kBlock / 4, sum); });
  out->reduce_per_byte = std::max(0.0, whole - out->reduce) / static_cast<double>(kBlock);
}

double call_us() {
  std::uint64_t from = 1, to = 0;
  iovec local{&to, sizeof to}, remote{&from, sizeof from};
  const pid_t self = getpid();
  return median_us(2000,
                   [&] { static_cast<void>(process_vm_readv(self, &local, 1, &remote, 1, 0)); });
}

}  // namespace

Status measure_host(HostCosts* out, std::string* message) {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.size() < 2) {
    *message =
        "two processors are needed to measure what a cache line costs between them; this process "
        "may use one";
    return Status::error(Code::unsupported, "one processor");
  }
  HostCosts costs;
  costs.line = line_us(cpus[0], cpus[1]);
  std::vector<std::byte> from(kBlock, std::byte{1}), to(kBlock);
  costs.copy_per_byte = median_us(200, [&] { copy_bytes(to.data(), from.data(), kBlock); }) /
                        static_cast<double>(kBlock);
  measure_reduction(&costs);
  costs.call = call_us();
  *out = costs;
  return Status::success();
}

}  // namespace tutti::model
