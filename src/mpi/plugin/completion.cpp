// Wait, Test, Start and the other functions on requests, for arrays that mix tutti's requests and
// the MPI's. The MPI is never asked to block while one of tutti's is open: its engine would not
// progress ours.
#include <vector>

#include "mpi/plugin/errors.hpp"
#include "mpi/plugin/messages.hpp"
#include "mpi/plugin/pending.hpp"
#include "mpi/plugin/record.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

// Null pointers are errors, which the MPI reports.
bool points_to_own(const MPI_Request* request) { return request != nullptr && is_own(*request); }

bool any_own(int count, const MPI_Request* requests) {
  if (requests == nullptr) return false;
  for (int i = 0; i < count; ++i) {
    if (is_own(requests[i])) return true;
  }
  return false;
}

// What MPI says of a request without anything to report. MPI_ERROR stays as it is: only calls that
// return MPI_ERR_IN_STATUS set it.
void set_empty(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  const int error = status->MPI_ERROR;
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  native.Status_set_elements(status, MPI_BYTE, 0);
  native.Status_set_cancelled(status, 0);
  status->MPI_ERROR = error;
}

MPI_Status* at(MPI_Status* statuses, int index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + index;
}

// What becomes of a request: its outcome, and where an error is to be reported.
struct Finished {
  Status outcome;
  MPI_Comm comm{};  // set with an error
};

// Puts the result of a collective that is over into the user's memory, once.
Status settle_collective(Request& request) {
  Status outcome;
  state.job->test(*request.operation, &outcome);
  if (!outcome.ok() || request.settled) return outcome;
  outcome = request.plan.finish();
  request.settled = outcome.ok();
  return outcome;
}

// Completes a request whose operation is over, as the program sees it: data are unpacked, the
// handle becomes null or inactive. The error handler has not been called.
Finished finish(MPI_Request* handle, MPI_Status* status) {
  Request* request = request_of(*handle);
  Finished result;
  if (request->pending != nullptr) [[unlikely]]
    check_buffers(*request);
  if (request->at_once) {
    describe_at_once(*request, status);
    free_request(request);
    *handle = MPI_REQUEST_NULL;
    return result;
  }
  if (request->started && request->transfer != nullptr) {
    result.outcome = settle_message(*request);
    describe_message(*request, status);
  } else {
    set_empty(status);
    if (request->started) result.outcome = settle_collective(*request);
  }
  request->started = false;
  if (!result.outcome.ok()) [[unlikely]] {
    result.comm = request->comm->handle;
    explain(*request->comm, request->call, result.outcome);
  }
  if (!request->persistent) {
    free_request(request);
    *handle = MPI_REQUEST_NULL;
  }
  return result;
}

// The same with the error handler, for calls that complete one request.
int finish_one(MPI_Request* handle, MPI_Status* status) {
  const Finished result = finish(handle, status);
  if (result.outcome.ok()) return MPI_SUCCESS;
  const int code = error_class(result.outcome);
  native.Comm_call_errhandler(result.comm, code);
  return code;
}

// The MPI's requests of a mixed array, by themselves, and the way back.
class NativePart {
 public:
  NativePart(int count, MPI_Request* requests) : all_(requests) {
    for (int i = 0; i < count; ++i) {
      if (is_own(requests[i])) continue;
      where_.push_back(i);
      requests_.push_back(requests[i]);
    }
    statuses_.resize(requests_.size());
  }

  int count() const { return static_cast<int>(requests_.size()); }
  MPI_Request* requests() { return requests_.data(); }
  MPI_Status* statuses() { return statuses_.data(); }
  int index(int mine) const { return where_[static_cast<std::size_t>(mine)]; }

  void write_back() {
    for (std::size_t i = 0; i < where_.size(); ++i) all_[where_[i]] = requests_[i];
  }
  // Status `mine` of the MPI's to `to`.
  void copy_status(int mine, MPI_Status* to) const {
    if (to != MPI_STATUS_IGNORE) *to = statuses_[static_cast<std::size_t>(mine)];
  }

