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
  Transfer* take_posted(int source, int tag) noexcept;
  /// The first message that a receive takes; it stays. nullptr: none yet.
  Arrival* find(int source, int tag) noexcept;

  void post(Transfer& receive) noexcept;
  void add(Arrival& arrival) noexcept;
  void remove(Transfer& receive) noexcept;
  void remove(Arrival& arrival) noexcept;
  /// The message of which the peer speaks by this number of its own; nullptr: it is not here any
  /// more.
  Arrival* announced(const Peer& from, std::uint32_t transfer) noexcept;
  /// True when a receive waits that could be given a message from `source`.
  bool expects(int source) noexcept { return !lane(source).posted.empty() || !from_any_.empty(); }
  Arrival* first_arrival() noexcept { return arrivals_.first(); }

 private:
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
