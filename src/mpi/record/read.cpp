// Reading a record that its rank goes on writing, and what the system says of the rank's process.
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "mpi/generated/function_index.h"
#include "mpi/record/roll.hpp"

namespace tutti::roll {
namespace {

constexpr const char* kFunctions[] = {
#define TUTTI_NAME(name) "MPI_" #name,
    TUTTI_MPI_FUNCTIONS(TUTTI_NAME)
#undef TUTTI_NAME
};

/// Word by word, as it is written.
template <class Part>
void copy(const Part& shared, Part* out) {
  const auto* from = reinterpret_cast<const std::uint64_t*>(&shared);
  auto* const to = reinterpret_cast<std::uint64_t*>(out);
  for (std::size_t i = 0; i < sizeof(Part) / sizeof *to; ++i)
    to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
}

/// Twice the same: nothing was being written in between. A rank that calls all the time is between
/// two words now and then; after so many tries what it is in has changed anyway.
tutti_lane copy_lane(const tutti_lane& shared) {
  constexpr int kTries = 1000;
  tutti_lane first, second;
  copy(shared, &second);
  for (int i = 0; i < kTries; ++i) {
    first = second;
    copy(shared, &second);
    if (std::memcmp(&first, &second, sizeof first) == 0) break;
  }
  return second;
}

std::string bounded(const char* text, std::size_t most) {
  std::string out(text, strnlen(text, most));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';  // it goes to a terminal
  }
  return out;
}

CommSeen comm_of(const tutti_comm_row& shared) {
  tutti_comm_row row;
  copy(shared, &row);
  CommSeen seen{row.id,   row.handle, row.number, row.started,
                row.size, row.first,  row.stride, bounded(row.name, sizeof row.name),
                {}};
  if (seen.name.empty()) seen.name = "a communicator of " + std::to_string(row.size);
  for (const tutti_past& past : shared.past) seen.past.push_back(read_past(past, false));
  for (const tutti_past& past : shared.made) seen.past.push_back(read_past(past, true));
  std::erase_if(seen.past, [](const Passed& passed) { return passed.number == 0; });
  // In between it may have become the row of another one.
  if (__atomic_load_n(&shared.id, __ATOMIC_RELAXED) != row.id) seen.id = 0;
  return seen;
}

/// The collective that a thread is in, or waits for: a place in a row of the record.
void add_detail(const tutti_record& record, const tutti_lane& lane,
                const std::vector<CommSeen>& comms, CallSeen* call) {
  const std::uint64_t rows = offsetof(tutti_record, comms);
  if (lane.detail < rows || lane.detail >= sizeof record) return;
  const tutti_comm_row& row = record.comms[(lane.detail - rows) / sizeof(tutti_comm_row)];
  const std::uint64_t place = (lane.detail - rows) % sizeof(tutti_comm_row);
  const std::uint64_t past = offsetof(tutti_comm_row, past), made = offsetof(tutti_comm_row, made);
  if (place < past) return;
  const Passed passed = place < made
                            ? read_past(row.past[(place - past) / sizeof(tutti_past)], false)
                            : read_past(row.made[(place - made) / sizeof(tutti_past)], true);
  const std::uint64_t id = __atomic_load_n(&row.id, __ATOMIC_RELAXED);
  const auto comm = std::ranges::find(comms, id, &CommSeen::id);
  if (passed.number == 0 || comm == comms.end()) return;
  call->collective = true;
  call->id = id;
  call->comm = comm->name;
  call->passed = passed;
  if (passed.nonblocking) call->wait = call->name;
  call->name = name_of(passed);
}

void add_message(const tutti_record& record, const tutti_lane& lane,
                 const std::vector<CommSeen>& comms, CallSeen* call) {
  call->message = true;
  call->peer = lane.peer == record.any_source ? -1 : lane.peer;
  call->tag = lane.tag == record.any_tag ? -1 : lane.tag;
  for (const CommSeen& comm : comms) {
    if (comm.handle != lane.comm) continue;
    call->comm = comm.name;
    if (comm.stride > 0 && call->peer >= 0)
      call->peer_in_world = comm.first + call->peer * comm.stride;
  }
}

/// The call waits for a message that another one has begun.
void add_awaited_message(const tutti_record& record, const tutti_lane& lane,
                         const std::vector<CommSeen>& comms, CallSeen* call) {
  call->wait = call->name;
  call->name = "a message";
  call->sends = lane.detail == TUTTI_DETAIL_SEND;
  add_message(record, lane, comms, call);
}

CallSeen call_of(const tutti_record& record, const tutti_lane& lane,
                 const std::vector<CommSeen>& comms, bool known) {
  CallSeen call;
  call.inside = (lane.count & 1) != 0;
  call.count = lane.count;
  call.name = known ? function_name(lane.function) : "an MPI call";
  call.site = lane.site;
  const std::uint64_t number = call.inside ? lane.count : lane.count - 1;
  if (lane.since_count == number) call.since_ns = lane.since_ns;
  const bool detailed = known && lane.detail_count == number;
  if (detailed && (lane.detail == TUTTI_DETAIL_RECEIVE || lane.detail == TUTTI_DETAIL_SEND)) {
    add_awaited_message(record, lane, comms, &call);
    return call;
  }
  if (detailed) add_detail(record, lane, comms, &call);
  if (call.collective || !is_message(call.name)) return call;
  call.sends = is_send(call.name);
  add_message(record, lane, comms, &call);
  return call;
}

/// What is said of a call lies elsewhere, and is of that call only while the thread is in it.
CallSeen read_lane(const tutti_record& record, const tutti_lane& shared, const RankSeen& rank) {
  constexpr int kTries = 100;
  CallSeen call;
  for (int i = 0; i < kTries; ++i) {
    const tutti_lane lane = copy_lane(shared);
    call = lane.count != 0 ? call_of(record, lane, rank.comms, !rank.foreign) : CallSeen{};
    if (__atomic_load_n(&shared.count, __ATOMIC_ACQUIRE) == call.count) break;
  }
  return call;
}

/// The third word of /proc/PID/stat, which follows a name in parentheses, and the 22nd.
bool read_stat(std::int32_t pid, char* state, std::uint64_t* started) {
  char path[64], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return false;
  const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = '\0';
  const char* word = std::strrchr(text, ')');
  if (word == nullptr || word[1] != ' ') return false;
  word += 2;
  *state = *word;
  for (int i = 3; i < 22 && word != nullptr; ++i) {
    word = std::strchr(word, ' ');
    if (word != nullptr) ++word;
  }
  *started = word != nullptr ? std::strtoull(word, nullptr, 10) : 0;
  return true;
}

/// `pid`: here, 0 where it cannot be seen from here.
char process_of(const tutti_record& record, std::int32_t pid) {
  if (pid == 0) return '?';
  char state = '?';
  std::uint64_t started = 0;
  if (!read_stat(pid, &state, &started) || started != record.started || state == 'Z') return 'X';
  return state;
}

/// Leaves out of the copies what has been written to since they were begun.
template <std::size_t Count>
void drop_written(const tutti_past (&shared)[Count], tutti_past (&copies)[Count]) noexcept {
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  for (std::size_t i = 0; i < Count; ++i) {
    if (__atomic_load_n(&shared[i].number, __ATOMIC_RELAXED) != copies[i].number)
      copies[i].number = 0;
  }
}

/// When all have been read. A collective that the rank has come to since counts.
void look_again(const tutti_record& record, RankSeen* seen) noexcept {
  for (CallSeen& call : seen->calls)
    call.moved = __atomic_load_n(&record.lanes[call.lane].count, __ATOMIC_ACQUIRE) != call.count;
  for (CommSeen& comm : seen->comms) {
    for (const tutti_comm_row& row : record.comms) {
      if (__atomic_load_n(&row.id, __ATOMIC_ACQUIRE) != comm.id) continue;
      comm.number = __atomic_load_n(&row.number, __ATOMIC_RELAXED);
      comm.started = __atomic_load_n(&row.started, __ATOMIC_RELAXED);
    }
  }
}

}  // namespace

