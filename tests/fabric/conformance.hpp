// The conformance suite of the fabric contract (src/fabric/fabric.hpp): every implementation and
// every decorator passes it unchanged. A program that links conformance.cpp enters its fabric with
//   INSTANTIATE_TEST_SUITE_P(Name, Conformance, ::testing::Values(WorldFactory{...}), world_name);
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fabric/world.hpp"

namespace tutti::test {

class Conformance : public ::testing::TestWithParam<WorldFactory> {
 protected:
  /// Runs a body that must end well on every rank.
  void run(int ranks, const NodeBody& body);
  std::vector<Outcome> outcomes(int ranks, const NodeBody& body) {
    return GetParam().make()->run(ranks, body);
  }
};

/// For fabrics with datagrams (conformance_datagrams.cpp):
///   INSTANTIATE_TEST_SUITE_P(Name, DatagramConformance, ...);
class DatagramConformance : public Conformance {};

inline std::string world_name(const ::testing::TestParamInfo<WorldFactory>& info) {
  return info.param.name;
}

/// The body of the test "the last byte comes last": rank 0 puts up to `rounds` messages of `bytes`
/// with the counter behind the data, for about `budget_ns` at most (a busy machine), rank 1 looks
/// at the data as soon as it sees the counter. Counts the rounds in which something was missing
/// into `*violations` (of rank 1).
Task tail_order(Node& n, std::size_t bytes, std::uint64_t rounds, std::uint64_t budget_ns,
                std::uint64_t* violations);

/// Sizes at which memcpy was seen to break that order.
inline constexpr std::size_t kTailSizes[] = {256, 384, 512, 1000, 1024, 2048, 3000, 4096, 8192};

}  // namespace tutti::test
