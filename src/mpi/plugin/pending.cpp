#include "mpi/plugin/pending.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "coll/parcels.hpp"
#include "mpi/plugin/call_site.hpp"
#include "mpi/plugin/record.hpp"
#include "mpi/plugin/sides.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/record/roll.hpp"

namespace tutti::mpi {

/// A part of the program's memory that a call reads, or writes.
struct Range {
  const std::byte* begin;
  std::size_t bytes;
  std::uint64_t sum = 0;  // of what is read, when the call started

  bool overlaps(const Range& other) const noexcept {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};
using Ranges = std::vector<Range>;

/// What is remembered of a request between its start and its completion.
struct Pending {
  std::uint64_t site = 0;  // of the start
  Ranges read, written;
};

namespace {

std::mutex mutex;
std::vector<Request*> open;       // guarded by mutex: those that have a Pending
std::vector<std::uint64_t> told;  // guarded by mutex: sites of starts
constexpr std::size_t kMostTold = 8;

/// Faster than hash_of(), which takes one byte after the other: four words at a time.
std::uint64_t sum_of(const std::byte* at, std::size_t bytes) noexcept {
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15u;
  std::uint64_t sums[4] = {1, 2, 3, 4}, words[4];
  for (; bytes >= sizeof words; at += sizeof words, bytes -= sizeof words) {
    std::memcpy(words, at, sizeof words);
    for (int i = 0; i < 4; ++i) {
      sums[i] = (sums[i] ^ words[i]) * kGoldenRatio;
      sums[i] ^= sums[i] >> 32;
    }
  }
  return hash_of(at, bytes, hash_of(sums, sizeof sums));
}

/// What has become of the memory that a call reads.
enum class Fate : std::uint8_t { same, changed, gone };

/// Asks the kernel first: a program that has given the memory back would die of it here.
Fate fate_of(const Range& range) noexcept {
  static const auto kPage = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.begin) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(range.begin) + range.bytes;
  // Writes nothing: only what is mapped can be synchronised.
  if (msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) != 0) return Fate::gone;
  return sum_of(range.begin, range.bytes) == range.sum ? Fate::same : Fate::changed;
}

Fate fate_of(const Ranges& ranges) noexcept {
  for (const Range& range : ranges) {
    if (const Fate fate = fate_of(range); fate != Fate::same) return fate;
  }
  return Fate::same;
}

void add(const void* begin, std::size_t bytes, Ranges* out) {
  if (bytes != 0 && begin != nullptr) out->push_back({static_cast<const std::byte*>(begin), bytes});
}

/// The blocks that lie one behind the other at one side of a call.
std::size_t bytes_of(Blocks blocks, const Call& call, const Comm& comm) noexcept {
  if (blocks == Blocks::each) return call.bytes * static_cast<std::size_t>(comm.size);
  // Beside listed blocks, a single one is the rank's own.
  const bool own = blocks == Blocks::one && call.counts != nullptr;
  return own ? call.counts[comm.rank] : call.bytes;
}

void add_parcels(const Parcels& parcels, Pending* out) {
  for (const auto& parcel : parcels.sent()) add(parcel.data, parcel.bytes, &out->read);
  for (const auto& parcel : parcels.received()) add(parcel.data, parcel.bytes, &out->written);
}

/// What lies in the user's memory; what is packed the call does not read there any more.
void add_collective(const Request& request, Pending* out) {
  const Call& call = request.plan.call;
  const Comm& comm = *request.comm;
  if (request.plan.staging) return;
  if (call.parcels != nullptr) return add_parcels(*call.parcels, out);
  const SidesOf sides = sides_of(call.coll);
  const bool at_root = comm.rank == call.root;
  const bool one_buffer = call.coll == Coll::bcast;
  if (has(sides.sent, at_root))
    add(one_buffer ? call.recv : call.send, bytes_of(sides.sent.blocks, call, comm), &out->read);
  if (!has(sides.received, at_root)) return;
  if (sides.received.blocks == Blocks::listed && call.displs != nullptr) {
    for (int i = 0; i < comm.size; ++i)
      add(static_cast<std::byte*>(call.recv) + call.displs[i], call.counts[i], &out->written);
  } else {
    add(call.recv, bytes_of(sides.received.blocks, call, comm), &out->written);
  }
}

/// Memory that the call both reads and writes is in place: it may change.
void leave_in_place_out(Pending* pending) {
  std::erase_if(pending->read, [pending](const Range& read) {
    return std::ranges::any_of(pending->written,
                               [&read](const Range& range) { return range.overlaps(read); });
  });
}

/// Where it was called: a collective's is in the record, unless others have taken its place there.
std::uint64_t site_of(const Request& request) noexcept {
  if (request.operation != nullptr) {
    const tutti_past& past = *past_of(request.comm->row, true, request.number);
    if (past.number == request.number) return past.site;
  }
  return reinterpret_cast<std::uint64_t>(call_site());
}

std::unique_ptr<Pending> pending_of(const Request& request) {
  auto pending = std::make_unique<Pending>();
  pending->site = site_of(request);
  if (request.operation != nullptr) {
    add_collective(request, pending.get());
    leave_in_place_out(pending.get());
  } else {
    if (request.out.in_place()) add(request.out.bytes(), request.out.size(), &pending->read);
    if (request.in.in_place()) add(request.in.bytes(), request.in.size(), &pending->written);
  }
  for (Range& range : pending->read) range.sum = sum_of(range.begin, range.bytes);
  return pending;
}

bool meet(const Ranges& read, const Ranges& written) noexcept {
  return std::ranges::any_of(read, [&written](const Range& range) {
    return std::ranges::any_of(written,
                               [&range](const Range& other) { return other.overlaps(range); });
  });
}

/// Whether something is to be said of requests that are started there. The caller holds the mutex.
bool is_first_to_tell(std::uint64_t site) {
  if (told.size() == kMostTold || std::ranges::find(told, site) != told.end()) return false;
  told.push_back(site);
  return true;
}

std::string at_site(std::uint64_t site) {
  const std::string text = roll::module_site(getpid(), site);
  return text.empty() ? text : " at " + text;
}

/// The caller holds the mutex.
void compare_with_others(const Request& request) {
  const Pending& mine = *request.pending;
  for (const Request* other : open) {
    const Pending& theirs = *other->pending;
    const bool writes = meet(theirs.read, mine.written);
    if (!writes && !meet(mine.read, theirs.written)) continue;
    if (!is_first_to_tell(mine.site)) return;
    const Request& reader = writes ? *other : request;
    const Request& writer = writes ? request : *other;
    log(LogLevel::error, "the buffers of two pending calls overlap: %s reads what %s writes",
        described(reader).c_str(), described(writer).c_str());
    return;
  }
}

/// Takes it off the list.
std::unique_ptr<Pending> take(Request& request) noexcept {
  const std::lock_guard lock(mutex);
  const auto found = std::ranges::find(open, &request);
  if (found != open.end()) {
    *found = open.back();
    open.pop_back();
  }
  return std::unique_ptr<Pending>(std::exchange(request.pending, nullptr));
}

std::string message_of(const Request& request) {
  const char* const way = request.receives || request.nobody ? " from " : " to ";
  const std::string peer =
      request.peer == MPI_ANY_SOURCE ? "any rank" : std::to_string(request.peer);
  const std::string tag =
      request.tag == MPI_ANY_TAG ? "any tag" : "tag " + std::to_string(request.tag);
  return request.call + (way + peer) + " (" + tag + ")";
}

}  // namespace