std::string function_name(std::uint32_t function) {
  std::string name = function < TUTTI_MPI_FUNCTION_COUNT ? kFunctions[function] : "an MPI call";
  if (name.ends_with("_c")) name.resize(name.size() - 2);
  return name;
}

bool is_send(const std::string& name) {
  return name.find("end") != std::string::npos && !name.starts_with("MPI_Sendrecv");
}

bool is_message(const std::string& name) {
  constexpr const char* kStarts[] = {"MPI_Send", "MPI_Bsend", "MPI_Ssend", "MPI_Rsend",
                                     "MPI_Recv", "MPI_Probe", "MPI_Mprobe"};
  for (const char* start : kStarts) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

std::int32_t process_here(std::uint64_t processes, std::int32_t pid) noexcept {
  struct stat own;
  const bool same =
      processes != 0 && stat("/proc/self/ns/pid", &own) == 0 && own.st_ino == processes;
  return same ? pid : 0;
}

bool read_record(const tutti_record& record, RankSeen* out, const ProcessHere& process) {
  if (__atomic_load_n(&record.magic, __ATOMIC_ACQUIRE) != TUTTI_RECORD_MAGIC) return false;
  RankSeen seen;
  seen.rank = record.rank;
  seen.size = record.size;
  const std::int32_t here = process(record.processes, record.pid);
  seen.pid = here != 0 ? here : record.pid;
  seen.job = record.job;
  seen.finalizing = __atomic_load_n(&record.finalizing, __ATOMIC_RELAXED) != 0;
  seen.foreign = record.signature != TUTTI_MPI_TABLE_SIGNATURE;
  seen.process = process_of(record, here);
  seen.program = bounded(record.program, sizeof record.program);
  for (const tutti_comm_row& row : record.comms) {
    if (__atomic_load_n(&row.id, __ATOMIC_ACQUIRE) == 0) continue;
    CommSeen comm = comm_of(row);
    if (comm.id != 0) seen.comms.push_back(std::move(comm));
  }
  seen.full = std::ranges::all_of(record.comms, [](const tutti_comm_row& row) {
    return __atomic_load_n(&row.id, __ATOMIC_RELAXED) != 0;
  });
  for (const tutti_lane& lane : record.lanes) {
    CallSeen call = read_lane(record, lane, seen);
    call.lane = static_cast<int>(&lane - record.lanes);
    if (call.count != 0) seen.calls.push_back(std::move(call));
  }
  *out = std::move(seen);
  return true;
}

std::vector<RankSeen> read_records(const std::vector<const tutti_record*>& records,
                                   const ProcessHere& process) {
  std::vector<RankSeen> ranks;
  std::vector<const tutti_record*> read;
  for (const tutti_record* record : records) {
    RankSeen seen;
    if (!read_record(*record, &seen, process)) continue;
    ranks.push_back(std::move(seen));
    read.push_back(record);
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) look_again(*read[i], &ranks[i]);
  return ranks;
}

void copy_record(const tutti_record& record, tutti_record* out) noexcept {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t calls = tutti_calls(&record);
    copy(record, out);
    for (int lane = 0; lane < TUTTI_RECORD_LANES; ++lane)
      out->lanes[lane] = copy_lane(record.lanes[lane]);
    // Lanes point to what lies in the rows: copied of the same calls.
    if (calls == tutti_calls(&record)) break;
  }
  for (int row = 0; row < TUTTI_RECORD_COMMS; ++row) {
    const tutti_comm_row& from = record.comms[row];
    drop_written(from.past, out->comms[row].past);
    drop_written(from.made, out->comms[row].made);
  }
}

