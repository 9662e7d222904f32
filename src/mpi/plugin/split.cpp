#include "mpi/plugin/split.hpp"

#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "mpi/plugin/agree.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/exported.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/split/split_api.h"
#include "offload/mapping.hpp"
#include "offload/start/place.hpp"

namespace tutti::mpi {
namespace {

constexpr int kLongestNumber = 64;  // of a number in an info object
constexpr unsigned kLauncherS =
    3;  // that the launcher has to end a job one of whose processes died

/// Who is what. Written inside MPI_Init, constant from then on.
struct Split {
  bool active = false;
  bool processor = false;  // this process is a dedicated one
  int size = 0;            // of the job, with dedicated processors
  int local_ranks = 0;     // processes of the program on this node
  offload::Place place{};
  std::vector<int> processors;  // ranks in MPI_COMM_WORLD
};
Split split;

std::vector<offload::Introduction> introduce_all() {
  const offload::Introduction me = offload::introduce(state.settings);
  std::vector<offload::Introduction> all(static_cast<std::size_t>(state.size));
  native.Allgather(&me, sizeof me, MPI_BYTE, all.data(), sizeof me, MPI_BYTE, MPI_COMM_WORLD);
  return all;
}

/// The processes of each node, by rank, in the order of the nodes' first ranks.
std::vector<std::vector<int>> nodes_of(const std::vector<offload::Introduction>& all) {
  std::map<std::uint64_t, std::size_t> numbers;
  std::vector<std::vector<int>> nodes;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto [found, added] = numbers.try_emplace(all[rank].node, nodes.size());
    if (added) nodes.emplace_back();
    nodes[found->second].push_back(static_cast<int>(rank));
  }
  return nodes;
}

/// The last processes of each node become dedicated ones: rank 0, which has the standard input,
/// stays with the program.
void choose(const std::vector<std::vector<int>>& nodes, const std::vector<int>& wanted) {
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const auto& here = nodes[node];
    const std::size_t stay = here.size() - static_cast<std::size_t>(wanted[node]);
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (i >= stay) split.processors.push_back(here[i]);
      if (here[i] != state.rank) continue;
      split.processor = i >= stay;
      split.local_ranks = static_cast<int>(stay);
    }
  }
}

bool is_processor(std::size_t rank) {
  for (const int one : split.processors) {
    if (static_cast<std::size_t>(one) == rank) return true;
  }
  return false;
}

/// What this process must know about its machine when it serves.
void take_place(const std::vector<offload::Introduction>& all) {
  const auto mine = static_cast<std::size_t>(state.rank);
  offload::Place& place = split.place;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].machine != all[mine].machine) continue;
    if (is_processor(rank)) {
      ++place.machine_helpers;
      if (rank < mine) ++place.index;
      continue;
    }
    ++place.machine_ranks;
    for (int i = 0; i < 16; ++i) place.cpus[i] |= all[rank].cpus[i];
  }
}

/// The ranks in the program's world, with dedicated processors behind, in the order of the MPI's.
void renumber() {
  int before[2] = {0, 0};
  for (int rank = 0; rank < state.rank; ++rank)
    ++before[is_processor(static_cast<std::size_t>(rank))];
  split.size = state.size;
  state.size -= static_cast<int>(split.processors.size());
  state.rank = split.processor ? state.size + before[1] : before[0];
}

void say_what_was_chosen() {
  if (state.rank != 0) return;
  log(LogLevel::warn,
      "TUTTI_DCP=%s does not divide %d processes evenly: %d for the program, %d dedicated",
      state.settings.dcp.c_str(), split.size, state.size, split.size - state.size);
}

