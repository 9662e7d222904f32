// Start and end of the plugin: everything that all ranks must agree on before tutti takes a single
// call.
#include <pthread.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "mpi/plugin/agree.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/datatype.hpp"
#include "mpi/plugin/ending.hpp"
#include "mpi/plugin/exported.hpp"
#include "mpi/plugin/held.hpp"
#include "mpi/plugin/meeting.hpp"
#include "mpi/plugin/message_trial.hpp"
#include "mpi/plugin/messages.hpp"
#include "mpi/plugin/plan.hpp"
#include "mpi/plugin/profiling.hpp"
#include "mpi/plugin/record.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/split.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/plugin/windows.hpp"
#include "mpi/revoke/revoke_api.h"
#include "offload/mapping.hpp"

namespace tutti::mpi {

State state;

namespace {

int finalize_keyval = MPI_KEYVAL_INVALID;

/// All processes in the order of the job's ranks. Only for MPI_Init: until that returns nobody else
/// uses the world, whose collectives the MPI has set up already; Intel MPI takes 0.1 s to do that
/// for another communicator.
MPI_Comm everybody() noexcept { return split_off() ? state.pump_comm : MPI_COMM_WORLD; }

Status host_allgather(void*, const void* in, void* out, std::size_t bytes) {
  if (bytes > INT_MAX) return Status::error(Code::invalid_argument, "bootstrap message too large");
  const int count = static_cast<int>(bytes);
  const int code = native.Allgather(in, count, MPI_BYTE, out, count, MPI_BYTE, everybody());
  return code == MPI_SUCCESS ? Status::success()
                             : Status::error(Code::internal, "the MPI's allgather failed");
}

void host_pump(void*) { pump_host(); }

void host_waits(void*) { state.note_early(lane_here()); }

bool is_multiple(int thread_level) { return thread_level == MPI_THREAD_MULTIPLE; }

// False on all ranks, after a line that names the setting, when one is not as it must be: every
// difference in how ranks talk to each other would be a hang or worse.
bool same_settings() {
  const std::vector<SharedSetting> shared = shared_settings(state.settings);
  std::vector<std::uint64_t> values;
  for (const SharedSetting& one : shared) values.push_back(hash_of(one.value));
  const std::size_t different = first_difference(values);
  if (different == values.size()) return true;
  say_once(true, ("the ranks have different settings: " + shared[different].name +
                  " must be equal on all ranks")
                     .c_str());
  return false;
}

std::uint64_t version() { return hash_of(TUTTI_VERSION) ^ TUTTI_MPI_TABLE_SIGNATURE; }

// Whether nothing is wrong on any rank, in one exchange: with more ranks than cores each takes an
// MPI milliseconds. `mine`: whether nothing is on this one.
bool all_is_well(bool mine) {
  std::string settings;
  for (const SharedSetting& one : shared_settings(state.settings)) settings += one.value + '\n';
  static_assert(3 * kIntsPerValue == TUTTI_FIRST_EXCHANGE_INTS);
  return first_difference({mine, version(), hash_of(settings)}) == 3 && mine;
}

// The second exchange of TUTTI_FIRST_EXCHANGE_INTS; who has no plugin has said why.
bool all_have_plugins() {
  if (all_ranks(true)) return true;
  if (state.rank == 0)
    log(LogLevel::error, "another rank could not load tutti; the program runs on its own MPI");
  return false;
}

// What is wrong on some rank, step by step, and one line that says it. False on all ranks.
bool find_what_is_wrong(bool loaded, const std::string& message) {
  if (!all_ranks(loaded)) {
    say_once(!loaded, message.c_str());
    return false;
  }
  if (!all_ranks(!state.settings.disable)) {
    if (!all_ranks(state.settings.disable))
      say_once(state.settings.disable, "some ranks have TUTTI_DISABLE, and others have not");
    return false;
  }
  if (!all_ranks(!Abi::is_fault_tolerant())) {
    say_once(Abi::is_fault_tolerant(),
             "Open MPI runs with fault tolerance (--with-ft), of which the program's calls are a "
             "part; the program runs on its own MPI");
    return false;
  }
  if (!equal_on_all_ranks(version())) {
    say_once(true, "the ranks run different versions of tutti");
    return false;
  }
  return same_settings();
}

// False on all ranks when one has a preload of another version, or an MPI without a function.
bool fits(const tutti_preload& preload, const char* missing) {
  const bool same = preload.signature == TUTTI_MPI_TABLE_SIGNATURE;
  if (all_ranks(same && missing == nullptr)) return true;
  const std::string text =
      !same ? std::string(preload.plugin_path) + " is of another version than the preload"
            : std::string("this MPI has no ") + (missing != nullptr ? missing : "");
  say_once(!same || missing != nullptr, text.c_str());
  return false;
}

// Settings and versions, which every rank reads for itself. False on all ranks when one has a
// problem.
bool agree_on_settings(const tutti_preload& preload, const char* missing) {
  std::string message;
  const bool loaded = load_settings(&state.settings, &message).ok();
  log_setup(loaded ? state.settings.log : LogLevel::warn, state.rank);
  const bool mine = preload.signature == TUTTI_MPI_TABLE_SIGNATURE && missing == nullptr &&
                    loaded && !state.settings.disable && !Abi::is_fault_tolerant();
  if (!all_is_well(mine) &&
      !(all_have_plugins() && fits(preload, missing) && find_what_is_wrong(loaded, message)))
    return false;
  offload::Ratio ratio;
  if (!state.settings.dcp.empty() &&
      !offload::parse_ratio(state.settings.dcp, &ratio, &message).ok()) {
    say_once(true, message.c_str());
    return false;
  }
  if (state.settings.dcp_from_job && state.settings.dcp.empty()) {
    say_once(true,
             "TUTTI_DCP_FROM_JOB needs TUTTI_DCP: a number of dedicated processors for each node "
             "(1), or a ratio to the program's processes (1:4)");
    return false;
  }
  return true;
}

// The helpers that TUTTI_DCP asks for; `*host` is then the job with them.
Status start_processors(Host* host, const std::string& folder, std::string* message) {
  TUTTI_TRY(offload::Processors::start(*host, state.settings, folder + "/tutti-dcp",
                                       &state.processors, message));
  *host = state.processors->host();
  return Status::success();
}

bool create_job(const std::string& folder) {
  Host host;
  host.rank = state.rank;
  host.size = state.size;
  host.allgather = &host_allgather;
  host.pump = &host_pump;
  host.waits = &host_waits;
  host.host_serves = &serves_others;
  host.has_collectives = true;
  host.version = library_version();
  host.may_have_gpus = may_get_spaces();
  std::string message;
  Status status;
  if (split_off()) status = join_processors(&host, &message);
  if (!split_off() && !state.settings.dcp.empty())
    status = start_processors(&host, folder, &message);
  // What only a processor of the job is asked, Job::create's exchanges must not wait for.
  const bool joined = !split_off() || all_ranks(status.ok());
  if (joined && status.ok()) status = Job::create(host, state.threads, &state.job);
  // Job::create() fails everywhere, but a dedicated processor can be lost to one rank alone.
  const bool created =
      joined && (state.settings.dcp.empty() ? status.ok() : all_ranks(status.ok()));
  if (!created) {
    if (message.empty()) message = status.detail != nullptr ? status.detail : name(status.code);
    say_once(!status.ok(), ("cannot start: " + message).c_str());
    state.job.reset();
    state.processors.reset();
  }
  return created;
}

void* on_revoke(void* comm) {
  auto revoked = handle_from<MPI_Comm>(key(comm));
  if (split_off() && revoked == MPI_COMM_WORLD) revoked = world_handle;
  forget(revoked);
  return handle_from<void*>(key(revoked));
}

// libtutti-revoke is there when `tutti run` found an MPI that has MPIX_Comm_revoke.
void watch_revocations(bool watch) {
  if constexpr (!Abi::kRevokes) return;
  auto* const set = find_exported<tutti_set_revoked_function>(TUTTI_SET_REVOKED);
  if (set != nullptr) set(watch ? &on_revoke : nullptr);
}

void free_world_copies() {
  if (state.world_group != MPI_GROUP_NULL) native.Group_free(&state.world_group);
  if (state.report_comm != MPI_COMM_NULL && state.report_comm != state.pump_comm)
    native.Comm_free(&state.report_comm);
  native.Comm_free(&state.pump_comm);
}

void remove_handlers() noexcept {
  for (int i = 0; i < TUTTI_MPI_FUNCTION_COUNT; ++i) {
    __atomic_store_n(&state.handlers[i], nullptr, __ATOMIC_RELEASE);
  }
}

// Undoes everything; the MPI still works. Runs inside MPI_Finalize, last of the attributes'
// callbacks.
void detach() {
  const double run = state.report ? now() - state.began : 0;  // without waiting for the last rank
  note_finalize();
  remove_handlers();
  watch_revocations(false);
  destroy_requests();
  forget_spaces();
  // The MPI's own collectives would poll for whoever comes late.
  if (state.job && (state.report || state.processors)) meet();
  if (state.report) write_report(run);
  if (state.job && state.rank == 0) state.job->keep_learnt();
  destroy_comms();
  destroy_types();
  state.messages = nullptr;
  // Others may still need the dedicated processors that this rank has started; those of the job
  // serve until the last one leaves, while the MPI's own MPI_Finalize would poll.
  if (state.processors || (state.job && split_off())) meet();
  state.job.reset();
  state.processors.reset();
  free_world_copies();
  end_split();
  end_record();
}

// A forked child has sockets of the job's, but neither its memory nor its threads: whatever it
// calls goes to its MPI, and nothing of its parent's is cleaned up or rung by it.
void leave_to_parent() noexcept {
  remove_handlers();
  leave_record();
}

int on_finalize(MPI_Comm, int, void*, void*) {
  if (getpid() == state.process) detach();
  return MPI_SUCCESS;
}

int never_copy(MPI_Comm, int, void*, void*, void*, int* flag) {
  *flag = 0;
  return MPI_SUCCESS;
}

void install_handlers() {
  void* handlers[TUTTI_MPI_FUNCTION_COUNT] = {};
  install_collectives(handlers);
  install_completion(handlers);
  install_status_queries(handlers);
  install_starts(handlers);
  install_comms(handlers);
  install_held(handlers);
  install_passed(handlers);
  if (state.messages != nullptr) install_messages(handlers);
  install_windows(handlers);
  for (int i = 0; i < TUTTI_MPI_FUNCTION_COUNT; ++i) {
    __atomic_store_n(&state.handlers[i], handlers[i], __ATOMIC_RELEASE);
  }
}

// The communicators that everything else is made with. False on all ranks, after a line that says
// why, when the job cannot be split as asked.
bool take_world() {
  if (state.settings.dcp_from_job && !split_job()) return false;
  if (!split_off()) native.Comm_dup(MPI_COMM_WORLD, &state.pump_comm);
  native.Comm_set_errhandler(state.pump_comm, MPI_ERRORS_RETURN);
  if (world_handle == MPI_COMM_NULL) return true;
  native.Comm_group(world_handle, &state.world_group);
  state.report_comm = state.pump_comm;
  if (split_off() && state.report) native.Comm_dup(world_handle, &state.report_comm);
  return true;
}

void give_world_back() {
  free_world_copies();
  undo_split();
  destroy_types();
}

bool attach(const tutti_preload& preload, const char* missing) {
  state.handlers = preload.handlers;
  state.lane = preload.lane;
  state.note_early = preload.note_early;
  state.threads = is_multiple(preload.thread_level);
  state.world_group = MPI_GROUP_NULL;
  state.report_comm = MPI_COMM_NULL;
  world_handle = MPI_COMM_WORLD;
  native.Comm_rank(MPI_COMM_WORLD, &state.rank);
  native.Comm_size(MPI_COMM_WORLD, &state.size);
  if (!agree_on_settings(preload, missing)) return false;
  if (is_spawned()) state.settings.dcp_from_job = false;  // its parents have split already
  state.report = !state.settings.report.empty() || !state.settings.report_json.empty();
  state.attends = state.report || state.settings.check == Check::calls;
  if (state.size < 2 && !state.report && !state.settings.dcp_from_job)
    return false;  // nothing to do, nothing to say
  if (!take_world()) return false;
  create_types(state.settings.fixed_order == FixedOrder::exact);
  learn_argument_checks();
  const std::string plugin = preload.plugin_path;
  const bool alone = state.size < 2 && !split_off();
  if (!alone && !create_job(plugin.substr(0, plugin.rfind('/')))) {
    give_world_back();
    return false;
  }
  if (split_off()) begin_split(preload);
  state.process = getpid();
  pthread_atfork(nullptr, nullptr, &leave_to_parent);
  // Set first on MPI_COMM_SELF, so its callback runs last of all when MPI_Finalize begins.
  native.Comm_create_keyval(&never_copy, &on_finalize, &finalize_keyval, nullptr);
  native.Comm_set_attr(MPI_COMM_SELF, finalize_keyval, nullptr);
  if (state.job && takes_messages()) state.messages = &state.job->messages();
  begin_record(preload);
  if (state.report) begin_profile();
  create_world();
  watch_revocations(true);
  watch_spaces();
  install_handlers();
  if (state.report) state.began = now();
  if (state.rank == 0) leave_note();
  return true;
}

}  // namespace

void pump_host() noexcept {
  if (another_ends_process()) [[unlikely]]
    return;
  int flag = 0;
  note_awaited();
  native.Iprobe(MPI_ANY_SOURCE, 0, state.pump_comm, &flag, MPI_STATUS_IGNORE);
}

}  // namespace tutti::mpi

extern "C" __attribute__((visibility("default"))) int tutti_mpi_attach(
    const tutti_preload* preload) {
  using namespace tutti::mpi;
  const char* missing = load_native(*preload);
  return attach(*preload, missing);
}
