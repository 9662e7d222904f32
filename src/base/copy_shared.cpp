#include "base/copy_shared.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/copy.hpp"
#include "base/store_choice.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLine = 64;

// Less is not worth the choice.
constexpr std::size_t kChosen = 4096;
// From here on the costs of the two kinds of stores are those of a steady flow; below, streaming
// looks cheaper to the writer than it is. Both factors lie between what was measured with cores
// that share a cache and what was measured with cores that do not (docs/decisions/0003-blocks.md).
constexpr std::size_t kSteady = 16384;
// The same of a copy that is made in parts, which are read while the next ones are written
// (docs/decisions/0017-trains.md).
constexpr std::size_t kSteadyParts = 65536;
constexpr float kShortFactor = 16.0F, kSteadyFactor = 1.8F;

std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Asks for the ownership of the destination's lines 8 KiB ahead: they were last read by another
/// core, and stores that each wait for a line run at a third of the speed.
void copy_cached(void* to, const void* from, std::size_t bytes) noexcept {
  constexpr std::size_t kAhead = 8192;
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  char* line = target - reinterpret_cast<std::uintptr_t>(target) % kLine;
  for (std::size_t done = 0; done < bytes; done += kAhead) {
    const char* const wanted = target + std::min(bytes, done + 2 * kAhead);
    for (; line < wanted; line += kLine) prefetch_to_write(line);
    copy_bytes(target + done, source + done, std::min(kAhead, bytes - done));
  }
}

void copy_by(Stores stores, void* to, const void* from, std::size_t bytes) noexcept {
  if (stores == Stores::streaming) {
    copy_streaming(to, from, bytes);
  } else {
    copy_cached(to, from, bytes);
  }
}

}  // namespace

void copy_to_shared(void* to, const void* from, std::size_t bytes) noexcept {
  copy_to_shared(to, from, bytes, bytes);
}

void copy_to_shared(void* to, const void* from, std::size_t bytes, std::size_t all) noexcept {
  if (bytes < kChosen) return copy_cached(to, from, bytes);
  static thread_local StoreChoice short_copies(kShortFactor), steady_copies(kSteadyFactor);
  StoreChoice& choice =
      all < (bytes == all ? kSteady : kSteadyParts) ? short_copies : steady_copies;
  const StoreChoice::Decision decision = choice.next();
  if (!decision.timed) return copy_by(decision.stores, to, from, bytes);
  const std::uint64_t start = ticks();
  copy_by(decision.stores, to, from, bytes);
  choice.record(decision.stores, static_cast<float>(ticks() - start) / static_cast<float>(bytes));
}

}  // namespace tutti
