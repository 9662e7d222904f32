// What it costs two processors to hand each other a vector through shared memory, by the kind of
// stores: the floor of every larger collective and message on a node, without any protocol.
//
//   g++ -O2 -std=c++20 -mavx2 -o copies bench/copies.cpp -pthread && ./copies [ROUNDS]
//
// Two threads on the first two processors. Each copies its vector into a ring of 1 MiB, in blocks
// of at most 64 KiB, and the other's out of that one's ring; between two exchanges each writes its
// vector anew. A row is a kind of stores into the ring and a size: microseconds of an exchange
// (median of 200), and what a copy into the ring and out of it takes of them, in picoseconds a
// byte. On a shared host it changes while one looks (lines.cpp), so look at several rounds.
#include <immintrin.h>
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "two_processors.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRing = 1 << 20, kBlock = 65536, kAhead = 8192;
constexpr int kExchanges = 200;

enum class Stores { cached, ahead, streaming, string };
constexpr const char* kNames[] = {"cached", "asked for ahead", "streaming", "string"};

void copy(char* to, const char* from, std::size_t bytes, Stores stores) {
  if (stores == Stores::string) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
  for (std::size_t i = 0; i < bytes; i += 64) {
    if (stores == Stores::ahead) asm volatile("prefetchw %0" : : "m"(to[i + kAhead]));
    for (const std::size_t half : {i, i + 32}) {
      const __m256i vector = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + half));
      auto* const there = reinterpret_cast<__m256i*>(to + half);
      stores == Stores::streaming ? _mm256_stream_si256(there, vector)
                                  : _mm256_store_si256(there, vector);
    }
  }
  if (stores == Stores::streaming) _mm_sfence();
}

struct alignas(128) Counter {
  std::atomic<long> value{0};
  void await(long wanted) const {
    while (value.load(std::memory_order_acquire) < wanted) _mm_pause();
  }
};

struct Side {
  char* ring;
  Counter written, read, ready;
  double exchange_us = 0, in_ns = 0, out_ns = 0;
};

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// `blocks` of `block` bytes each way, the `done`-th and following of this size.
void exchange(Side& mine, Side& other, const char* send, char* receive, std::size_t block,
              long blocks, long done, Stores stores) {
  const long slots = static_cast<long>(kRing / block);
  for (long i = 0; i < blocks; ++i) {
    const long now = done + i;
    const std::size_t slot = static_cast<std::size_t>(now % slots) * block;
    mine.read.await(now + 1 - slots);
    const auto before = Clock::now();
    copy(mine.ring + slot, send + static_cast<std::size_t>(i) * block, block, stores);
    mine.in_ns += ns_since(before);
    mine.written.value.store(now + 1, std::memory_order_release);
    other.written.await(now + 1);
    const auto there = Clock::now();
    copy(receive + static_cast<std::size_t>(i) * block, other.ring + slot, block, Stores::cached);
    mine.out_ns += ns_since(there);
    other.read.value.store(now + 1, std::memory_order_release);
  }
}

void run(Side& mine, Side& other, int processor, std::size_t bytes, Stores stores) {
  stay_on(processor);
  std::vector<char> memory(2 * bytes + 128);
  char* const send = memory.data() + 64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
  char* const receive = send + bytes;
  const std::size_t block = std::min(bytes, kBlock);
  const long blocks = static_cast<long>(bytes / block);
  std::vector<double> took;
  for (int i = 0; i < kExchanges; ++i) {
    std::memset(send, i, bytes);
    mine.ready.value.store(i + 1, std::memory_order_release);
    other.ready.await(i + 1);
    const auto start = Clock::now();
    exchange(mine, other, send, receive, block, blocks, i * blocks, stores);
    took.push_back(ns_since(start));
  }
  std::nth_element(took.begin(), took.begin() + kExchanges / 2, took.end());
  mine.exchange_us = took[kExchanges / 2] / 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  char* rings[2];
  for (char*& ring : rings) {
    void* const memory =
        mmap(nullptr, kRing + kAhead, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    ring = static_cast<char*>(std::memset(memory, 0, kRing + kAhead));
  }
  std::printf("%-16s %9s %10s %12s %12s\n", "stores", "bytes", "us", "in, ps/B", "out, ps/B");
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t bytes = 4096; bytes <= 1 << 20; bytes *= 4) {
      for (const Stores stores :
           {Stores::cached, Stores::ahead, Stores::streaming, Stores::string}) {
        Side sides[2] = {{rings[0], {}, {}, {}}, {rings[1], {}, {}, {}}};
        std::thread other([&] { run(sides[1], sides[0], 1, bytes, stores); });
        run(sides[0], sides[1], 0, bytes, stores);
        other.join();
        const double all = static_cast<double>(bytes) * kExchanges / 1e3;
        std::printf("%-16s %9zu %10.2f %12.0f %12.0f\n", kNames[static_cast<int>(stores)], bytes,
                    sides[0].exchange_us, sides[0].in_ns / all, sides[0].out_ns / all);
      }
    }
  }
  return 0;
}
