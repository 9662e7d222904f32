// What the question where a buffer lies costs a call, before and after a GPU's library is loaded:
//
//   c++ -std=c++20 -O3 -DNDEBUG -fPIC -Isrc tests/mpi/standin/cost.cpp src/mpi/plugin/space*.cpp -o
//   cost cc -shared -fPIC -O2 -Wl,-soname,libcuda.so.1 tests/mpi/standin/gpu.c -o libcuda.so.1
//   -pthread
//   ./cost ./libcuda.so.1
#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "mpi/plugin/space.hpp"

namespace {

int variable;

// Nanoseconds of one question; the best of some runs, because others use the processors.
double measure(const void* address) {
  constexpr int kRuns = 20, kQuestions = 1000000;
  double best = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kQuestions; ++i) {
      const void* asked = address;
      asm volatile("" : "+r"(asked));
      const tutti::mpi::Space* space =
          tutti::mpi::may_have_spaces() ? tutti::mpi::find_space(asked) : nullptr;
      asm volatile("" : : "r"(space));
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kQuestions);
  }
  return best;
}

void measure_all(const char* when, const void* heap, const void* mapped) {
  int local = 0;
  std::printf("%s: heap %.1f ns, stack %.1f, variable %.1f, mapped %.1f\n", when, measure(heap),
              measure(&local), measure(&variable), measure(mapped));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const void* const heap = std::malloc(1000);
  const void* const mapped = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  measure_all("not watched", heap, mapped);
  tutti::mpi::watch_spaces();
  measure_all("no library", heap, mapped);
  void* const library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) return 1;
  reinterpret_cast<void (*)()>(dlsym(library, "standin_init"))();
  measure_all("with library", heap, mapped);
  tutti::mpi::forget_spaces();
}
