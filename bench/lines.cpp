// What it costs two processors to answer each other through shared memory, over time: the floor of
// every small collective on a node. On a shared host it changes while one looks.
//
//   g++ -O2 -std=c++20 -o lines bench/lines.cpp -pthread && ./lines [ROWS]
//
// Two threads on the first two processors; each has a line that it writes and the other one reads.
// A column is one page of shared memory, twice: the threads as they are / in each other's place.
// Numbers are nanoseconds a turn (both lines cross), of 30,000 turns.
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <thread>

#include "two_processors.hpp"

namespace {

constexpr int kTurns = 30'000;
constexpr int kPages = 12;
constexpr std::size_t kPageBytes = 4096;

struct Line {
  alignas(128) std::atomic<int> turn{0};
};

/// Turns from `mine` to `other` and back.
void answer(Line& mine, Line& other) {
  for (int turn = 1; turn <= kTurns; ++turn) {
    mine.turn.store(turn, std::memory_order_release);
    while (other.turn.load(std::memory_order_acquire) < turn) {
    }
  }
}

double ns_a_turn(void* page, int processor) {
  Line* const lines = new (page) Line[2];
  std::atomic<bool> ready{false};
  std::thread other([&] {
    stay_on(1 - processor);
    ready = true;
    answer(lines[1], lines[0]);
  });
  stay_on(processor);
  while (!ready) {
  }
  const auto start = std::chrono::steady_clock::now();
  answer(lines[0], lines[1]);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  other.join();
  return took.count() / kTurns;
}

}  // namespace

int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 3;
  auto* const pages = static_cast<std::byte*>(mmap(
      nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (pages == MAP_FAILED) return 1;
  for (int row = 0; row < rows; ++row) {
    for (int page = 0; page < kPages; ++page) {
      std::byte* const at = pages + page * kPageBytes;
      std::printf("%5.0f/%-5.0f", ns_a_turn(at, 0), ns_a_turn(at, 1));
    }
    std::printf("\n");
  }
}