 private:
  MPI_Request* all_;
  std::vector<int> where_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
};

// The answer of calls that complete several requests: one error code, details in the statuses.
class Outcomes {
 public:
  explicit Outcomes(MPI_Status* statuses) : statuses_(statuses) {}

  void add(int position, const Finished& result) {
    const bool ok = result.outcome.ok();
    if (statuses_ != MPI_STATUSES_IGNORE)
      own_.push_back({position, ok ? MPI_SUCCESS : error_class(result.outcome)});
    if (!ok) comm_ = result.comm, failed_ = true;
  }

  // `code` is what the MPI said of its part, whose statuses are at `native_positions`.
  int result(int code, const std::vector<int>& native_positions) {
    if (!failed_ && code != MPI_ERR_IN_STATUS) return code;
    if (statuses_ != MPI_STATUSES_IGNORE) {
      for (const auto& [position, error] : own_) statuses_[position].MPI_ERROR = error;
      if (code == MPI_SUCCESS) {
        for (const int position : native_positions) statuses_[position].MPI_ERROR = MPI_SUCCESS;
      }
    }
    if (failed_) native.Comm_call_errhandler(comm_, MPI_ERR_IN_STATUS);
    return MPI_ERR_IN_STATUS;
  }

 private:
  struct Own {
    int position;
    int error;
  };
  MPI_Status* statuses_;
  std::vector<Own> own_;
  MPI_Comm comm_{};
  bool failed_ = false;
};

// One round of waiting for anything to happen.
void relax(std::uint32_t* round) {
  if (comparing()) [[unlikely]]
    look_at_comparisons();
  state.job->relax((*round)++);
  pump_host();
}

void wait_for(Request& request) {
  if (!request.started || request.at_once) return;
  if (request.transfer != nullptr) return wait_for_message(request);
  note_wait(request);
  for (std::uint32_t round = 0; comparing() && !is_complete(request);) relax(&round);
  static_cast<void>(state.job->wait(*request.operation).ok());  // asked for again in finish()
}

void expect_all(int count, MPI_Request* requests) {
  for (int i = 0; i < count; ++i) {
    if (!is_own(requests[i])) continue;
    Request& request = *request_of(requests[i]);
    if (request.started && request.transfer != nullptr) expect_message(request);
  }
}

// Before the MPI is asked about requests of its own: programs poll, and what tutti has under way
// must move on.
void progress_own() {
  if (state.job != nullptr) state.job->progress();
}

// Whether an own request is over. Progresses both engines when it is not: programs poll.
bool look(MPI_Request handle) {
  const Request& request = *request_of(handle);
  if (comparing()) [[unlikely]]
    look_at_comparisons();
  if (is_complete(request)) return true;
  state.job->progress();
  pump_host();
  return is_complete(request);
}

int handle_Wait(MPI_Request* request, MPI_Status* status) {
  const WaitTimer timer("MPI_Wait");
  if (!points_to_own(request)) {
    const NativeCall inside;
    return native.Wait(request, status);
  }
  wait_for(*request_of(*request));
  return finish_one(request, status);
}

int handle_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  if (!points_to_own(request)) {
    progress_own();
    return native.Test(request, flag, status);
  }
  *flag = look(*request);
  return *flag ? finish_one(request, status) : MPI_SUCCESS;
}

// ---- all

// Completes all own requests of the array, which are over.
void finish_all(int count, MPI_Request* requests, MPI_Status* statuses, Outcomes* outcomes) {
  for (int i = 0; i < count; ++i) {
    if (is_own(requests[i])) outcomes->add(i, finish(&requests[i], at(statuses, i)));
  }
}

