#include "p2p/matching.hpp"

namespace tutti::p2p {

Lane& Matcher::find_lane(int source) noexcept {
  last_lane_ = &lanes_[source];
  last_source_ = source;
  return *last_lane_;
}

Transfer* Matcher::search_posted(int source, int tag) noexcept {
  Lane& from = lane(source);
  Transfer* named = from.posted.first();
  while (named != nullptr && !takes(named->tag, tag)) named = from.posted.next(*named);
  Transfer* wild = from_any_.first();
  while (wild != nullptr && !takes(wild->tag, tag)) wild = from_any_.next(*wild);
  Transfer* const taken =
      named == nullptr || (wild != nullptr && wild->sequence < named->sequence) ? wild : named;
  if (taken != nullptr) remove(*taken);
  return taken;
}

Arrival* Matcher::find(int source, int tag) noexcept {
  if (source == kAnySource) {
    Arrival* arrival = arrivals_.first();
    while (arrival != nullptr && !takes(tag, arrival->header.tag))
      arrival = arrivals_.next(*arrival);
    return arrival;
  }
  Lane& from = lane(source);
  Arrival* arrival = from.arrivals.first();
  while (arrival != nullptr && !takes(tag, arrival->header.tag))
    arrival = from.arrivals.next(*arrival);
  return arrival;
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
