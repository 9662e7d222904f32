// What a message costs two processes that share memory, without any protocol: half of a round trip
// through a ring, or an exchange (both write before they read), by the size of the ring, by what is
// left out between its pieces, by the parts that the message is cut into, and by the kind of stores
// (`handed on`: cached, and demoted afterwards). The floor of messages on a node.
//
//   g++ -O2 -std=c++20 -march=x86-64-v4 -o rings bench/rings.cpp && ./rings [ROUNDS]
//
// Two processes on the first two processors. A row is one way to do it: median microseconds over
// the rounds, and what a byte costs the writer in cycles of its time stamp counter, apart for
// rounds in which the processors were near (a line crosses in less than 80 ns) and far. On a shared
// host that changes while one looks; rounds in which it changed are left out.
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../src/base/demote.hpp"
#include "two_processors.hpp"

namespace {

constexpr std::size_t kMostRing = std::size_t{4} << 20, kMostBytes = std::size_t{1} << 20;
constexpr double kNearNs = 80;

enum class Stores { cached, streaming, handed_on };
constexpr const char* kStores[] = {"cached", "streaming", "handed on"};

struct alignas(128) Counter {
  std::atomic<long> value{0};
  void await(long wanted) const {
    while (value.load(std::memory_order_acquire) < wanted) _mm_pause();
  }
};

struct Shared {
  Counter written[2], crossing[2];
  alignas(4096) char rings[2][kMostRing + 2 * kMostBytes];
};

struct Way {
  std::size_t bytes, ring, gap, part;
  Stores stores;
  bool exchange;
  std::vector<double> us[2], cycles[2];  // near, far
};

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void copy(char* to, const char* from, std::size_t bytes, Stores stores) {
  for (std::size_t i = 0; i < bytes; i += 64) {
    const __m512i line = _mm512_loadu_si512(from + i);
    stores == Stores::streaming ? _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), line)
                                : _mm512_store_si512(to + i, line);
  }
  if (stores == Stores::streaming) _mm_sfence();
  if (stores == Stores::handed_on)
    tutti::demote(reinterpret_cast<std::byte*>(to), reinterpret_cast<std::byte*>(to + bytes));
}

/// One of the two processes. What it has sent and received so far holds for both directions.
class Side {
 public:
  Side(Shared& shared, int self) : shared_(shared), self_(self) {
    for (char** buffer : {&out_, &in_})
      *buffer = static_cast<char*>(std::aligned_alloc(64, kMostBytes));
    std::fill_n(out_, kMostBytes, 1);
    std::fill_n(in_, kMostBytes, 1);
  }
  /// Nanoseconds for a line to cross.
  double crossing() {
    constexpr int kTurns = 300;
    const double start = now_us();
    for (int i = 0; i < kTurns; ++i) {
      ++crossed_;
      if (self_ == 1) shared_.crossing[0].await(crossed_);
      shared_.crossing[self_].value.store(crossed_, std::memory_order_release);
      if (self_ == 0) shared_.crossing[1].await(crossed_);
    }
    return (now_us() - start) * 1e3 / kTurns / 2;
  }
  void run(Way& way, int turns) {
    const double before = crossing();
    cycles_ = 0;
    const double start = now_us();
    for (int i = 0; i < turns; ++i) {
      if (self_ == 1 && !way.exchange) receive(way);
      send(way);
      if (self_ == 0 || way.exchange) receive(way);
    }
    const double us = (now_us() - start) / turns / (way.exchange ? 1 : 2);
    const double after = crossing();
    if ((before < kNearNs) != (after < kNearNs)) return;
    const int far = before < kNearNs ? 0 : 1;
    way.us[far].push_back(us);
    way.cycles[far].push_back(static_cast<double>(cycles_) / turns /
                              static_cast<double>(way.bytes));
  }

 private:
  /// Where the next piece of a direction lies.
  char* place(const Way& way, int direction, std::size_t bytes) {
    std::size_t& at = at_[direction];
    if (at + bytes > way.ring) at = 0;
    char* const here = shared_.rings[direction] + at;
    at += bytes + way.gap;
    return here;
  }
  void send(const Way& way) {
    ++out_[0];
    ++out_[std::max<std::size_t>(way.bytes, 1) - 1];
    for (std::size_t done = 0; done < way.bytes; done += way.part) {
      const std::size_t bytes = std::min(way.part, way.bytes - done);
      char* const to = place(way, self_, bytes);
      const auto start = __rdtsc();
      copy(to, out_ + done, bytes, way.stores);
      cycles_ += __rdtsc() - start;
      shared_.written[self_].value.store(++pieces_[self_], std::memory_order_release);
    }
  }
  void receive(const Way& way) {
    const int other = 1 - self_;
    for (std::size_t done = 0; done < way.bytes; done += way.part) {
      const std::size_t bytes = std::min(way.part, way.bytes - done);
      shared_.written[other].await(++pieces_[other]);
      copy(in_ + done, place(way, other, bytes), bytes, Stores::cached);
    }
  }

  Shared& shared_;
  int self_;
  char *out_ = nullptr, *in_ = nullptr;
  long pieces_[2] = {}, crossed_ = 0;
  std::size_t at_[2] = {};
  unsigned long long cycles_ = 0;
};

std::vector<Way> ways() {
  std::vector<Way> all;
  const std::pair<std::size_t, std::size_t> parts[] = {
      {64, 64},       {256, 256},    {1024, 1024},   {2048, 2048},   {4096, 4096},     {8192, 4096},
      {8192, 8192},   {12288, 4096}, {16384, 4096},  {16384, 16384}, {65536, 16384},
      {262144, 16384}};
  constexpr std::size_t kMostHandedOn = 4096;
  for (const auto& [bytes, part] : parts)
    for (const std::size_t ring :
         {std::size_t{1} << 18, std::size_t{1} << 20, std::size_t{2} << 20})
      for (const std::size_t gap : {0, 512, 1024, 2048})
        for (const Stores stores : {Stores::cached, Stores::streaming, Stores::handed_on})
          for (const bool exchange : {false, true})
            if (2 * bytes <= ring && (stores != Stores::handed_on || bytes <= kMostHandedOn))
              all.push_back({bytes, ring, gap, part, stores, exchange, {}, {}});
  return all;
}

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void print(std::vector<Way>& all) {
  std::printf("%8s %8s %6s %6s %-9s %-8s %s\n", "bytes", "ring", "gap", "part", "stores", "how",
              "near: rounds, us, cycles a byte; far: the same");
  for (Way& way : all) {
    std::printf("%8zu %8zu %6zu %6zu %-9s %-8s", way.bytes, way.ring, way.gap, way.part,
                kStores[static_cast<int>(way.stores)], way.exchange ? "exchange" : "to, fro");
    for (const int far : {0, 1})
      std::printf(" %4zu %8.3f %6.3f", way.us[far].size(), median(way.us[far]),
                  median(way.cycles[far]));
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  const auto processes = TwoProcesses<Shared>::begin();
  std::vector<Way> all = ways();
  Side side(*processes.shared, processes.self);
  for (int round = 0; round < rounds; ++round)
    for (Way& way : all) side.run(way, way.bytes <= 16384 ? 200 : 40);
  if (processes.self == 1) return 0;
  print(all);
  return processes.end();
}
