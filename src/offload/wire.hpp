// What an application processor (APP) and its dedicated collective processor (DCP) write into each
// other's memory (CDCP-2008, section IV: the APP sends its data and receives the result).
//
//   in the DCP's arena: what it has done; for each of its APPs kSlots requests, kSlots data cells
//   in the APP's arena:                         a counter of requests taken, then reply cells
//
// A request is one cache line, its flag behind it, so that a small collective is one put. All flags
// only grow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/call.hpp"
#include "fabric/fabric.hpp"

namespace tutti::offload {

inline constexpr std::uint32_t kSlots = 32;         // requests on their way from one APP
inline constexpr std::size_t kCellBytes = 1024;     // largest data that goes through cells
inline constexpr std::uint32_t kTakenEvery = 8;     // requests between two reports of the counter
inline constexpr std::uint32_t kFirstReplies = 64;  // reply cells of an APP; doubled on demand

/// What a request asks for, beside the collectives (whose numbers are those of Coll).
enum Control : std::uint8_t {
  kOpenGroup = 0x80,  // a communicator: large data is a GroupHeader and its members
  kCloseGroup,
  kLeave,  // the APP needs nothing any more
};

/// Where the data of a request is.
enum class Place : std::uint8_t { none, here, cell, memory };

struct Request {
  std::uint32_t group = 0;       // the APP's number of the communicator
  std::uint32_t reply = 0;       // offset of the reply cell in the APP's arena, in cache lines
  std::uint32_t generation = 0;  // value of the reply cell's flag
  std::uint8_t kind = 0;         // Coll or Control
  std::uint8_t op = 0, type = 0;
  Place place = Place::none;
  std::int32_t root = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;  // as in Call
  static constexpr std::size_t kHere = 24;
  std::byte data[kHere] = {};
};
inline constexpr std::size_t kRequestBody = sizeof(Request);

/// As it lies in the ring.
struct RequestLine {
  Request request;
  Word flag{0};  // number of the request, from 1; the tail
};
static_assert(sizeof(RequestLine) == kCacheLine && offsetof(RequestLine, flag) == kRequestBody);

/// In the data cell of a request whose data is in memory: where. A key of zeros: no such buffer.
struct Buffers {
  Key send, recv;
};

struct GroupHeader {
  std::uint64_t id[2];
  std::int32_t rank, size;  // then `size` job ranks of 4 bytes
};

struct Reply {
  std::uint8_t code = 0;  // Code
  std::uint8_t unused[3] = {};
  std::int32_t peer = -1;
  static constexpr std::size_t kHere = 48;
  std::byte data[kHere] = {};
};
inline constexpr std::size_t kReplyBody = sizeof(Reply);

/// A reply cell is such a line and room for kCellBytes; what does not fit into the Reply is there.
struct ReplyLine {
  Reply reply;
  Word flag{0};  // generation; the tail
};
static_assert(sizeof(ReplyLine) == kCacheLine && offsetof(ReplyLine, flag) == kReplyBody);

inline constexpr std::size_t kReplyStride = kCacheLine + kCellBytes;
inline constexpr std::size_t kRingBytes = kSlots * (kCacheLine + kCellBytes);  // of one APP

/// What a DCP has done, for reports. Written by the DCP alone, read by its APPs.
struct Counts {
  Word requests{0};       // of its APPs
  Word collectives{0};    // served
  Word waited_ns{0};      // from the first arrival of a collective to its last, in all
  Word served_ns{0};      // from its last arrival to its last answer, in all
  Word longest_queue{0};  // collectives that had begun to arrive and were not over
  Word woken{0};          // times that it slept and a request of an APP woke it
};
inline constexpr std::size_t kCountsBytes = 2 * kCacheLine;
static_assert(sizeof(Counts) <= kCountsBytes);
/// Only for a Word that this process alone writes.
inline void add(Word& word, std::uint64_t value) noexcept {
  word.store(word.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

inline constexpr std::size_t request_offset(std::uint64_t number) noexcept {
  return static_cast<std::size_t>(number % kSlots) * kCacheLine;
}
inline constexpr std::size_t data_offset(std::uint64_t number) noexcept {
  return kSlots * kCacheLine + static_cast<std::size_t>(number % kSlots) * kCellBytes;
}

/// Bytes that a member contributes and receives. `rank` is the member's.
std::size_t sent_bytes(const Call& call, int rank, int size) noexcept;
std::size_t received_bytes(const Call& call, int rank, int size) noexcept;
/// True where all that any member sends or receives fits into a cell. The same on all members.
bool fits_cells(Coll coll, std::size_t bytes, int size) noexcept;
/// The collectives that are offloaded.
bool can_offload(Coll coll) noexcept;

// What a DCP asks before it uses a number that an APP has written as an index or a size.

/// A request for a group to be opened: `known` groups of this APP are, `apps` APPs are in the job.
bool opens_soundly(const Request& request, std::size_t known, std::size_t apps) noexcept;
/// A request for a collective of a group of `size` members.
bool is_sound(const Request& request, int size) noexcept;
/// `bytes` of members behind a header that `sender` (a job rank) has sent: they are APPs, and the
/// sender is the one that it says to be.
bool is_sound(const GroupHeader& header, const std::byte* members, std::size_t bytes,
              std::int32_t sender, std::size_t apps) noexcept;

}  // namespace tutti::offload
