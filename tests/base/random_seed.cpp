#include "random_seed.hpp"

#include <cstdio>
#include <cstdlib>
#include <random>

namespace tutti::testing {
namespace {

std::uint64_t choose() {
  const char* given = std::getenv("TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device()();
  std::printf("seed: TEST_SEED=%llu repeats this run\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace

std::uint64_t random_seed(std::uint64_t stream) {
  static const std::uint64_t seed = choose();
  return seed * 0x9e3779b97f4a7c15 + stream;
}

}  // namespace tutti::testing
