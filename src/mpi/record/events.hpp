// The flight recorder: the last calls of a rank, taken out of its record while it runs or after its
// end, or out of the file that was written of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/record/record.h"
#include "mpi/record/roll.hpp"

namespace tutti::roll {

/// What a file begins with. Behind it come the record's head, for each lane the events that
/// used_events() counts, and the process's /proc/PID/maps, as far as that was to be had.
struct FileHead {
  static constexpr std::uint64_t kMagic = 0x6c6c616369747574u;  // "tuticall"
  std::uint64_t magic = kMagic;
  std::uint32_t head_bytes = TUTTI_RECORD_HEAD;
  std::uint32_t event_bytes = sizeof(tutti_event);
};

/// How many events of a lane there are, from the first place of its ring on.
inline std::uint32_t used_events(const tutti_lane& lane) noexcept {
  if (lane.events == 0) return 0;
  const std::uint64_t calls = (lane.count + 1) / 2, places = std::uint64_t{lane.mask} + 1;
  return static_cast<std::uint32_t>(calls < places ? calls : places);
}

/// Copies the event of a lane at a place; its count is 0 where it was being written. Safe in a
/// signal's handler.
void copy_event(const tutti_lane& lane, std::uint32_t place, tutti_event* out) noexcept;

/// The row of the communicator whose collective an event is, or has waited for; -1: of none.
/// `*nonblocking`: which kind.
int row_of(const tutti_event& event, bool* nonblocking) noexcept;

/// A record and its events.
struct Recorded {
  tutti_record head;
  std::vector<tutti_event> events[TUTTI_RECORD_LANES];  // in no order
  std::string maps;                                     // of a file
};

/// Of a rank that goes on. False where there is no record yet.
bool read_recorded(const tutti_record& record, Recorded* out);
/// Of a file's bytes. False, with a line that says why, where it is none of this version's.
bool read_recorded(const std::string& file, Recorded* out, std::string* why);

/// A call as it was written down.
struct Event {
  int lane = 0;
  CallSeen call;                         // `inside`: it had not ended
  std::uint64_t begin = 0;               // CLOCK_MONOTONIC, ns; 0: not known
  std::uint64_t end = 0;                 // 0: it had not ended
  bool waited = false;                   // begin and end are exact
  std::int32_t partner = TUTTI_NO_RANK;  // that it waited for longest; -1: for any
  std::uint32_t partner_us = 0;
};

/// In the order of each lane's calls. Without those that were being written.
std::vector<Event> events_of(const Recorded& recorded);

}  // namespace tutti::roll
