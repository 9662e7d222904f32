// Wait and Test in all their forms, for arrays that mix tutti's requests and the MPI's. The MPI is
// never asked to block while one of tutti's is open: its engine would not progress ours.
#include "mpi/plugin/completion.hpp"

#include <vector>

#include "mpi/plugin/errors.hpp"
#include "mpi/plugin/messages.hpp"
#include "mpi/plugin/pending.hpp"
#include "mpi/plugin/record.hpp"
#include "mpi/plugin/report.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

void set_empty(MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  const int error = status->MPI_ERROR;
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  native.Status_set_elements(status, MPI_BYTE, 0);
  native.Status_set_cancelled(status, 0);
  status->MPI_ERROR = error;
}

Status settle_collective(Request& request) {
  Status outcome;
  state.job->test(*request.operation, &outcome);
  if (!outcome.ok() || request.settled) return outcome;
  outcome = request.plan.finish();
  request.settled = outcome.ok();
  return outcome;
}

bool look(MPI_Request handle) {
  const Request& request = *request_of(handle);
  if (comparing()) [[unlikely]]
    look_at_comparisons();
  if (is_complete(request)) return true;
  state.job->progress();
  pump_host();
  return is_complete(request);
}

namespace {

// What becomes of a request: its outcome, and where an error is to be reported.
struct Finished {
  Status outcome;
  MPI_Comm comm{};  // set with an error
};

// Completes a request whose operation is over, as the program sees it: data are unpacked, the
// handle becomes null or inactive. The error handler has not been called.
Finished finish(MPI_Request* handle, MPI_Status* status) {
  Request* request = request_of(*handle);
  Finished result;
  if (request->pending != nullptr) [[unlikely]]
    check_buffers(*request);
  if (request->at_once) {
    describe_at_once(*request, status);
    if (!request->sent) free_request(request);
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
  if (request.transfer != nullptr) {
    if (!is_complete(request)) wait_for_message(request);
    return;
  }
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

// ---- windows

// Of the MPI's own, but its barrier would have looked at what has arrived, and tutti's has not:
// some test first and look then.
int handle_Win_test(MPI_Win win, int* flag) {
  const int code = native.Win_test(win, flag);
  return code != MPI_SUCCESS || *flag ? code : native.Win_test(win, flag);
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
  TUTTI_INSTALL(Win_test);
#undef TUTTI_INSTALL
}

}  // namespace tutti::mpi
