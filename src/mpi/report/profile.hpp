// The profile of one rank: its calls by the place in the program that made them, by communicator
// and by size, and of its collectives when it came to each and when it left. Made of the flight
// recorder's events, so that nothing is counted in the way of a call.
//
// Sums are of all calls. Arrivals are of as many as there is room for: when that is full, half of
// those of the most frequent kind are dropped, and of the later ones every second, fourth, ... is
// kept, chosen by a hash of its number. All members choose the same ones, without a word; no rhythm
// of the program's matters, and what is rare stays.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "coll/call.hpp"
#include "mpi/record/record.h"

namespace tutti::report {

/// What calls have in common that are counted together.
struct SiteKey {
  static constexpr std::int16_t kNone = -1;

  std::uint64_t site = 0;           // address in the process behind the call
  std::uint64_t comm = 0;           // as in tutti_comm_row; 0: none, or not known
  std::uint32_t function = 0;       // enum tutti_mpi_function
  std::int16_t coll = kNone;        // enum Coll; kNone: no collective that tutti knows
  std::int16_t size_class = kNone;  // Online::class_of() of its bytes; kNone: not known
  bool nonblocking = false;         // it waits for such a collective

  auto operator<=>(const SiteKey&) const = default;
};

struct SiteCounts {
  std::uint64_t calls = 0, bytes = 0;          // bytes: as far as they are known
  std::uint64_t least = UINT64_MAX, most = 0;  // of one call
  std::uint64_t ns = 0, longest_ns = 0;
};

/// A place in the program, and its calls.
struct Site {
  SiteKey key;
  SiteCounts counts;
  std::string text;  // "program+0x1234 (function)"; set before a profile leaves its process
};

/// When a rank came to a blocking collective, and when it left.
struct Arrival {
  std::uint64_t number = 0;              // on the communicator, from 1
  std::uint64_t begin = 0, end = 0;      // ns of CLOCK_MONOTONIC
  std::uint32_t site = 0;                // place in the profile's sites
  std::int32_t root = TUTTI_NO_RANK;     // in the communicator
  std::int32_t partner = TUTTI_NO_RANK;  // in the world: waited for longest
};

struct CommSeen {
  std::uint64_t id = 0;
  std::int32_t size = 0, rank = 0;
  std::string name;
};

/// What is kept of the arrivals at one kind of collective: the same on all members, as is what it
/// is of. (Where each rank knows but its own counts, sizes are no part of the kind.)
struct KindArrivals {
  std::uint32_t comm = 0;         // place in the profile's communicators
  std::uint32_t halved = 0;       // one in 2^halved is kept
  std::uint64_t collectives = 0;  // blocking ones, that have ended here
  std::vector<Arrival> kept;
};

/// A rank's profile as it goes to rank 0.
struct RankProfile {
  std::int32_t rank = 0;
  std::uint64_t clock = 0;   // as in tutti_origin
  std::uint64_t missed = 0;  // calls that were overwritten before they were counted
  std::vector<Site> sites;
  std::vector<CommSeen> comms;
  std::vector<KindArrivals> kinds;
};

/// Not thread-safe. May throw std::bad_alloc.
class Profile {
 public:
  /// `room`: for arrivals, at all collectives together.
  explicit Profile(std::size_t room);

  /// Counts a call that has ended. `record`: of its rank, whose communicators still have the rows
  /// that they had when it ended.
  void add(const tutti_record& record, const tutti_event& event);
  void add_missed(std::uint64_t calls) noexcept { profile_.missed += calls; }

  const RankProfile& profile() const noexcept { return profile_; }
  RankProfile& profile() noexcept { return profile_; }

 private:
  std::uint32_t count(const SiteKey& key, std::uint64_t bytes, std::uint64_t ns);
  std::uint32_t comm_of(const tutti_comm_row& row);
  void keep(const tutti_comm_row& row, const SiteKey& key, const Arrival& arrival);
  void thin();

  const std::size_t room_;
  std::size_t kept_ = 0;
  RankProfile profile_;
  std::map<SiteKey, std::uint32_t> places_;
  std::map<std::uint64_t, std::uint32_t> comms_;
  using Kind = std::tuple<std::uint64_t, std::int16_t, std::int16_t>;  // as in SiteKey
  std::map<Kind, std::uint32_t> kinds_;
};

/// True for the collectives whose arrivals are kept where one in 2^halved is.
bool is_kept(std::uint64_t number, std::uint32_t halved) noexcept;

/// As bytes, for a rank of the same version; and back. False where they are damaged.
std::string packed(const RankProfile& profile);
bool unpack(const char* bytes, std::size_t size, RankProfile* out);

}  // namespace tutti::report
