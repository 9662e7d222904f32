#include "p2p/matching.hpp"

namespace tutti::p2p {
namespace {

bool fits(int wanted, int tag) noexcept { return wanted == kAnyTag || wanted == tag; }

}  // namespace

Lane& Matcher::find_lane(int source) noexcept {
  last_lane_ = &lanes_[source];
  last_source_ = source;
  return *last_lane_;
}

Transfer* Matcher::take_posted(int source, int tag) noexcept {
  Lane& from = lane(source);
  Transfer* named = from.posted.first();
  while (named != nullptr && !fits(named->tag, tag)) named = from.posted.next(*named);
  Transfer* wild = from_any_.first();
  while (wild != nullptr && !fits(wild->tag, tag)) wild = from_any_.next(*wild);
  Transfer* const taken =
      named == nullptr || (wild != nullptr && wild->sequence < named->sequence) ? wild : named;
  if (taken != nullptr) remove(*taken);
  return taken;
}

Arrival* Matcher::find(int source, int tag) noexcept {
  if (source == kAnySource) {
    Arrival* arrival = arrivals_.first();
    while (arrival != nullptr && !fits(tag, arrival->header.tag))
      arrival = arrivals_.next(*arrival);
    return arrival;
  }
  Lane& from = lane(source);
  Arrival* arrival = from.arrivals.first();
  while (arrival != nullptr && !fits(tag, arrival->header.tag))
    arrival = from.arrivals.next(*arrival);
  return arrival;
}

void Matcher::post(Transfer& receive) noexcept {
  receive.sequence = next_sequence_++;
  receive.posted = true;
  if (receive.rank == kAnySource) {
    receive.lane = nullptr;
    from_any_.push_back(receive);
  } else {
    receive.lane = &lane(receive.rank);
    receive.lane->posted.push_back(receive);
  }
}

void Matcher::remove(Transfer& receive) noexcept {
  (receive.lane != nullptr ? receive.lane->posted : from_any_).remove(receive);
  receive.posted = false;
}

Arrival* Matcher::announced(const Peer& from, std::uint32_t transfer) noexcept {
  Arrival* arrival = arrivals_.first();
  while (arrival != nullptr && (arrival->from != &from || arrival->header.transfer != transfer)) {
    arrival = arrivals_.next(*arrival);
  }
  return arrival;
}

void Matcher::add(Arrival& arrival) noexcept {
  arrival.lane = &lane(static_cast<int>(arrival.header.source));
  arrival.lane->arrivals.push_back(arrival);
  arrivals_.push_back(arrival);
}

void Matcher::remove(Arrival& arrival) noexcept {
  arrival.lane->arrivals.remove(arrival);
  arrivals_.remove(arrival);
}

}  // namespace tutti::p2p
