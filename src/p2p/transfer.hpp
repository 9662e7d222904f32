// One send or receive of this rank, and what is known of messages that nobody has received yet.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "p2p/list.hpp"
#include "p2p/packet.hpp"

namespace tutti {

class Group;

inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;

/// When a send is over (MPI 4.1, section 3.4).
enum class SendMode : std::uint8_t {
  standard,     // when the buffer may be reused
  synchronous,  // when a receive has been matched too
  buffered,     // at once: the data is copied, if need be
  ready,        // as standard; the caller says that the receive is posted
};

/// What came of a send or receive.
struct Receipt {
  Status status;            // truncated: the message was longer than the buffer, which is filled
  int source = kAnySource;  // rank in the group; of receives and probes
  int tag = kAnyTag;
  std::size_t bytes = 0;  // of the message, even where it was truncated
  bool cancelled = false;
};

namespace p2p {

struct Context;
struct Lane;
struct Peer;
struct Transfer;
struct Wish;

/// A message that has arrived before its receive.
struct Arrival {
  Context* context = nullptr;
  Peer* from = nullptr;
  Lane* lane = nullptr;
  Header header{};
  Key key;                       // of request_to_send
  std::byte* payload = nullptr;  // what is kept of its data: behind this object
  std::size_t kept = 0;          // bytes of that
  Transfer* local = nullptr;     // a message to oneself, still at its sender
  Hook<Arrival> in_lane, in_context;
};

/// An eager message in several packets, of which the first has arrived, or the head of one that is
/// announced. Those of one sender come one behind the other, with nothing in between, so there is
/// one train from each at most.
struct Train {
  Header header{};              // of the first packet; `bytes`: of the train
  std::size_t moved = 0;        // bytes that have arrived
  Transfer* receive = nullptr;  // what has taken it; or
  Arrival* arrival = nullptr;   // where it is kept; neither: nobody wants it any more

  bool complete() const noexcept { return moved == header.bytes; }
};

/// One send or receive. Owned by the host from prepare or start until release(), or by a blocking
/// call. The host asks for active() and receipt(); the rest is for the parts of src/p2p.
struct Transfer {
  enum class Kind : std::uint8_t { send, receive, probe };

  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Any thread.
  bool active() const noexcept { return ended.load(std::memory_order_acquire) < started; }
  /// Meaningful once it is no longer active.
  const Receipt& receipt() const noexcept { return outcome; }

  inline void want(Context& in, const Wish& wish) noexcept;
  /// The receive has got the message with this envelope.
  void match(const Header& header) noexcept {
    outcome.source = static_cast<int>(header.source);
    outcome.tag = header.tag;
    outcome.bytes = header.bytes;
    wanted = std::min<std::size_t>(header.bytes, bytes);
    if (header.bytes > bytes)
      outcome.status = Status::error(Code::truncated, "the message is longer than the buffer");
  }

  // What is wanted. Constant while the transfer is active.
  Context* context = nullptr;
  Group* group = nullptr;
  std::byte* buffer = nullptr;  // of a send only read
  std::size_t bytes = 0;        // of a receive: room
  int rank = 0;                 // destination or source, in the group
  int tag = 0;
  Kind kind = Kind::send;
  SendMode mode = SendMode::standard;

  // What has become of it.
  Hook<Transfer> in_lane, in_peer;  // of the lists that it is in
  Peer* peer = nullptr;             // nullptr: a receive from anybody that is not matched yet
  Lane* lane = nullptr;             // where it is posted; nullptr with `posted`: for any source
  std::uint64_t sequence = 0;       // order of posting within the context
  std::uint32_t id = 0;             // by which the other side speaks of it; 0: none
  std::uint32_t sender = 0;         // of a receive that reads: the id of its send
  std::size_t moved = 0;            // bytes that have arrived, of data in parts
  std::size_t wanted = 0;           // bytes that will
  bool posted = false;              // in the matcher
  bool open = false;                // in its peer's list of open transfers
  bool wild = false;                // in its context's list of open transfers from anybody
  bool pending = false;             // counted by the engine: the progress thread looks after it
  bool released = false;            // the host has given it up
  bool exposed = false;             // `region` is to be withdrawn
  bool streaming = false;           // its data comes in parts; counted in Peer::streams
  bool lacks_head = false;          // of a receive: the head of its message has not come yet
  bool has_rest = false;            // of a receive: all behind the head has
  bool withdrawing = false;         // a cancellation is under way
  bool running = false;             // `task` brings it to its end
  bool plain = true;                // what it has done so far has left nothing behind in it
  bool waited = false;              // its caller waits inside until it is over
  bool sender_waits = false;        // of a receive: so does the caller of its send
  bool crosses = false;             // counted in the rank's Episodes
  bool by_kernel = false;           // to be copied by the kernel, not through memory shared by both
  bool halved = false;              // so it is, one half by each side
  bool half_over = false;           // the other side's is
  bool refused = false;             // its own could not be read, and is wanted in parts after that
  std::byte* copy = nullptr;        // of a buffered send
  Receipt outcome;
  Word ended{0};              // times it has ended; awaited by tasks
  std::uint64_t started = 0;  // times it was started
  Region region;
  Completion completion;
  Task task;
};

/// What a send, a receive or a probe is asked to do.
struct Wish {
  Transfer::Kind kind;
  Group& group;
  void* buffer;       // of a send only read
  std::size_t bytes;  // of a receive: room
  int rank;           // destination or source, in the group
  int tag;
  SendMode mode = SendMode::standard;

  static Wish send(Group& group, const void* data, std::size_t bytes, int destination, int tag,
                   SendMode mode = SendMode::standard) noexcept {
    return {Transfer::Kind::send, group, const_cast<void*>(data), bytes, destination, tag, mode};
  }
  static Wish receive(Group& group, void* buffer, std::size_t room, int source, int tag) noexcept {
    return {Transfer::Kind::receive, group, buffer, room, source, tag};
  }
  static Wish probe(Group& group, int source, int tag) noexcept {
    return {Transfer::Kind::probe, group, nullptr, 0, source, tag};
  }
};

inline void Transfer::want(Context& in, const Wish& wish) noexcept {
  context = &in;
  group = &wish.group;
  buffer = static_cast<std::byte*>(wish.buffer);
  bytes = wish.bytes;
  rank = wish.rank;
  tag = wish.tag;
  kind = wish.kind;
  mode = wish.mode;
}

}  // namespace p2p
}  // namespace tutti