/// Programs and tools read these; MPIs have done with them.
void set_launcher_variables() {
  const auto set = [](const char* name, int value) {
    if (std::getenv(name) != nullptr) setenv(name, std::to_string(value).c_str(), 1);
  };
  for (const char* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK"}) set(name, state.rank);
  for (const char* name :
       {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_WORLD_SIZE", "OMPI_MCA_num_procs"})
    set(name, state.size);
  for (const char* name :
       {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_WORLD_LOCAL_SIZE"})
    set(name, split.local_ranks);
}

template <class... Arguments>
void call_native(const tutti_preload& preload, const char* name, Arguments... arguments) {
  void* const found = preload.find(name);
  int (*function)(Arguments...) = nullptr;
  std::memcpy(&function, &found, sizeof found);
  if (function != nullptr) function(arguments...);
}

/// What the MPI tells of how the program was started, where it tells a number of processes.
void set_environment_info(const tutti_preload& preload) {
  const std::string all = std::to_string(split.size), apps = std::to_string(state.size);
  for (const char* key : {"maxprocs", "soft", "ompi_np"}) {
    char value[kLongestNumber] = "";
    int found = 0;
    call_native(preload, "PMPI_Info_get", MPI_INFO_ENV, key, static_cast<int>(sizeof value) - 1,
                &value[0], &found);
    if (found != 0 && value == all)
      call_native(preload, "PMPI_Info_set", MPI_INFO_ENV, key, apps.c_str());
  }
}

/// Open MPI 5 duplicates the world of the whole job when a process first asks for partitioned
/// communication, which the dedicated ones never would. So all do now: a message to itself.
void begin_partitioned(const tutti_preload& preload) {
  if (!Abi::kPartitionedCopiesWorld || preload.find("PMPI_Psend_init") == nullptr) return;
  char from = 0, to = 0;
  MPI_Request requests[2];
  call_native(preload, "PMPI_Psend_init", &from, 1, MPI_Count{1}, MPI_BYTE, 0, 0, MPI_COMM_SELF,
              MPI_INFO_NULL, &requests[0]);
  call_native(preload, "PMPI_Precv_init", &to, 1, MPI_Count{1}, MPI_BYTE, 0, 0, MPI_COMM_SELF,
              MPI_INFO_NULL, &requests[1]);
  call_native(preload, "PMPI_Startall", 2, &requests[0]);
  call_native(preload, "PMPI_Pready", 0, requests[0]);
  for (MPI_Request& request : requests) {
    call_native(preload, "PMPI_Wait", &request, MPI_STATUS_IGNORE);
    call_native(preload, "PMPI_Request_free", &request);
  }
}

/// What exit() does for the MPI's library, and for nothing else: MPICH tells its launcher in an
/// exit handler that the process ends in good order. Only that library's handlers hang on its end.
void run_exit_handlers(const tutti_preload& preload) {
  if constexpr (!Abi::kEndsInExitHandler) return;
  Dl_info info;
  link_map* library = nullptr;
  if (dladdr1(preload.find("PMPI_Finalize"), &info, reinterpret_cast<void**>(&library),
              RTLD_DL_LINKMAP) == 0)
    return;
  const ElfW(Addr)* ends = nullptr;
  std::size_t bytes = 0;
  for (const ElfW(Dyn)* entry = library->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_FINI_ARRAY)
      ends = reinterpret_cast<const ElfW(Addr)*>(library->l_addr + entry->d_un.d_ptr);
    if (entry->d_tag == DT_FINI_ARRAYSZ) bytes = entry->d_un.d_val;
  }
  for (std::size_t i = ends == nullptr ? 0 : bytes / sizeof *ends; i-- > 0;)
    reinterpret_cast<void (*)()>(ends[i])();
}

/// A dedicated processor's life. It ends like a process whose program has called MPI_Finalize, but
/// runs nothing of the program's.
[[noreturn]] void serve(const tutti_preload& preload) {
  const bool in_order = state.job->serve();
  if (!in_order) {
    sleep(kLauncherS);
    log(LogLevel::error,
        "dedicated processor %d: a process that it serves ended without MPI_Finalize; the job is "
        "aborted",
        state.rank - state.size);
    call_native(preload, "PMPI_Abort", MPI_COMM_WORLD, 1);
  }
  state.job.reset();
  native.Comm_free(&state.pump_comm);
  call_native(preload, "PMPI_Finalize");
  std::fflush(nullptr);  // what the program has printed before MPI_Init
  run_exit_handlers(preload);
  _exit(0);
}

}  // namespace

bool is_spawned() {
  MPI_Comm parent = MPI_COMM_NULL;
  return native.Comm_get_parent(&parent) == MPI_SUCCESS && parent != MPI_COMM_NULL;
}

bool split_off() noexcept { return split.active; }

bool split_job() {
  const bool found = find_exported<tutti_split_begin_function>(TUTTI_SPLIT_BEGIN) != nullptr;
  if (!all_ranks(found)) {
    say_once(
        !found,
        "TUTTI_DCP_FROM_JOB needs libtutti-split to be preloaded; use tutti run --dcp-from-job");
    return false;
  }
  offload::Ratio ratio;
  std::string message;
  std::vector<int> counts, wanted;
  bool even = true;
  const auto all = introduce_all();
  const auto nodes = nodes_of(all);
  for (const auto& node : nodes) counts.push_back(static_cast<int>(node.size()));
  // Parsed before, and equal on all ranks.
  static_cast<void>(offload::parse_ratio(state.settings.dcp, &ratio, &message));
  if (!offload::processors_among(ratio, counts, &wanted, &even, &message).ok()) {
    say_once(true, message.c_str());
    return false;
  }
  choose(nodes, wanted);
  take_place(all);
  const int rank = state.rank;
  renumber();
  if (!even) say_what_was_chosen();
  native.Comm_split(MPI_COMM_WORLD, split.processor ? MPI_UNDEFINED : 0, rank, &world_handle);
  native.Comm_split(MPI_COMM_WORLD, 0, state.rank, &state.pump_comm);
  split.active = true;
  return true;
}

void undo_split() {
  if (!split.active) return;
  if (world_handle != MPI_COMM_NULL) native.Comm_free(&world_handle);
  world_handle = MPI_COMM_WORLD;
  split = Split{};
}

Status join_processors(Host* host, std::string* message) {
  host->size = split.size;
  host->apps = state.size;
  if (!split.processor) return Status::success();
  host->pump = nullptr;
  const Status settled = offload::settle(split.place, state.settings);
  if (!settled.ok()) *message = settled.detail;
  return settled;
}

void begin_split(const tutti_preload& preload) {
  begin_partitioned(preload);
  if (split.processor) serve(preload);
  auto* const begin = find_exported<tutti_split_begin_function>(TUTTI_SPLIT_BEGIN);
  tutti_split worlds{};
  const MPI_Comm real = MPI_COMM_WORLD;
  std::memcpy(&worlds.world, &real, sizeof real);
  std::memcpy(&worlds.apps, &world_handle, sizeof world_handle);
  worlds.handle_bytes = sizeof(MPI_Comm);
  worlds.processors = split.processors.data();
  worlds.processor_count = static_cast<int>(split.processors.size());
  if (begin(&worlds) == 0) {
    log(LogLevel::error, "no memory for the program's world; the job is aborted");
    call_native(preload, "PMPI_Abort", MPI_COMM_WORLD, 1);
  }
  native.Comm_set_name(world_handle, "MPI_COMM_WORLD");
  set_launcher_variables();
  set_environment_info(preload);
}

void end_split() {
  if (!split.active) return;
  native.Comm_free(&world_handle);
  find_exported<tutti_split_end_function>(TUTTI_SPLIT_END)();
}

}  // namespace tutti::mpi
