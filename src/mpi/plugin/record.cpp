#include "mpi/plugin/record.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "mpi/plugin/node_list.hpp"
#include "mpi/plugin/profiling.hpp"
#include "mpi/plugin/recorder.hpp"
#include "mpi/plugin/stall.hpp"
#include "mpi/record/roll.hpp"
#include "select/select.hpp"

namespace tutti::mpi {

tutti_record no_record;

namespace {

/// Written by begin_record() and end_record(), constant in between.
struct Kept {
  Records node;  // all ranks of this node
  tutti_record* own = nullptr;
  void (*keep)(tutti_record*, void (*)(), void (*)(tutti_lane*)) = nullptr;
};
Kept kept;
std::mutex rows;  // which of them are taken

/// Of all ranks. Their first one's number is the job's, equal for its ranks and no other's. (The
/// numbers of its processes would do, but for containers, in which they are the same again and
/// again.)
std::vector<Introduced> introduce_ranks(const Listener& listener) {
  const Introduced own = introduce_record(listener);
  std::vector<Introduced> ranks(static_cast<std::size_t>(state.size));
  native.Allgather(&own, sizeof own, MPI_BYTE, ranks.data(), sizeof own, MPI_BYTE, world_handle);
  return ranks;
}

std::uint64_t pid_namespace() noexcept {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

void copy_name(char (&out)[TUTTI_RECORD_NAME], const char* name) noexcept {
  const std::size_t length = strnlen(name, sizeof out - 1);
  std::memcpy(out, name, length);
  out[length] = '\0';
}

/// The distance from each member to the next, where it is always the same; else 0.
std::int32_t stride_of(const std::vector<std::int32_t>& members) noexcept {
  if (members.size() == 1) return 1;
  const std::int32_t stride = members[1] - members[0];
  for (std::size_t i = 2; i < members.size(); ++i) {
    if (members[i] - members[i - 1] != stride) return 0;
  }
  return stride > 0 ? stride : 0;
}

/// A name of the program's wins over the MPI's; both may change later.
void name_row(const Comm& comm, tutti_comm_row* row) noexcept {
  char given[MPI_MAX_LIBRARY_VERSION_STRING] = "";  // longer than any name
  int length = 0;
  if (native.Comm_get_name(comm.handle, given, &length) == MPI_SUCCESS) copy_name(row->name, given);
  if (row->name[0] == '\0' && comm.handle == world_handle) copy_name(row->name, "MPI_COMM_WORLD");
}

void fill_row(const Comm& comm, const std::vector<std::int32_t>& members, tutti_comm_row* row) {
  // Nothing of a communicator that had the row before.
  for (tutti_past& past : row->past) TUTTI_SET(past.number, 0);
  for (tutti_past& past : row->made) TUTTI_SET(past.number, 0);
  row->handle = key(comm.handle);
  row->number = comm.own_row.number;
  row->started = comm.own_row.started;
  row->size = comm.size;
  row->rank = comm.rank;
  row->first = members.front();
  row->stride = stride_of(members);
  row->since_ns = tutti_clock(CLOCK_MONOTONIC);
  row->name[0] = '\0';
  name_row(comm, row);
  // Members have the same birth, and so have others that came out of the same call.
  const std::uint64_t id =
      mix(comm.birth[0] ^ mix(comm.birth[1] + 1 + static_cast<std::uint64_t>(members.front())));
  __atomic_store_n(&row->id, id != 0 ? id : 1, __ATOMIC_RELEASE);
}

}  // namespace

void begin_record(const tutti_preload& preload) {
  if (!state.job) return;
  kept.node = state.job->take_records();
  const std::vector<Introduced> ranks = introduce_ranks(listen_for_stalls(kept.node));
  const std::uint64_t job = ranks.front().number;
  if (kept.node.base == nullptr) {
    log(LogLevel::warn, "no record of calls is kept: the shared segment cannot be mapped again");
    return;
  }
  kept.own = &record_of(kept.node, kept.node.own);
  kept.keep = preload.keep_record;
  tutti_record& own = *kept.own;
  own.signature = TUTTI_MPI_TABLE_SIGNATURE;
  own.rank = state.rank;
  own.size = state.size;
  own.pid = getpid();
  own.job = job;
  own.processes = pid_namespace();
  own.started = roll::started_of(own.pid);
  own.any_source = MPI_ANY_SOURCE;
  own.any_tag = MPI_ANY_TAG;
  copy_name(own.program, program_invocation_short_name);
  const std::string plugin = preload.plugin_path;
  begin_recorder(kept.node, plugin.substr(0, plugin.rfind('/')));
  __atomic_store_n(&own.magic, TUTTI_RECORD_MAGIC, __ATOMIC_RELEASE);
  state.record = &own;
  kept.keep(&own, &write_recorders, state.report ? &count_calls : nullptr);
  if (kept.node.own == 0) hold_node_list(job, ranks);
  begin_watch(kept.node, ranks);
}

void note_finalize() noexcept {
  end_watch();
  if (kept.own == nullptr) return;
  TUTTI_SET(kept.own->finalizing, 1);
  end_recorder();
}

void end_record() noexcept {
  if (kept.own == nullptr) return;
  drop_node_list();
  kept.keep(nullptr, nullptr, nullptr);
  state.record = &no_record;
  const std::size_t bytes = kept.node.bytes * static_cast<std::size_t>(kept.node.ranks);
  // In its place, at once. The file's memory, which is the whole job's, is free then.
  if (mmap(kept.node.base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
           -1, 0) == MAP_FAILED)
    log(LogLevel::debug, "the record of calls stays mapped");
  kept = {};
}

const Records& node_records() noexcept { return kept.node; }

void leave_record() noexcept {
  if (kept.own == nullptr) return;
  kept.keep(nullptr, nullptr, nullptr);
  state.record = &no_record;
}

std::uint64_t what_left(Coll coll) noexcept {
  return what_of(coll, nullptr) | std::uint64_t{roll::kHost} << 24;
}

std::uint64_t with_algorithm(std::uint64_t what, const Route& route) noexcept {
  if (route.choice == nullptr) return what;
  return what | std::uint64_t{roll::place_of(route.choice->algorithm)} << 24;
}

void add_row(Comm& comm) noexcept {
  if (kept.own == nullptr || comm.foreign || comm.has_asked_for_row) return;
  comm.has_asked_for_row = true;
  try {
    std::vector<std::int32_t> members;
    if (comm.size < 2 || !world_ranks(comm.handle, comm.size, &members)) return;
    const std::lock_guard lock(rows);
    for (tutti_comm_row& row : kept.own->comms) {
      if (row.id != 0) continue;
      fill_row(comm, members, &row);
      comm.row = &row;
      return;
    }
  } catch (const std::bad_alloc&) {  // it goes without
  }
}

void note_message_wait(const Request& request, bool receives) noexcept {
  tutti_lane* const lane = lane_here();
  if ((lane->count & 1) == 0 || kept.own == nullptr) return;
  add_row(*request.comm);
  tutti_forget_event(lane);  // of another request, for which the same call has waited before
  TUTTI_SET(lane->peer, request.peer);
  TUTTI_SET(lane->tag, request.tag);
  TUTTI_SET(lane->comm, key(request.comm->handle));
  TUTTI_SET(lane->detail, receives ? TUTTI_DETAIL_RECEIVE : TUTTI_DETAIL_SEND);
  __atomic_store_n(&lane->detail_count, lane->count, __ATOMIC_RELEASE);
}

void remove_row(Comm& comm) noexcept {
  if (comm.row == &comm.own_row) return;
  if (state.report) count_all_calls();  // while it is known whose they were
  const std::lock_guard lock(rows);
  // What the rank has done to its end, others compare with when they come to it.
  if (!kept.own->finalizing) TUTTI_SET(comm.row->id, 0);
  __atomic_thread_fence(__ATOMIC_RELEASE);  // before it is another one's
  comm.row = &comm.own_row;
}

}  // namespace tutti::mpi
