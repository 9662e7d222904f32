#include "base/copy_shared.hpp"

#include <algorithm>
#include <cstdint>

#include "base/copy.hpp"
#include "base/copy_chosen.hpp"
#include "base/cpu.hpp"

namespace tutti {
namespace {

constexpr std::size_t kLine = 64;

// What a copy costs its writer differs by its size, and by that how much more cached stores cost
// where the two cores share no cache. So there is a choice for each kind of size, and its factors
// lie between what was measured near and far (docs/decisions/0068-rings.md).
constexpr std::size_t kChosen = 4096;  // less is not worth the choice
constexpr std::size_t kSteady = 16384;

/// Of this thread, for a copy of `bytes`.
StoreChoice& choice_for(std::size_t bytes) noexcept {
  static const bool strings = has_string_copy();
  // Intel's servers lose by streaming short pieces where others gain (decision 68).
  static const float streaming = keeps_evicted_lines() ? 2.0F : 4.0F;
  static thread_local StoreChoice shorter(streaming, strings ? 2.0F : 0),
      steady(2.7F, strings ? 1.0F : 0);
  return bytes < kSteady ? shorter : steady;
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
  if (bytes < kChosen) return copy_cached(to, from, bytes);
  copy_chosen(choice_for(bytes), to, from, bytes, copy_by);
}

void copy_to_shared(void* to, const void* from, std::size_t bytes, Stores stores) noexcept {
  copy_by(stores, to, from, bytes);
}

}  // namespace tutti
