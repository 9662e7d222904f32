#include "mpi/plugin/request.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <vector>

#include "base/log.hpp"
#include "mpi/plugin/messages.hpp"
#include "mpi/plugin/pending.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

constexpr std::uint32_t kChunk = kRequestChunk;
constexpr std::uint32_t kSent = 0;  // the index of sent_request()
constexpr std::uint32_t kNone = ~std::uint32_t{0};

std::uint32_t chunk_count = 0;    // guarded by mutex
std::uint32_t free_list = kNone;  // guarded by mutex
std::vector<Request*> abandoned;  // guarded by mutex
std::mutex mutex;

/// Requests are shared by threads only where the program has asked for that.
class Lock {
 public:
  Lock() : held_(state.threads) {
    if (held_) mutex.lock();
  }
  ~Lock() {
    if (held_) mutex.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  const bool held_;
};

// Makes the handles of one more chunk addressable. Nothing to do where handles are numbers.
bool create_handles(std::uint32_t chunk) {
  if constexpr (kHandlesAreNumbers) return true;
  if (handle_range == 0) {
    void* range = mmap(nullptr, kMostRequests * kHandleBytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    handle_range = key(range);
  }
  auto* words = reinterpret_cast<std::uint32_t*>(handle_range +
                                                 std::uintptr_t{chunk} * kChunk * kHandleBytes);
  if (mprotect(words, kChunk * kHandleBytes, PROT_READ | PROT_WRITE) != 0) return false;
  constexpr std::size_t kWords = kHandleBytes / sizeof(std::uint32_t);
  for (std::uint32_t i = 0; i < kChunk; ++i) {
    std::fill_n(words + i * kWords, kWords, Abi::kFirstRequest + chunk * kChunk + i);
  }
  return true;
}

bool add_chunk() {
  if (chunk_count == kMostRequests / kChunk || !create_handles(chunk_count)) return false;
  auto* requests = new (std::nothrow) Request[kChunk];
  if (requests == nullptr) return false;
  for (std::uint32_t i = kChunk; i-- > 0;) {
    requests[i].index = chunk_count * kChunk + i;
    requests[i].next_free = free_list;
    free_list = requests[i].index;
  }
  if (chunk_count == 0) {
    free_list = requests[kSent].next_free;
    requests[kSent].sent = requests[kSent].at_once = requests[kSent].started = true;
  }
  request_chunks[chunk_count++].store(requests, std::memory_order_release);
  return true;
}

// Frees abandoned requests whose operations are over.
void reap() noexcept {
  std::vector<Request*> over;
  {
    const Lock lock;
    auto running = std::partition(abandoned.begin(), abandoned.end(),
                                  [](Request* request) { return !is_complete(*request); });
    over.assign(running, abandoned.end());
    abandoned.erase(running, abandoned.end());
  }
  for (Request* request : over) free_request(request);
}

template <class Visit>
void for_each_request(Visit&& visit) {
  std::uint32_t count = 0;
  {
    const Lock lock;
    count = chunk_count;
  }
  for (std::uint32_t i = 0; i < count * kChunk; ++i) {
    Request* request = request_at(i);
    if (request->operation != nullptr || request->transfer != nullptr ||
        request->message != nullptr)
      visit(request);
  }
}

// Says which requests the program has started and neither completed nor freed (TUTTI_CHECK=calls).
void tell_never_completed() noexcept try {
  constexpr int kMost = 8;
  int count = 0;
  for_each_request([&count](Request* request) {
    if (!request->started || request->call == nullptr || request->comm == nullptr) return;
    if (std::ranges::find(abandoned, request) != abandoned.end() || ++count > kMost) return;
    log(LogLevel::error, "%s was never completed: an MPI_Wait or MPI_Test is missing",
        described(*request).c_str());
  });
  if (count > kMost) log(LogLevel::error, "%d more were never completed", count - kMost);
} catch (const std::bad_alloc&) {  // the program ends all the same
}

}  // namespace

std::uintptr_t handle_range = 0;
std::atomic<Request*> request_chunks[kMostRequests / kRequestChunk];

Request* allocate_request() noexcept {
  if (!abandoned.empty()) reap();
  const Lock lock;
  if (free_list == kNone && !add_chunk()) return nullptr;
  Request* request = request_at(free_list);
  free_list = request->next_free;
  return request;
}

Request* sent_request() noexcept {
  if (request_chunks[0].load(std::memory_order_acquire) == nullptr) {
    const Lock lock;
    if (chunk_count == 0 && !add_chunk()) return nullptr;
  }
  return request_at(kSent);
}

void free_request(Request* request) noexcept {
  if (request->sent) return;
  if (request->pending != nullptr) forget_buffers(*request);
  if (request->operation != nullptr) {
    state.job->release(request->operation);
    request->operation = nullptr;
    request->plan = Plan{};
  }
  if (request->transfer != nullptr || request->message != nullptr) release_message(*request);
  if (request->comm != nullptr) release(request->comm);
  request->comm = nullptr;
  request->persistent = request->started = request->at_once = request->settled = false;
  const Lock lock;
  request->next_free = free_list;
  free_list = request->index;
}

MPI_Request handle_of(const Request& request) noexcept {
  return handle_from<MPI_Request>(first_handle() + request.index * kHandleBytes);
}

int fortran_index(const Request& request) noexcept {
  return static_cast<int>(Abi::kFirstRequest + request.index);
}

Request* request_of_fortran(int index) noexcept {
  const std::uint32_t offset = static_cast<std::uint32_t>(index) - Abi::kFirstRequest;
  if (offset >= kMostRequests) return nullptr;
  const bool made = request_chunks[offset / kChunk].load(std::memory_order_acquire) != nullptr;
  return made ? request_at(offset) : nullptr;
}

void abandon(Request* request) noexcept {
  if (is_complete(*request)) {
    free_request(request);
    return;
  }
  const Lock lock;
  abandoned.push_back(request);
}

void drain(const Comm* comm) noexcept {
  for (std::uint32_t round = 0;; ++round) {
    bool busy = false;
    for_each_request([&](Request* request) {
      busy |= (comm == nullptr || request->comm == comm) && !is_complete(*request);
    });
    if (!busy) break;
    look_at_comparisons();
    state.job->relax(round);
    state.job->progress();
  }
  reap();
  if (comm != nullptr) finish_buffered(*comm);
}

void destroy_requests() noexcept {
  if (!state.job) return;
  if (state.settings.check == Check::calls) tell_never_completed();
  // What a matched probe has taken, nobody can receive any more.
  for_each_request([](Request* request) {
    if (request->message != nullptr) free_request(request);
  });
  conclude_messages();
  drain(nullptr);
  end_comparisons();
  for_each_request([](Request* request) { free_request(request); });
}

}  // namespace tutti::mpi