std::vector<int> positions(const NativePart& part) {
  std::vector<int> result;
  result.reserve(static_cast<std::size_t>(part.count()));
  for (int i = 0; i < part.count(); ++i) result.push_back(part.index(i));
  return result;
}

void copy_statuses(const NativePart& part, MPI_Status* statuses) {
  for (int i = 0; i < part.count(); ++i) part.copy_status(i, at(statuses, part.index(i)));
}

int handle_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  const WaitTimer timer("MPI_Waitall");
  if (!any_own(count, requests)) {
    const NativeCall inside;
    return native.Waitall(count, requests, statuses);
  }
  // Waiting for ours pumps the host, so the order does not matter.
  if (count > 1) expect_all(count, requests);
  int own = 0;
  for (int i = 0; i < count; ++i) {
    if (!is_own(requests[i])) continue;
    ++own;
    wait_for(*request_of(requests[i]));
  }
  Outcomes outcomes(statuses);
  if (own == count) {
    finish_all(count, requests, statuses, &outcomes);
    return outcomes.result(MPI_SUCCESS, {});
  }
  NativePart part(count, requests);
  finish_all(count, requests, statuses, &outcomes);
  int code = MPI_SUCCESS;
  {
    const NativeCall inside;
    code = native.Waitall(part.count(), part.requests(), part.statuses());
  }
  part.write_back();
  copy_statuses(part, statuses);
  return outcomes.result(code, positions(part));
}

int handle_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses) {
  if (!any_own(count, requests)) {
    progress_own();
    return native.Testall(count, requests, flag, statuses);
  }
  state.job->progress();
  for (int i = 0; i < count; ++i) {
    if (!is_own(requests[i]) || is_complete(*request_of(requests[i]))) continue;
    pump_host();
    *flag = 0;
    return MPI_SUCCESS;
  }
  NativePart part(count, requests);
  int code = MPI_SUCCESS;
  *flag = 1;
  if (part.count() > 0) code = native.Testall(part.count(), part.requests(), flag, part.statuses());
  if (!*flag) return code;
  Outcomes outcomes(statuses);
  finish_all(count, requests, statuses, &outcomes);
  part.write_back();
  copy_statuses(part, statuses);
  return outcomes.result(code, positions(part));
}

// ---- any

// What an array has to offer to Waitany and Testany.
enum class Offer { nothing_active, pending, completed };

Offer test_any(int count, MPI_Request* requests, NativePart* part, int* index, MPI_Status* status,
               int* code) {
  state.job->progress();
  bool live = false;
  *code = MPI_SUCCESS;
  for (int i = 0; i < count; ++i) {
    if (!is_own(requests[i]) || !request_of(requests[i])->started) continue;
    live = true;
    if (!is_complete(*request_of(requests[i]))) continue;
    *index = i;
    *code = finish_one(&requests[i], status);
    return Offer::completed;
  }
  int flag = 0, mine = MPI_UNDEFINED;
  if (part->count() > 0) {
    *code = native.Testany(part->count(), part->requests(), &mine, &flag, status);
    if (*code != MPI_SUCCESS || (flag && mine != MPI_UNDEFINED)) {
      part->write_back();
      *index = mine == MPI_UNDEFINED ? MPI_UNDEFINED : part->index(mine);
      return Offer::completed;
    }
    if (!flag) live = true;
  }
  return live ? Offer::pending : Offer::nothing_active;
}

int handle_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  const WaitTimer timer("MPI_Waitany");
  if (!any_own(count, requests)) {
    const NativeCall inside;
    return native.Waitany(count, requests, index, status);
  }
  NativePart part(count, requests);
  int code = MPI_SUCCESS;
  for (std::uint32_t round = 0;;) {
    const Offer offer = test_any(count, requests, &part, index, status, &code);
    if (offer == Offer::completed) return code;
    if (offer == Offer::nothing_active) {
      *index = MPI_UNDEFINED;
      set_empty(status);
      return MPI_SUCCESS;
    }
    relax(&round);
  }
}

