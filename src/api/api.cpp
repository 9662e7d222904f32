// The C API over the core.
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "api/handles.hpp"
#include "base/exact_sum.hpp"

using tutti::Call;
using tutti::Coll;
using tutti::Job;
using tutti::Parcels;
using tutti::Reduction;
using tutti::Status;
using tutti::api::code;

namespace {

static_assert(static_cast<int>(TUTTI_ERR_INTERNAL) == static_cast<int>(tutti::Code::internal));
static_assert(static_cast<int>(TUTTI_EXSCAN) == static_cast<int>(Coll::exscan));
static_assert(static_cast<int>(TUTTI_NEIGHBOR_ALLTOALLW) ==
              static_cast<int>(Coll::neighbor_alltoallw));
static_assert(static_cast<int>(TUTTI_MAXLOC) == static_cast<int>(tutti::Op::maxloc));

tutti::Type type_of(tutti_type type) {
  using T = tutti::Type;
  static constexpr T kTypes[] = {T::i8,   T::i16,          T::i32,          T::i64,         T::u8,
                                 T::u16,  T::u32,          T::u64,          T::f16,         T::bf16,
                                 T::f32,  T::f64,          T::long_double,  T::c32,         T::c64,
                                 T::byte, T::pair_f32_i32, T::pair_f64_i32, T::pair_i32_i32};
  return type >= TUTTI_INT8 && type <= TUTTI_INT_INT ? kTypes[type] : T::count_;
}

bool reduces(tutti_collective collective) {
  switch (collective) {
    case TUTTI_REDUCE:
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE_SCATTER_BLOCK:
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_SCAN:
    case TUTTI_EXSCAN:
      return true;
    default:
      return false;
  }
}

/// Of whole elements: their sum.
tutti_status sum_counts(const tutti_call& call, int size, std::size_t element_bytes,
                        std::size_t* sum) {
  if (call.counts == nullptr) return TUTTI_ERR_ARGUMENT;
  std::size_t total = 0;
  for (int i = 0; i < size; ++i) {
    if (call.counts[i] % element_bytes != 0) return TUTTI_ERR_ARGUMENT;
    if (__builtin_add_overflow(total, call.counts[i], &total)) return TUTTI_ERR_TRUNCATED;
  }
  *sum = total;
  return TUTTI_OK;
}

/// A side of which the rank has a block for each member.
tutti_status add_all(const tutti_team& team, bool sends, void* base, const size_t* counts,
                     const size_t* displs, Parcels* out) {
  if (counts == nullptr || displs == nullptr) return TUTTI_ERR_ARGUMENT;
  for (int i = 0; i < team.size; ++i) {
    std::byte* const block = static_cast<std::byte*>(base) + displs[i];
    sends ? out->send(i, block, counts[i]) : out->receive(i, block, counts[i]);
  }
  return TUTTI_OK;
}

tutti_status translate_parcels(const tutti_team& team, const tutti_call& call, Parcels* out) {
  const bool root = call.root == team.rank;
  void* const send = const_cast<void*>(call.send);
  tutti_status status = TUTTI_OK;
  if (call.collective == TUTTI_GATHERV) {
    out->send(call.root, send, call.bytes);
  } else if (call.collective != TUTTI_SCATTERV || root) {
    status = add_all(team, true, send, call.send_counts, call.send_displs, out);
  }
  if (status != TUTTI_OK) return status;
  if (call.collective == TUTTI_SCATTERV) {
    out->receive(call.root, call.recv, call.bytes);
  } else if (call.collective != TUTTI_GATHERV || root) {
    status = add_all(team, false, call.recv, call.counts, call.displs, out);
  }
  out->arrange();
  return status;
}

/// Checks and translates a call. `*owned` must live as long as `*out`.
tutti_status translate(const tutti_team& team, const tutti_call& call, tutti::api::Owned* owned,
                       Call* out) try {
  Reduction* const reduction = &owned->reduction;
  if (call.collective < TUTTI_BARRIER || call.collective > TUTTI_NEIGHBOR_ALLTOALLW)
    return TUTTI_ERR_ARGUMENT;
  if (call.root < 0 || call.root >= team.size) return TUTTI_ERR_ARGUMENT;
  Call result;
  result.coll = static_cast<Coll>(call.collective);
  result.root = call.root;
  result.send = call.send;
  result.recv = call.recv;
  result.bytes = call.bytes;
  if (reduces(call.collective)) {
    const tutti::Type type = type_of(call.type);
    if (type == tutti::Type::count_ || call.op < TUTTI_SUM || call.op > TUTTI_MAXLOC)
      return TUTTI_ERR_ARGUMENT;
    if (!tutti::find_reduction(static_cast<tutti::Op>(call.op), type, reduction))
      return TUTTI_ERR_UNSUPPORTED;
    if (team.job->sums_exactly()) tutti::make_exact(reduction);
    result.reduction = reduction;
    if (call.collective == TUTTI_REDUCE_SCATTER) {
      result.counts = call.counts;
      if (const tutti_status status =
              sum_counts(call, team.size, reduction->element_bytes, &result.bytes))
        return status;
    } else {
      if (call.count > SIZE_MAX / reduction->element_bytes) return TUTTI_ERR_TRUNCATED;
      result.bytes = call.count * reduction->element_bytes;
    }
  } else if (tutti::has_parcels(result.coll)) {
    Parcels& parcels = owned->parcels.emplace(team.rank, team.size);
    if (const tutti_status status = translate_parcels(team, call, &parcels)) return status;
    result.parcels = &parcels;
    result.bytes = 0;
  } else if (call.collective == TUTTI_ALLGATHERV) {
    if (call.counts == nullptr || call.displs == nullptr) return TUTTI_ERR_ARGUMENT;
    result.counts = call.counts;
    result.displs = call.displs;
    result.bytes = std::accumulate(call.counts, call.counts + team.size, std::size_t{0});
  }
  *out = result;
  return TUTTI_OK;
} catch (const std::bad_alloc&) {
  return TUTTI_ERR_NO_MEMORY;
}

// What the core asks of a host, asked of the caller's bootstrap.
Status host_allgather(void* self, const void* in, void* out, std::size_t bytes) {
  const tutti_bootstrap& b = static_cast<tutti_job*>(self)->bootstrap;
  if (b.allgather(b.self, in, out, bytes) == 0) return Status::success();
  return Status::error(tutti::Code::internal, "the bootstrap's allgather failed");
}

void host_pump(void* self) {
  const tutti_bootstrap& b = static_cast<tutti_job*>(self)->bootstrap;
  b.pump(b.self);
}

tutti_status begin(tutti_team* team, const tutti_call* call, bool now, tutti_request** out) {
  if (team == nullptr || call == nullptr || out == nullptr) return TUTTI_ERR_ARGUMENT;
  std::unique_ptr<tutti_request> request(new (std::nothrow) tutti_request{team->job});
  if (!request) return TUTTI_ERR_NO_MEMORY;
  Call translated;
  if (const tutti_status status = translate(*team, *call, &request->owned, &translated))
    return status;
  const Status status = now ? team->job->start(*team->team, translated, &request->operation)
                            : team->job->prepare(*team->team, translated, &request->operation);
  if (!status.ok()) return code(status);
  *out = request.release();
  return TUTTI_OK;
}

}  // namespace

