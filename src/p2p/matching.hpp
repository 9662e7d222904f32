// MPI's matching for one communicator: which receive takes which message (MPI 4.1, section 3.5).
//
// Receives of one source and those of any source are kept apart, and so are messages by their
// source, so that what is usual (a receive with source and tag, in order) is found first. Where
// both kinds of receives fit, the one posted earlier is taken; messages are taken in the order of
// their arrival.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "p2p/transfer.hpp"

namespace tutti::p2p {

/// What has to do with one source.
struct Lane {
  List<Transfer, &Transfer::in_lane> posted;
  List<Arrival, &Arrival::in_lane> arrivals;
};

class Matcher {
 public:
  /// Takes the receive that a message from `source` with `tag` goes to; nullptr: none yet.
  Transfer* take_posted(int source, int tag) noexcept {
    Transfer* const first = lane(source).posted.first();
    if (first == nullptr || !takes(first->tag, tag) || !from_any_.empty()) [[unlikely]]
      return search_posted(source, tag);
    remove(*first);
    return first;
  }
  /// The first message that a receive takes; it stays. nullptr: none yet.
  Arrival* find(int source, int tag) noexcept;

  void post(Transfer& receive) noexcept {
    receive.sequence = next_sequence_++;
    receive.posted = true;
    receive.lane = receive.rank == kAnySource ? nullptr : &lane(receive.rank);
    posted_with(receive).push_back(receive);
  }
  void remove(Transfer& receive) noexcept {
    posted_with(receive).remove(receive);
    receive.posted = false;
  }
  void add(Arrival& arrival) noexcept;
  void remove(Arrival& arrival) noexcept;
  /// The message of which the peer speaks by this number of its own; nullptr: it is not here any
  /// more.
  Arrival* announced(const Peer& from, std::uint32_t transfer) noexcept;
  /// True when a receive waits that could be given a message from `source`.
  bool expects(int source) noexcept { return !lane(source).posted.empty() || !from_any_.empty(); }
  /// True when a message from `source` waits for its receive.
  bool keeps(int source) noexcept { return !lane(source).arrivals.empty(); }
  Arrival* first_arrival() noexcept { return arrivals_.first(); }

 private:
  static bool takes(int wanted, int tag) noexcept { return wanted == kAnyTag || wanted == tag; }
  List<Transfer, &Transfer::in_lane>& posted_with(const Transfer& receive) noexcept {
    return receive.lane != nullptr ? receive.lane->posted : from_any_;
  }
  Transfer* search_posted(int source, int tag) noexcept;
  Lane& lane(int source) noexcept {
    return source == last_source_ && last_lane_ != nullptr ? *last_lane_ : find_lane(source);
  }
  Lane& find_lane(int source) noexcept;

  std::unordered_map<int, Lane> lanes_;  // by source; references to lanes stay valid
  Lane* last_lane_ = nullptr;            // the one that was used last, and its source
  int last_source_ = kAnySource;
  List<Transfer, &Transfer::in_lane> from_any_;
  List<Arrival, &Arrival::in_context> arrivals_;  // of all sources
  std::uint64_t next_sequence_ = 0;
};

}  // namespace tutti::p2p
