#include "base/copy_shared.hpp"

#include <algorithm>
#include <cstdint>

#include "base/copy.hpp"
#include "base/copy_chosen.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLine = 64;

// Less is not worth the choice.
constexpr std::size_t kChosen = 4096;
// From here on the costs of the kinds of stores are those of a steady flow; below, those that are
// not cached look cheaper to the writer than they are. The factors lie between what was measured
// with cores that share a cache and what was measured with cores that do not
// (docs/decisions/0003-blocks.md).
constexpr std::size_t kSteady = 16384;
// The same of a copy that is made in parts, which are read while the next ones are written
// (docs/decisions/0017-trains.md).
constexpr std::size_t kSteadyParts = 65536;
constexpr float kShortStreaming = 16.0F, kSteadyStreaming = 1.8F;
constexpr float kShortString = 2.0F, kSteadyString = 1.0F;

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
  switch (stores) {
    case Stores::streaming:
      return copy_streaming(to, from, bytes);
    case Stores::string:
      return copy_string(to, from, bytes);
    case Stores::cached:
      return copy_cached(to, from, bytes);
  }
}

}  // namespace

void copy_to_shared(void* to, const void* from, std::size_t bytes) noexcept {
  copy_to_shared(to, from, bytes, bytes);
}

void copy_to_shared(void* to, const void* from, std::size_t bytes, std::size_t all) noexcept {
  if (bytes < kChosen) return copy_cached(to, from, bytes);
  static thread_local StoreChoice short_copies(kShortStreaming,
                                               has_string_copy() ? kShortString : 0),
      steady_copies(kSteadyStreaming, has_string_copy() ? kSteadyString : 0);
  StoreChoice& choice =
      all < (bytes == all ? kSteady : kSteadyParts) ? short_copies : steady_copies;
  copy_chosen(choice, to, from, bytes, copy_by);
}

}  // namespace tutti
