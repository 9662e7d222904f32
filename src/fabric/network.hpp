// The contract of a network below the nodes fabric: one-sided writes and reads towards other nodes.
//
// fabric/nodes makes a Fabric of it: it keeps keys, ranges, health and local peers, so that a
// network (fabric/ofi, ...) is only what differs between networks.
//
// Common rules
//  - Any thread may call; an implementation has one lock of its own. Nothing blocks, nothing
//  throws.
//  - Puts of one kind of event to one peer take effect there in the order in which they were
//    posted: a tail is visible no earlier than the data of all those puts to that peer before it.
//  - Connections are made on first use.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "fabric/fabric.hpp"
#include "fabric/secret/secret.hpp"

namespace tutti {

/// Where a rank can be reached: bytes that mean something to the same network on another node.
struct NetworkAddress {
  static constexpr std::size_t kBytes = 124;
  std::uint32_t bytes = 0;
  std::byte data[kBytes] = {};
};

/// Registered memory: what the owner keeps (`handle`) and what peers need.
struct NetworkMemory {
  std::uint64_t handle = 0;
  std::uint64_t address = 0;  // of its first byte, as peers must give it
  std::uint64_t key = 0;
};

/// Where a put or get goes.
struct NetworkTarget {
  std::int32_t peer = -1;
  std::uint64_t address = 0;
  std::uint64_t key = 0;
};

/// An operation that is over. `completion` is the one it was posted with, or nullptr.
struct NetworkFinished {
  Completion* completion = nullptr;
  Status status;
};

/// What progress() has found.
enum class Moved : std::uint8_t {
  nothing,
  unsolicited,  // only arrivals for which nobody need be woken who sleeps for solicited ones
  something
};

/// What a network uses, for reports.
struct NetworkUse {
  std::size_t connections = 0;  // peers with which this rank has communicated
  std::size_t registered = 0;   // bytes of memory
};

/// What is known of the process of a peer that does not answer. Any thread; never blocks, and
/// calls nothing of the network.
class PeerHealth {
 public:
  enum class Verdict : std::uint8_t {
    unknown,
    stands,  // it exists, whether it runs or not
    gone     // it has ended
  };
  virtual ~PeerHealth() = default;
  virtual Verdict ask(std::int32_t peer, std::uint64_t now_ns) noexcept = 0;
};

class NetworkDatagrams;

class Network {
 public:
  virtual ~Network() = default;

  /// "ofi;tcp", "verbs". Lives as long as the network.
  virtual const char* name() const noexcept = 0;
  /// Messages pass the kernel by (InfiniBand and its like), rather than through its sockets.
  virtual bool bypasses_kernel() const noexcept = 0;
  /// What peers must have in common besides the name: a version. Differing ones cannot talk.
  virtual std::uint32_t version() const noexcept = 0;
  virtual const NetworkAddress& address() const noexcept = 0;
  /// Once, before any other operation: the addresses of all ranks of the job (copied), which of
  /// them this one is, and the job's secret. What comes from others is to be dropped where the
  /// network can tell.
  virtual Status meet(const NetworkAddress* all, int size, int rank,
                      const Secret& secret) noexcept = 0;

  /// Where the address is a TCP port that the peer's process listens on, which a stranger may
  /// connect to without harm: sets `*out`.
  virtual bool listens_at(const NetworkAddress& address, sockaddr_storage* out) const noexcept {
    static_cast<void>(address);
    static_cast<void>(out);
    return false;
  }
  /// Before any operation: whom to ask, before a peer that takes nothing any more is given up. It
  /// outlives the network.
  virtual void consult(PeerHealth& health) noexcept { static_cast<void>(health); }

  virtual Status expose(void* base, std::size_t bytes, NetworkMemory* out) noexcept = 0;
  virtual void withdraw(const NetworkMemory& memory) noexcept = 0;