bool read_copies(const tutti_record& first, const tutti_record& second, RankSeen* out) {
  const auto nowhere = [](std::uint64_t, std::int32_t) { return 0; };
  if (!read_record(first, out, nowhere)) return false;
  look_again(second, out);
  return true;
}

std::uint64_t started_of(std::int32_t pid) {
  char state = '?';
  std::uint64_t started = 0;
  return read_stat(pid, &state, &started) ? started : 0;
}

std::string site_in_rank(const RankSeen& rank, std::uint64_t site) {
  return rank.process != 'X' && rank.process != '?' ? module_site(rank.pid, site) : std::string();
}

std::string module_site(std::int32_t pid, std::uint64_t site) {
  if (pid == 0 || site == 0) return {};
  char path[64], line[1024];
  std::snprintf(path, sizeof path, "/proc/%d/maps", pid);
  std::FILE* const file = std::fopen(path, "re");
  if (file == nullptr) return {};
  const std::uint64_t place = site - 1;  // the return address may be behind the function
  std::uint64_t base = 0;
  std::string module, found;
  while (found.empty() && std::fgets(line, sizeof line, file) != nullptr) {
    unsigned long begin = 0, end = 0;
    int at = 0;
    if (std::sscanf(line, "%lx-%lx %*s %*x %*s %*s %n", &begin, &end, &at) < 2) continue;
    std::string name(line + at);
    while (!name.empty() && (name.back() == '\n' || name.back() == ' ')) name.pop_back();
    if (name != module || name.empty()) base = begin;  // the first of a module's parts
    module = name;
    if (place < begin || place >= end) continue;
    char offset[32];
    std::snprintf(offset, sizeof offset, "+%#llx", static_cast<unsigned long long>(place - base));
    found = (name.empty() ? "generated code" : name.substr(name.rfind('/') + 1)) + offset;
  }
  std::fclose(file);
  return found;
}

}  // namespace tutti::roll
