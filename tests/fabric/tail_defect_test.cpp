// That "the last byte comes last" can fail: defects put in on purpose are seen.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/shm_world.hpp"
#include "fabric/wrap/forward.hpp"

namespace tutti::test {
namespace {

/// Writes the counter first, then the data.
class TailFirst final : public wrap::Forward {
 public:
  using Forward::Forward;
  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion, Event event) noexcept override {
    if (tail == nullptr || bytes < kTailSizes[0]) {  // the messages of the test itself stay whole
      return inner().put(target, offset, source, bytes, tail, completion, event);
    }
    TUTTI_TRY(inner().put(target, 0, nullptr, 0, tail, nullptr, event));
    return inner().put(target, offset, source, bytes, nullptr, completion, event);
  }
};

/// Copies data and counter in one piece, as a plain RDMA write in software does.
class OneCopy final : public wrap::Forward {
 public:
  using Forward::Forward;
  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion, Event event) noexcept override {
    if (tail == nullptr || bytes < kTailSizes[0] || tail->offset != offset + bytes) {
      return inner().put(target, offset, source, bytes, tail, completion, event);
    }
    std::memcpy(block_, source, bytes);
    std::memcpy(block_ + bytes, &tail->value, sizeof tail->value);
    std::memcpy(static_cast<std::byte*>(target.mapped) + offset, block_,
                bytes + sizeof tail->value);
    inner().wake(target.peer);
    return inner().put(target, offset, nullptr, 0, nullptr, completion, event);
  }

 private:
  alignas(64) std::byte block_[16384];
};

template <class Broken>
std::uint64_t violations_of() {
  Settings settings;
  settings.arena = std::size_t{64} << 20;
  const auto world = make_thread_world(settings, [](std::unique_ptr<Fabric> fabric) {
    return std::make_unique<Broken>(std::move(fabric));
  });
  std::uint64_t violations = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    for (const std::size_t bytes : kTailSizes) {
      if (violations != 0) break;
      std::uint64_t unused = 0;
      world->run(2, [&](Node& n) {
        return tail_order(n, bytes, 500'000, 500'000'000, n.rank() == 1 ? &violations : &unused);
      });
    }
  }
  return violations;
}

TEST(TailDefect, ACounterWrittenFirstIsSeen) { EXPECT_GT(violations_of<TailFirst>(), 0u); }

TEST(TailDefect, ACounterInOneCopyWithItsDataIsSeen) { EXPECT_GT(violations_of<OneCopy>(), 0u); }

}  // namespace
}  // namespace tutti::test