int handle_Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status) {
  if (!any_own(count, requests)) {
    progress_own();
    return native.Testany(count, requests, index, flag, status);
  }
  NativePart part(count, requests);
  int code = MPI_SUCCESS;
  const Offer offer = test_any(count, requests, &part, index, status, &code);
  *flag = offer != Offer::pending;
  if (offer != Offer::completed) *index = MPI_UNDEFINED;
  if (offer == Offer::nothing_active) set_empty(status);
  return code;
}

// ---- some

// Completes all that is over. `*outcount` is MPI_UNDEFINED when nothing is active.
int test_some(int count, MPI_Request* requests, NativePart* part, int* outcount, int* indices,
              MPI_Status* statuses) {
  state.job->progress();
  Outcomes outcomes(statuses);
  std::vector<int> native_positions;
  bool live = false;
  int done = 0;
  for (int i = 0; i < count; ++i) {
    if (!is_own(requests[i]) || !request_of(requests[i])->started) continue;
    live = true;
    if (!is_complete(*request_of(requests[i]))) continue;
    indices[done] = i;
    outcomes.add(done, finish(&requests[i], at(statuses, done)));
    ++done;
  }
  int code = MPI_SUCCESS, found = MPI_UNDEFINED;
  std::vector<int> mine(static_cast<std::size_t>(part->count()));
  if (part->count() > 0) {
    code = native.Testsome(part->count(), part->requests(), &found, mine.data(), part->statuses());
    part->write_back();
  }
  if (found != MPI_UNDEFINED) live = true;
  for (int k = 0; k < found && found != MPI_UNDEFINED; ++k, ++done) {
    indices[done] = part->index(mine[static_cast<std::size_t>(k)]);
    part->copy_status(k, at(statuses, done));
    native_positions.push_back(done);
  }
  *outcount = live ? done : MPI_UNDEFINED;
  return outcomes.result(code, native_positions);
}

int handle_Waitsome(int count, MPI_Request* requests, int* outcount, int* indices,
                    MPI_Status* statuses) {
  const WaitTimer timer("MPI_Waitsome");
  if (!any_own(count, requests)) {
    const NativeCall inside;
    return native.Waitsome(count, requests, outcount, indices, statuses);
  }
  NativePart part(count, requests);
  for (std::uint32_t round = 0;; relax(&round)) {
    const int code = test_some(count, requests, &part, outcount, indices, statuses);
    if (code != MPI_SUCCESS || *outcount != 0) return code;
  }
}

int handle_Testsome(int count, MPI_Request* requests, int* outcount, int* indices,
                    MPI_Status* statuses) {
  if (!any_own(count, requests)) {
    progress_own();
    return native.Testsome(count, requests, outcount, indices, statuses);
  }
  NativePart part(count, requests);
  return test_some(count, requests, &part, outcount, indices, statuses);
}

// ---- queries that complete nothing

int handle_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  if (!is_own(request)) return native.Request_get_status(request, flag, status);
  *flag = look(request);
  Request& own = *request_of(request);
  if (own.at_once) {
    describe_at_once(own, status);
  } else if (*flag && own.started && own.transfer != nullptr) {
    static_cast<void>(settle_message(own).ok());  // its outcome is Wait's and Test's to tell
    describe_message(own, status);
  } else if (*flag) {
    if (own.started) static_cast<void>(settle_collective(own).ok());
    set_empty(status);
  }
  return MPI_SUCCESS;
}

