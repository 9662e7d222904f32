// One send or receive of this rank, and what is known of messages that nobody has received yet.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"
#include "p2p/list.hpp"
#include "p2p/packet.hpp"

namespace tutti {

class Team;

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
  int source = kAnySource;  // rank in the team; of receives and probes
  int tag = kAnyTag;
  std::size_t bytes = 0;  // of the message, even where it was truncated
  bool cancelled = false;
};

namespace p2p {

struct Context;
struct Lane;
struct Peer;
class Messages;

/// A message that has arrived before its receive.
struct Arrival {
  Context* context = nullptr;
  Peer* from = nullptr;
  Lane* lane = nullptr;
  Header header{};
  Key key;                          // of request_to_send
  std::byte* payload = nullptr;     // of eager messages: behind this object
  class Transfer* local = nullptr;  // a message to oneself, still at its sender
  Hook<Arrival> in_lane, in_context;
};

/// An eager message in several packets, of which the first has arrived. Those of one sender come
/// one behind the other, with nothing in between, so there is one train from each at most.
struct Train {
  Header header{};                    // of the first packet
  std::size_t moved = 0;              // bytes that have arrived
  class Transfer* receive = nullptr;  // what has taken it; or
  Arrival* arrival = nullptr;         // where it is kept; neither: nobody wants it any more

  bool complete() const noexcept { return moved == header.bytes; }
};

/// One send or receive. Owned by the host from prepare or start until release(), or by a blocking
/// call.
class Transfer {
 public:
  enum class Kind : std::uint8_t { send, receive, probe };

  Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Any thread.
  bool active() const noexcept { return ended_.load(std::memory_order_acquire) < started_; }
  /// Meaningful once it is no longer active.
  const Receipt& receipt() const noexcept { return receipt_; }

  Hook<Transfer> in_lane, in_peer;  // of the lists that it is in

 private:
  friend class Messages;
  friend class Matcher;

  // What is wanted. Constant while the transfer is active.
  Context* context_ = nullptr;
  Team* team_ = nullptr;
  std::byte* buffer_ = nullptr;  // of a send only read
  std::size_t bytes_ = 0;        // of a receive: room
  int rank_ = 0;                 // destination or source, in the team
  int tag_ = 0;
  Kind kind_ = Kind::send;
  SendMode mode_ = SendMode::standard;

  // What has become of it.
  Peer* peer_ = nullptr;        // nullptr: a receive from anybody that is not matched yet
  Lane* lane_ = nullptr;        // where it is posted; nullptr with posted_: for any source
  std::uint64_t sequence_ = 0;  // order of posting within the context
  std::uint32_t id_ = 0;        // by which the other side speaks of it; 0: none
  std::size_t moved_ = 0;       // bytes that have arrived, of data in parts
  std::size_t wanted_ = 0;      // bytes that will
  bool posted_ = false;         // in the matcher
  bool open_ = false;           // in its peer's list of open transfers
  bool wild_ = false;           // in its context's list of open transfers from anybody
  bool pending_ = false;        // counted by the engine: the progress thread looks after it
  bool released_ = false;       // the host has given it up
  bool exposed_ = false;        // region_ is to be withdrawn
  bool streaming_ = false;      // its data comes in parts; counted in Peer::streams
  bool withdrawing_ = false;    // a cancellation is under way
  bool running_ = false;        // task_ brings it to its end
  std::byte* copy_ = nullptr;   // of a buffered send
  Receipt receipt_;
  Word ended_{0};              // times it has ended; awaited by tasks
  std::uint64_t started_ = 0;  // times it was started
  Region region_;
  Completion completion_;
  Task task_;
};

}  // namespace p2p
}  // namespace tutti
