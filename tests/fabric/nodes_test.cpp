// The nodes fabric over libfabric's tcp in the conformance suite: every rank a node of its own, and
// two ranks on each node; as threads and as processes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/nodes_world.hpp"
#include "fabric/wrap/forward.hpp"

namespace tutti::test {
namespace {

std::vector<WorldFactory> worlds() {
  Settings settings;
  settings.arena = std::size_t{64} << 20;
  std::vector<WorldFactory> all;
  for (const int ranks_per_node : {1, 2}) {
    const std::string form = ranks_per_node == 1 ? "Apart" : "InPairs";
    all.push_back(
        {"Threads" + form, [=] { return make_nodes_world(settings, ranks_per_node, true); }});
#ifndef __SANITIZE_THREAD__  // which cannot see other processes
    all.push_back(
        {"Processes" + form, [=] { return make_nodes_world(settings, ranks_per_node, false); }});
#endif
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ofi, Conformance, ::testing::ValuesIn(worlds()), world_name);

/// Writes the counter first, then the data.
class TailFirst final : public wrap::Forward {
 public:
  using Forward::Forward;
  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion) noexcept override {
    if (tail == nullptr || bytes < kTailSizes[0]) {  // the messages of the test itself stay whole
      return inner().put(target, offset, source, bytes, tail, completion);
    }
    TUTTI_TRY(inner().put(target, 0, nullptr, 0, tail, nullptr));
    // On a busy machine both would be delivered before anybody looks.
    for (int i = 0; i < 10; ++i) {
      inner().progress();
      usleep(20);
    }
    return inner().put(target, offset, source, bytes, nullptr, completion);
  }
};

// That "the last byte comes last" can fail over a network: the defect put in on purpose is seen.
TEST(TailDefect, IsSeenOverTheNetwork) {
  Settings settings;
  settings.arena = std::size_t{64} << 20;
  const auto world = make_nodes_world(settings, 1, true, [](std::unique_ptr<Fabric> fabric) {
    return std::make_unique<TailFirst>(std::move(fabric));
  });
  std::uint64_t violations = 0, unused = 0;
  for (int attempt = 0; attempt < 20 && violations == 0; ++attempt) {
    world->run(2, [&](Node& n) {
      return tail_order(n, kTailSizes[attempt % std::size(kTailSizes)], 20'000, 500'000'000,
                        n.rank() == 1 ? &violations : &unused);
    });
  }
  EXPECT_GT(violations, 0u);
}

}  // namespace
}  // namespace tutti::test