int handle_Request_get_status_all(int count, const MPI_Request* requests, int* flag,
                                  MPI_Status* statuses) {
  if (!any_own(count, requests)) {
    return native.Request_get_status_all(count, requests, flag, statuses);
  }
  *flag = 1;
  for (int i = 0; i < count && *flag; ++i) {
    const int code = handle_Request_get_status(requests[i], flag, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) return code;
  }
  for (int i = 0; i < count && *flag && statuses != MPI_STATUSES_IGNORE; ++i) {
    int done = 0;
    const int code = handle_Request_get_status(requests[i], &done, &statuses[i]);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

// The MPI's requests of an array that is only looked at.
NativePart native_part(int count, const MPI_Request* requests) {
  return {count, const_cast<MPI_Request*>(requests)};
}

bool is_active_own(MPI_Request request) { return is_own(request) && request_of(request)->started; }

int handle_Request_get_status_any(int count, const MPI_Request* requests, int* index, int* flag,
                                  MPI_Status* status) {
  if (!any_own(count, requests)) {
    return native.Request_get_status_any(count, requests, index, flag, status);
  }
  bool live = false;
  for (int i = 0; i < count; ++i) {
    if (!is_active_own(requests[i])) continue;
    live = true;
    const int code = handle_Request_get_status(requests[i], flag, status);
    if (code == MPI_SUCCESS && !*flag) continue;
    *index = i;
    return code;
  }
  // Which of the MPI's are inactive only the MPI can say.
  NativePart part = native_part(count, requests);
  if (part.count() > 0) {
    int mine = MPI_UNDEFINED;
    const int code =
        native.Request_get_status_any(part.count(), part.requests(), &mine, flag, status);
    if (code != MPI_SUCCESS || (*flag && mine != MPI_UNDEFINED)) {
      *index = mine == MPI_UNDEFINED ? MPI_UNDEFINED : part.index(mine);
      return code;
    }
    if (!*flag) live = true;
  }
  *index = MPI_UNDEFINED;
  *flag = !live;
  if (!live) set_empty(status);
  return MPI_SUCCESS;
}

int handle_Request_get_status_some(int count, const MPI_Request* requests, int* outcount,
                                   int* indices, MPI_Status* statuses) {
  if (!any_own(count, requests)) {
    return native.Request_get_status_some(count, requests, outcount, indices, statuses);
  }
  bool live = false;
  *outcount = 0;
  for (int i = 0; i < count; ++i) {
    if (!is_active_own(requests[i])) continue;
    live = true;
    int flag = 0;
    const int code = handle_Request_get_status(requests[i], &flag, at(statuses, *outcount));
    if (code != MPI_SUCCESS) return code;
    if (flag) indices[(*outcount)++] = i;
  }
  NativePart part = native_part(count, requests);
  if (part.count() > 0) {
    int theirs = 0;
    std::vector<int> mine(static_cast<std::size_t>(part.count()));
    const int code = native.Request_get_status_some(part.count(), part.requests(), &theirs,
                                                    mine.data(), part.statuses());
    if (code != MPI_SUCCESS) return code;
    if (theirs != MPI_UNDEFINED) live = true;
    for (int i = 0; i < theirs; ++i) {
      part.copy_status(i, at(statuses, *outcount));
      indices[(*outcount)++] = part.index(mine[static_cast<std::size_t>(i)]);
    }
  }
  if (!live) *outcount = MPI_UNDEFINED;
  return MPI_SUCCESS;
}

// ---- start, cancel, free

int fail(Request* request, int code) {
  native.Comm_call_errhandler(request->comm != nullptr ? request->comm->handle : world_handle,
                              code);
  return code;
}

void watch_started(Request* request) {
  if (state.settings.check == Check::calls) [[unlikely]]
    watch_buffers(*request);
}

int handle_Start(MPI_Request* handle) {
  if (!points_to_own(handle)) return native.Start(handle);
  Request* request = request_of(*handle);
  if (!request->persistent || request->started) return fail(request, MPI_ERR_REQUEST);
  if (request->transfer != nullptr) {
    request->started = true;
    const Status status = start_message(*request);
    if (status.ok()) watch_started(request);
    return status.ok() ? MPI_SUCCESS : raise(*request->comm, request->call, status);
  }
  const double begin = state.report ? now() : 0;
  if (const Status ready = request->plan.begin(); !ready.ok())
    return raise(*request->comm, request->call, state.job->fail(*request->operation, ready));
  request->started = true;
  request->settled = false;
  const Status status = state.job->restart(*request->operation);
  if (state.report) {
    count_taken(request->call,
                state.job->algorithm(*request->comm->nonblocking, request->plan.call),
                request->plan.bytes(), now() - begin);
  }
  if (status.ok()) {
    watch_started(request);
    return MPI_SUCCESS;
  }
  request->started = false;
  return raise(*request->comm, request->call, status);
}

int handle_Startall(int count, MPI_Request* requests) {
  if (!any_own(count, requests)) return native.Startall(count, requests);
  for (int i = 0; i < count; ++i) {
    const int code = handle_Start(&requests[i]);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

// MPI does not allow it for collectives, nor for MPI_Isendrecv.
int handle_Cancel(MPI_Request* handle) {
  if (!points_to_own(handle)) return native.Cancel(handle);
  Request* request = request_of(*handle);
  if (request->at_once) return MPI_SUCCESS;  // too late
  if (request->transfer == nullptr || request->sending != nullptr)
    return fail(request, MPI_ERR_REQUEST);
  if (request->started) state.messages->cancel(*request->transfer);
  return MPI_SUCCESS;
}

int handle_Request_free(MPI_Request* handle) {
  if (!points_to_own(handle)) return native.Request_free(handle);
  abandon(request_of(*handle));
  *handle = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

// Of the MPI's own, but its barrier would have looked at what has arrived, and tutti's has not:
// some test first and look then.
int handle_Win_test(MPI_Win win, int* flag) {
  const int code = native.Win_test(win, flag);
  return code != MPI_SUCCESS || *flag ? code : native.Win_test(win, flag);
}

// ---- conversions

MPI_Fint handle_Request_c2f(MPI_Request handle) {
  return is_own(handle) ? fortran_index(*request_of(handle)) : native.Request_c2f(handle);
}

MPI_Request handle_Request_f2c(MPI_Fint index) {
  const Request* request = request_of_fortran(index);
  return request != nullptr ? handle_of(*request) : native.Request_f2c(index);
}

int handle_Request_toint(MPI_Request handle) {
  return is_own(handle) ? fortran_index(*request_of(handle)) : native.Request_toint(handle);
}

MPI_Request handle_Request_fromint(int index) {
  const Request* request = request_of_fortran(index);
  return request != nullptr ? handle_of(*request) : native.Request_fromint(index);
}

}  // namespace

void install_completion(void** handlers) noexcept {
#define TUTTI_INSTALL(name) handlers[TUTTI_MPI_##name] = reinterpret_cast<void*>(&handle_##name)
  TUTTI_INSTALL(Wait);
  TUTTI_INSTALL(Waitany);
  TUTTI_INSTALL(Waitall);
  TUTTI_INSTALL(Waitsome);
  TUTTI_INSTALL(Test);
  TUTTI_INSTALL(Testany);
  TUTTI_INSTALL(Testall);
  TUTTI_INSTALL(Testsome);
  TUTTI_INSTALL(Start);
  TUTTI_INSTALL(Startall);
  TUTTI_INSTALL(Cancel);
  TUTTI_INSTALL(Request_free);
  TUTTI_INSTALL(Request_get_status);
  TUTTI_INSTALL(Request_get_status_any);
  TUTTI_INSTALL(Request_get_status_all);
  TUTTI_INSTALL(Request_get_status_some);
  TUTTI_INSTALL(Win_test);
  TUTTI_INSTALL(Request_c2f);
  TUTTI_INSTALL(Request_f2c);
  TUTTI_INSTALL(Request_toint);
  TUTTI_INSTALL(Request_fromint);
#undef TUTTI_INSTALL
}

}  // namespace tutti::mpi
