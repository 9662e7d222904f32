// The contract, checked at run time: what a caller does wrong is reported and refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <array>
#include <map>
#include <unordered_map>
#include <vector>

#include "fabric/wrap/forward.hpp"

namespace tutti::wrap {

/// Finds: words that go back or are not aligned, ranges outside a region or the arena, regions
/// withdrawn twice or never exposed, use of a region after its withdrawal (where its owner is in
/// this process), completions that are given up or taken anew while operations count on them, gets
/// without completion, sleeps outside of arm and disarm, and two threads inside at once. Says each
/// in one line in the log, counts it, and refuses the operation with invalid_argument or truncated
/// where it has a status.
class Check final : public Forward {
 public:
  explicit Check(std::unique_ptr<Fabric> inner);
  ~Check() override;

  std::uint64_t violations() const noexcept { return violations_.load(std::memory_order_relaxed); }

  Status expose(void* base, std::size_t bytes, Region* out) noexcept override;
  void withdraw(Region& region) noexcept override;
  Status arena_of(std::int32_t peer, Remote* out) noexcept override;
  Status attach(std::int32_t peer, const Key& key, Remote* out) noexcept override;
  Status reserve(std::size_t offset, std::size_t bytes) noexcept override;
  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion, Event event) noexcept override;
  Status get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
             Completion* completion) noexcept override;
  void progress() noexcept override;
  std::uint32_t arm(Attention attention) noexcept override;
  void sleep(std::uint32_t ticket, std::uint64_t timeout_ns, Attention attention) noexcept override;
  void disarm(Attention attention) noexcept override;

 protected:
  void signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept override;

 private:
  class Entry;  // of one thread into the fabric

  void violation(const char* what, std::int32_t peer) noexcept;
  Status refuse(Code code, const char* what, std::int32_t peer) noexcept;
  Status check_transfer(const Remote& remote, std::size_t offset, std::size_t bytes,
                        const Tail* tail, Completion* completion) noexcept;
  void check_tail(const Remote& target, const Tail& tail) noexcept;
  Status check_completion(Completion* completion, std::int32_t peer) noexcept;
  void settle() noexcept;  // forgets the completions that have counted

  std::atomic<std::uint64_t> violations_{0};
  std::atomic<int> inside_{0};  // threads in operations that only one may be in
  std::atomic<int> armed_{0};
  std::map<std::pair<std::uint64_t, std::uint64_t>, int>
      exposed_;  // own regions by (address, bytes): how often
  std::unordered_map<const Completion*, std::uint64_t>
      open_;  // posted counts of those that have not counted
  // Last counters put to words that are not mapped here, by peer and place.
  using RegionOf = std::pair<std::int32_t, std::array<std::uint64_t, 4>>;  // whose, and its key
  std::map<RegionOf, std::map<std::size_t, std::uint64_t>> tails_;  // by their offsets
};

}  // namespace tutti::wrap