void watch_buffers(Request& request) noexcept try {
  add_row(*request.comm);  // which has the communicator's name
  std::unique_ptr<Pending> pending = pending_of(request);
  const std::lock_guard lock(mutex);
  open.reserve(open.size() + 1);
  request.pending = pending.release();
  compare_with_others(request);
  open.push_back(&request);
} catch (const std::bad_alloc&) {  // it goes unwatched
}

void check_buffers(Request& request) noexcept try {
  if (const Fate fate = fate_of(request.pending->read); fate != Fate::same) {
    const std::lock_guard lock(mutex);
    if (is_first_to_tell(request.pending->site))
      log(LogLevel::error, "what %s sends was %s before it was completed%s",
          described(request).c_str(), fate == Fate::gone ? "given back" : "changed",
          at_site(reinterpret_cast<std::uint64_t>(call_site())).c_str());
  }
  forget_buffers(request);
} catch (const std::bad_alloc&) {
  forget_buffers(request);
}

void forget_buffers(Request& request) noexcept { static_cast<void>(take(request)); }

std::string described(const Request& request) {
  const tutti_comm_row& row = *request.comm->row;
  const std::string comm = row.name[0] != '\0' ? row.name : "a communicator";
  const std::uint64_t started = request.pending != nullptr ? request.pending->site : 0;
  if (request.operation == nullptr) return message_of(request) + " on " + comm + at_site(started);
  const roll::Passed passed =
      roll::read_past(*past_of(request.comm->row, true, request.number), true);
  if (passed.number != request.number) return request.call + (" on " + comm) + at_site(started);
  return roll::described(passed, comm) + at_site(passed.site);
}

}  // namespace tutti::mpi