extern "C" {

tutti_status tutti_init(const tutti_bootstrap* bootstrap, int threads, tutti_job** out) {
  if (bootstrap == nullptr || out == nullptr || bootstrap->allgather == nullptr ||
      bootstrap->size < 1 || bootstrap->rank < 0 || bootstrap->rank >= bootstrap->size) {
    return TUTTI_ERR_ARGUMENT;
  }
  std::unique_ptr<tutti_job> job(new (std::nothrow) tutti_job{*bootstrap, nullptr});
  if (!job) return TUTTI_ERR_NO_MEMORY;
  tutti::Host host;
  host.rank = bootstrap->rank;
  host.size = bootstrap->size;
  host.self = job.get();
  host.allgather = &host_allgather;
  if (bootstrap->pump != nullptr) host.pump = &host_pump;
  const Status status = Job::create(host, threads != 0, &job->job);
  if (!status.ok()) return code(status);
  *out = job.release();
  return TUTTI_OK;
}

void tutti_finalize(tutti_job* job) { delete job; }

tutti_status tutti_team_create(tutti_job* job, uint64_t id, int rank, int size,
                               const int32_t* members, tutti_team** out) {
  if (job == nullptr || out == nullptr || size < 1 || rank < 0 || rank >= size)
    return TUTTI_ERR_ARGUMENT;
  std::vector<std::int32_t> all;
  if (members == nullptr) {
    all.resize(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    members = all.data();
  }
  std::unique_ptr<tutti_team> team(new (std::nothrow)
                                       tutti_team{job->job.get(), nullptr, rank, size});
  if (!team) return TUTTI_ERR_NO_MEMORY;
  constexpr std::uint64_t kApiTeam = 0x61706900;  // apart from ids made by other hosts of the core
  const Status status = job->job->create_team({{kApiTeam, id}, rank, size, members}, &team->team);
  if (!status.ok()) return code(status);
  *out = team.release();
  return TUTTI_OK;
}

void tutti_team_free(tutti_team* team) {
  if (team == nullptr) return;
  team->job->release_team(team->team);
  delete team;
}

int tutti_team_rank(const tutti_team* team) { return team->rank; }
int tutti_team_size(const tutti_team* team) { return team->size; }

tutti_status tutti_run(tutti_team* team, const tutti_call* call) {
  if (team == nullptr || call == nullptr) return TUTTI_ERR_ARGUMENT;
  tutti::api::Owned owned;
  Call translated;
  if (const tutti_status status = translate(*team, *call, &owned, &translated)) return status;
  return code(team->job->run(*team->team, translated));
}

tutti_status tutti_start(tutti_team* team, const tutti_call* call, tutti_request** out) {
  return begin(team, call, true, out);
}

tutti_status tutti_prepare(tutti_team* team, const tutti_call* call, tutti_request** out) {
  return begin(team, call, false, out);
}

tutti_status tutti_restart(tutti_request* request) {
  if (request == nullptr) return TUTTI_ERR_ARGUMENT;
  if (request->transfer != nullptr)
    return code(request->job->messages().restart(*request->transfer));
  if (active(*request->operation)) return TUTTI_ERR_ARGUMENT;
  return code(request->job->restart(*request->operation));
}

tutti_status tutti_test(tutti_request* request, int* done) {
  if (request == nullptr || done == nullptr) return TUTTI_ERR_ARGUMENT;
  Status outcome;
  bool over;
  if (request->transfer != nullptr) {
    tutti::Receipt receipt;
    over = request->job->messages().test(*request->transfer, &receipt);
    outcome = receipt.status;
  } else {
    over = request->job->test(*request->operation, &outcome);
  }
  *done = over ? 1 : 0;
  return over ? code(outcome) : TUTTI_OK;
}

tutti_status tutti_wait(tutti_request* request) {
  if (request == nullptr) return TUTTI_ERR_ARGUMENT;
  if (request->transfer != nullptr)
    return code(request->job->messages().wait(*request->transfer).status);
  return code(request->job->wait(*request->operation));
}

void tutti_request_free(tutti_request* request) {
  if (request == nullptr) return;
  if (request->transfer != nullptr) {
    request->job->messages().release(request->transfer);
    delete request;
    return;
  }
  // An active operation still points to what is in here, so it is seen to its end first.
  static_cast<void>(request->job->wait(*request->operation));
  request->job->release(request->operation);
  delete request;
}

tutti_status tutti_barrier(tutti_team* team) {
  tutti_call call{};
  call.collective = TUTTI_BARRIER;
  return tutti_run(team, &call);
}

tutti_status tutti_bcast(tutti_team* team, void* buffer, size_t bytes, int root) {
  tutti_call call{};
  call.collective = TUTTI_BCAST;
  call.recv = buffer;
  call.bytes = bytes;
  call.root = root;
  return tutti_run(team, &call);
}

tutti_status tutti_reduce(tutti_team* team, const void* send, void* recv, size_t count,
                          tutti_type type, tutti_op op, int root) {
  tutti_call call{};
  call.collective = TUTTI_REDUCE;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = type;
  call.op = op;
  call.root = root;
  return tutti_run(team, &call);
}

tutti_status tutti_allreduce(tutti_team* team, const void* send, void* recv, size_t count,
                             tutti_type type, tutti_op op) {
  tutti_call call{};
  call.collective = TUTTI_ALLREDUCE;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.type = type;
  call.op = op;
  return tutti_run(team, &call);
}

tutti_status tutti_allgather(tutti_team* team, const void* send, void* recv, size_t bytes) {
  tutti_call call{};
  call.collective = TUTTI_ALLGATHER;
  call.send = send;
  call.recv = recv;
  call.bytes = bytes;
  return tutti_run(team, &call);
}

const char* tutti_status_text(tutti_status status) {
  if (status < TUTTI_OK || status > TUTTI_ERR_INTERNAL) return "unknown status";
  return tutti::name(static_cast<tutti::Code>(status));
}

const char* tutti_version(void) { return TUTTI_VERSION; }

}  // extern "C"
