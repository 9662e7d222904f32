#include "mpi/record/events.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::roll {
namespace {

void add_collective(const tutti_record& head, const tutti_event& event, const RankSeen& rank,
                    Event* out) {
  bool nonblocking = false;
  const int index = row_of(event, &nonblocking);
  const std::uint64_t number = event.of >> 32;
  if (index < 0) return;
  const tutti_comm_row& row = head.comms[index];
  CallSeen& call = out->call;
  call.collective = true;
  call.passed = passed_of(event.bytes, event.what, nonblocking);
  call.passed.number = number;
  if (nonblocking) call.wait = call.name;
  call.name = name_of(call.passed);
  // Another communicator may have had the row then.
  const bool its_own = row.id != 0 && event.end_ns >= row.since_ns;
  const auto comm = std::ranges::find(rank.comms, row.id, &CommSeen::id);
  if (!its_own || comm == rank.comms.end()) return;
  call.id = row.id;
  call.comm = comm->name;
}

void add_message(const tutti_record& head, const tutti_event& event, const RankSeen& rank,
                 CallSeen* call) {
  const auto peer = static_cast<std::int32_t>(event.what);
  const auto tag = static_cast<std::int32_t>(event.what >> 32);
  call->message = true;
  call->sends = is_send(call->name);
  call->peer = peer == head.any_source ? -1 : peer;
  call->tag = tag == head.any_tag ? -1 : tag;
  for (const CommSeen& comm : rank.comms) {
    if (comm.handle == event.bytes) call->comm = comm.name;
  }
}

Event read_event(const tutti_record& head, const tutti_event& event, const RankSeen& rank) {
  Event out;
  out.call.count = event.count;
  out.call.name = rank.foreign ? "an MPI call" : function_name(event.of & 0xffff);
  out.call.site = event.site;
  out.begin = event.begin_ns;
  out.end = event.end_ns;
  out.waited = (event.of & TUTTI_EVENT_WAITED) != 0;
  if (out.waited) {
    out.partner = event.partner;
    out.partner_us = event.partner_us;
  }
  if (rank.foreign) return out;
  add_collective(head, event, rank, &out);
  if (!out.call.collective && is_message(out.call.name)) add_message(head, event, rank, &out.call);
  return out;
}

/// The calls that the threads are in.
void add_unfinished(const RankSeen& rank, std::vector<Event>* out) {
  for (const CallSeen& call : rank.calls) {
    if (!call.inside) continue;
    Event event;
    event.lane = call.lane;
    event.call = call;
    event.begin = call.since_ns;
    out->push_back(std::move(event));
  }
}

/// Takes bytes off the front of a text.
bool take(const std::string& file, std::size_t* at, void* out, std::size_t bytes) {
  if (file.size() - *at < bytes) return false;
  std::memcpy(out, file.data() + *at, bytes);
  *at += bytes;
  return true;
}

}  // namespace

int row_of(const tutti_event& event, bool* nonblocking) noexcept {
  const std::uint64_t detail = (event.of >> 16 & 0x7fff) * 8;  // so far into the record
  const std::uint64_t rows = offsetof(tutti_record, comms);
  const std::uint64_t end = rows + TUTTI_RECORD_COMMS * sizeof(tutti_comm_row);
  const bool known = static_cast<std::uint8_t>(event.what) < kColls && event.of >> 32 != 0;
  if (detail < rows || detail >= end || !known) return -1;
  const std::uint64_t place = (detail - rows) % sizeof(tutti_comm_row);
  if (place < offsetof(tutti_comm_row, past)) return -1;
  *nonblocking = place >= offsetof(tutti_comm_row, made);
  return static_cast<int>((detail - rows) / sizeof(tutti_comm_row));
}

void copy_event(const tutti_lane& lane, std::uint32_t place, tutti_event* out) noexcept {
  const std::uint64_t before = __atomic_load_n(&lane.count, __ATOMIC_ACQUIRE);
  const auto* const from = reinterpret_cast<const std::uint64_t*>(
      reinterpret_cast<const std::byte*>(&lane) + lane.events + place * sizeof *out);
  std::uint64_t words[sizeof *out / sizeof(std::uint64_t)];
  for (std::size_t i = 0; i < std::size(words); ++i)
    words[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
  std::memcpy(out, words, sizeof *out);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  // Its call has not ended yet; or since it was begun, its place has been written again, or is
  // being so.
  const std::uint64_t now = __atomic_load_n(&lane.count, __ATOMIC_RELAXED);
  const bool its_own = out->count / 2 % (std::uint64_t{lane.mask} + 1) == place;
  const bool ended = out->count < before;
  if (!its_own || !ended || now >= out->count + 2 * (std::uint64_t{lane.mask} + 1)) out->count = 0;
}

bool read_recorded(const tutti_record& record, Recorded* out) {
  if (__atomic_load_n(&record.magic, __ATOMIC_ACQUIRE) != TUTTI_RECORD_MAGIC) return false;
  std::memcpy(&out->head, &record, sizeof record);
  for (int lane = 0; lane < TUTTI_RECORD_LANES; ++lane) {
    out->events[lane].resize(used_events(out->head.lanes[lane]));
    for (std::size_t i = 0; i < out->events[lane].size(); ++i)
      copy_event(record.lanes[lane], static_cast<std::uint32_t>(i), &out->events[lane][i]);
  }
  return true;
}

bool read_recorded(const std::string& file, Recorded* out, std::string* why) {
  FileHead head;
  std::size_t at = 0;
  if (!take(file, &at, &head, sizeof head) || head.magic != FileHead::kMagic) {
    *why = "no file of tutti's recorder";
    return false;
  }
  if (head.head_bytes != TUTTI_RECORD_HEAD || head.event_bytes != sizeof(tutti_event)) {
    *why = "of another version of tutti";
    return false;
  }
  const std::size_t record_at = at;
  bool whole = take(file, &at, &out->head, sizeof out->head);
  at = record_at + TUTTI_RECORD_HEAD;
  whole = whole && at <= file.size() && out->head.magic == TUTTI_RECORD_MAGIC;
  for (int lane = 0; lane < TUTTI_RECORD_LANES && whole; ++lane) {
    const std::size_t events = used_events(out->head.lanes[lane]);
    whole = events * sizeof(tutti_event) <= file.size() - at;
    if (!whole) break;
    out->events[lane].resize(events);
    take(file, &at, out->events[lane].data(), events * sizeof(tutti_event));
  }
  if (!whole) {
    *why = "damaged: it ends too early";
    return false;
  }
  out->maps = file.substr(at);
  return true;
}

std::vector<Event> events_of(const Recorded& recorded) {
  RankSeen rank;
  std::vector<Event> out;
  // Nothing here asks for the process.
  if (!read_record(recorded.head, &rank, [](std::uint64_t, std::int32_t) { return 0; })) return out;
  for (int lane = 0; lane < TUTTI_RECORD_LANES; ++lane) {
    std::vector<tutti_event> events = recorded.events[lane];
    std::erase_if(events, [](const tutti_event& event) { return event.count == 0; });
    std::ranges::sort(events, {}, &tutti_event::count);
    for (const tutti_event& event : events) {
      out.push_back(read_event(recorded.head, event, rank));
      out.back().lane = lane;
    }
  }
  add_unfinished(rank, &out);
  return out;
}

}  // namespace tutti::roll
