#include "engine/engine.hpp"

namespace tutti {
namespace {

constexpr std::uint32_t kSpins = 128;                    // about 2 us of pauses
constexpr std::uint64_t kActiveSubscribed = 10'000'000;  // ns of polling before sleep, a core each
// ns of yielding before sleep: about what it costs to sleep and be woken. A yield gives the
// processor to a busy neighbour for a whole time slice, and who sleeps comes before it when woken.
constexpr std::uint64_t kActiveOversubscribed = 100'000;
// Longer than a clock tick of 250 Hz, so that the sleep sets no timer of its own.
constexpr std::uint64_t kSliceAtOnce = 5'000'000;

// The progress thread of a rank that shares its processor takes the time of those who compute, and
// a call of it costs some 100 us of that (decision 72).
constexpr std::uint64_t kCrowdedGrace = 10'000'000;

}  // namespace

WaitPolicy choose_wait_policy(int ranks, int cores, bool between_nodes,
                              const Settings& settings) noexcept {
  WaitPolicy policy;
  WaitMode mode = settings.wait;
  // A network takes so long that others can use the core meanwhile.
  const WaitMode scarce = between_nodes ? WaitMode::sleep : WaitMode::yield;
  if (mode == WaitMode::automatic) mode = ranks > cores ? scarce : WaitMode::spin;
  policy.yield = mode != WaitMode::spin;
  policy.spins = mode == WaitMode::spin ? kSpins : 0;
  policy.active_ns = mode == WaitMode::spin    ? kActiveSubscribed
                     : mode == WaitMode::yield ? kActiveOversubscribed
                                               : 0;
  if (settings.spin_us > 0) policy.active_ns = static_cast<std::uint64_t>(settings.spin_us * 1e3);
  if (mode == WaitMode::sleep && between_nodes && settings.spin_us <= 0) {
    policy.at_once = true;
    policy.slice_ns = kSliceAtOnce;
  }
  if (ranks > cores && settings.progress_thread != Switch::on)
    policy.crowded_grace_ns = kCrowdedGrace;
  policy.deadline_ns = static_cast<std::uint64_t>(settings.deadline_s * 1e9);
  return policy;
}

}  // namespace tutti