  /// Writes `bytes` to the target and then, if `counter` is given, `value` to the counter, which
  /// is the event that wakes threads there. Without a completion the data is copied before it
  /// returns.
  virtual Status put(const NetworkTarget& target, const void* source, std::size_t bytes,
                     const NetworkTarget* counter, std::uint64_t value, Completion* completion,
                     Event event = Event::solicited) noexcept = 0;
  virtual Status get(const NetworkTarget& source, void* destination, std::size_t bytes,
                     Completion* completion) noexcept = 0;
  /// Sends 29 bits that appear in the peer's notices(), after what was put there solicited before.
  virtual Status notify(const NetworkTarget& anywhere, std::uint32_t notice) noexcept = 0;
  /// The same, after all that was put there. A notice that is sent once to a peer, if ever.
  virtual Status notify_last(const NetworkTarget& anywhere, std::uint32_t notice) noexcept = 0;
  /// Wakes threads of the peer that sleep for solicited events, when the unsolicited puts before it
  /// have arrived.
  virtual void ring(const NetworkTarget& anywhere) noexcept = 0;

  /// Moves what can be moved. `wait`: take the lock even if another thread has it just now.
  virtual Moved progress(bool wait) noexcept = 0;
  /// Takes what is over, at most `most`; returns how many. Finished operations are kept until
  /// taken.
  virtual std::size_t finished(NetworkFinished* out, std::size_t most) noexcept = 0;
  virtual std::size_t notices(std::uint32_t* out, std::size_t most) noexcept = 0;
  /// Nothing counts on `completion` any more. Returns how many reads still write to their
  /// destination: until that is 0 the memory must stay.
  virtual std::size_t forget(Completion* completion) noexcept = 0;
  /// Operations posted and not over.
  virtual std::size_t pending() noexcept = 0;
  /// Fails all that is queued for a peer that is known to be lost.
  virtual void drop(std::int32_t peer) noexcept = 0;

  /// A descriptor that is readable when progress() has something to do that a sleeper with this
  /// attention is to be woken for, until the next question; -1: there is something now. Where
  /// events cannot be told apart it wakes for all.
  virtual int sleep_on(Attention attention) noexcept = 0;
  /// Something is under way for which also who sleeps for solicited events alone must sleep for
  /// all: who asked sleep_on() before that has to be woken.
  virtual bool must_hear_all() noexcept { return false; }
  /// Whether it can tell events apart. The same as long as it lives.
  virtual bool selective() const noexcept { return false; }
  /// Operations wait for the network to take them: progress() must be called again soon all the
  /// same.
  virtual bool blocked() noexcept = 0;

  /// True where it has multicast of its own; otherwise IP multicast serves beside it.
  virtual bool has_datagrams() const noexcept { return false; }
  /// Opens it, for the rank with that number in the job; `secret` is the same on all ranks. It may
  /// outlive abort(). On failure `*message` says in one line why.
  virtual Status open_datagrams(int rank, const Secret& secret,
                                std::unique_ptr<NetworkDatagrams>* out, std::string* message) {
    static_cast<void>(rank);
    static_cast<void>(secret);
    static_cast<void>(out);
    *message = "the network has no multicast of its own";
    return Status::error(Code::unsupported, "no multicast of its own");
  }

  virtual NetworkUse use() noexcept = 0;
  /// Fabric::leave_to_caller().
  virtual void leave_to_caller() noexcept {}
  /// Ends all connections without a word, as a crash would. Nothing works afterwards.
  virtual void abort() noexcept = 0;
};

/// Multicast beside a network: what fabric/nodes needs of it besides Datagrams.
class NetworkDatagrams : public Datagrams {
 public:
  virtual std::size_t datagram_bytes() const noexcept = 0;
  /// The interface or device that they go through, for messages.
  virtual const char* place() const noexcept = 0;
  /// Readable when progress() has something to do.
  virtual int descriptor() const noexcept = 0;
  /// Makes arrivals() of groups grow to which something has come since the last call. Any thread.
  virtual bool progress() noexcept = 0;
};

}  // namespace tutti
