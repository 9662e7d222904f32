// The queue of a discrete-event simulation: a radix heap.
//
// Time never goes back, so events can be kept in buckets by the highest bit in which their time
// differs from the present (Ahuja, Mehlhorn, Orlin and Tarjan 1990): a push is an append, and an
// event moves only to lower buckets. Events of equal time are always in the same bucket and keep
// their order, so the simulation is deterministic without a sequence number.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace tutti::sim {

template <class Payload>
class EventQueue {
 public:
  struct Event {
    std::uint64_t time;
    Payload payload;
  };

  bool empty() const noexcept { return occupied_ == 0; }

  /// `time` must not be before that of the last event popped.
  void push(std::uint64_t time, Payload payload) {
    const int bucket = bucket_of(time);
    buckets_[bucket].push_back({time, payload});
    occupied_ |= std::uint64_t{1} << bucket;
  }

  /// The earliest event, the first pushed among equals. Not when empty.
  Event pop() {
    if ((occupied_ & 1) == 0) advance();
    const Event event = buckets_[0][head_++];
    if (head_ == buckets_[0].size()) {
      buckets_[0].clear();
      head_ = 0;
      occupied_ &= ~std::uint64_t{1};
    }
    return event;
  }

  /// The payload of the event `distance` after the next one, if it has the same time; else that of
  /// an empty event. For asking memory ahead of time.
  Payload ahead(std::size_t distance) const noexcept {
    const std::size_t place = head_ + distance;
    return place < buckets_[0].size() ? buckets_[0][place].payload : Payload{};
  }

 private:
  /// 0 for the present; else one more than the highest bit that differs. Times stay below 2^63.
  int bucket_of(std::uint64_t time) const noexcept { return std::bit_width(time ^ now_); }

  /// Moves to the earliest time there is: the lowest occupied bucket is dealt out to the ones
  /// below.
  void advance() {
    const int bucket = std::countr_zero(occupied_);
    std::vector<Event>& from = buckets_[bucket];
    std::uint64_t earliest = std::numeric_limits<std::uint64_t>::max();
    for (const Event& event : from) earliest = event.time < earliest ? event.time : earliest;
    now_ = earliest;
    occupied_ &= ~(std::uint64_t{1} << bucket);
    for (const Event& event : from) push(event.time, event.payload);
    from.clear();
  }

  static constexpr int kBuckets = 64;
  std::vector<Event> buckets_[kBuckets];
  std::uint64_t occupied_ = 0;  // bit i: bucket i holds events
  std::uint64_t now_ = 0;
  std::size_t head_ = 0;  // of bucket 0
};

}  // namespace tutti::sim
