// Faults on purpose, so that no code under test needs a branch for them.
//
// TUTTI_FAULT = RULE[,RULE...]           RULE = ACTION[:KEY=VALUE]...
//
//   fail:op=OP[:code=CODE]   the operation fails with CODE (no_memory) and does nothing;
//                            OP: put get expose attach reserve
//   fail:op=put:us=T         it is accepted, and fails T microseconds later in its completion; one
//                            without a completion is carried out
//   drop:op=OP               it does nothing and says ok; OP: put signal cast receive
//   duplicate:op=OP          it is done twice; OP: put cast
//   corrupt:op=OP            one bit of the data is inverted on the way; OP: put cast receive
//   delay:op=put:us=T        it is carried out T microseconds later, and whatever follows to the
//                            same peer after it; by the rank's own polls, so not while its MPI
//                            runs a call
//   slow:op=put:us=T         the rank waits T microseconds before it
//   kill:op=OP               the process is killed (SIGKILL) before the operation; OP: as above, or
//                            any
//   deaf                     sleepers do not hear the bell: every sleep takes its full time
//   nocma                    user memory cannot be exposed, as where the kernel refuses
//                            cross-memory attach
//
// cast and receive are those of datagrams: what is dropped when it is received is lost to this
// rank.
//
// Keys of all but deaf and nocma: at=N, the N-th operation of that kind on this rank (1); every=K,
// each K-th from there on (1); count=M, so many in all (1; 0: without end). Keys of all but nocma:
// rank=R, on this rank only (all). Of put, get, attach and signal: peer=R, only those towards this
// rank, which `at` and `every` count then: with rank=, a fault of one connection.
// CODE: peer_lost timeout truncated invalid_argument no_memory not_permitted unsupported corrupt
// internal
//
// Examples: TUTTI_FAULT=kill:op=signal:at=40:rank=1,delay:op=put:us=200:count=0
//           TUTTI_FAULT=delay:op=put:rank=6:peer=5:us=20000:count=0
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fabric/wrap/forward.hpp"

namespace tutti::wrap {

enum class FaultOp : std::uint8_t {
  put,
  get,
  expose,
  attach,
  reserve,
  signal,
  cast,
  receive,
  any,
  count_
};
enum class FaultAction : std::uint8_t {
  fail,
  drop,
  duplicate,
  corrupt,
  delay,
  slow,
  kill,
  deaf,
  nocma,
  count_
};

struct FaultRule {
  FaultAction action = FaultAction::fail;
  FaultOp op = FaultOp::any;
  Code code = Code::no_memory;
  std::uint64_t at = 1;
  std::uint64_t count = 1;
  std::uint64_t every = 1;
  std::uint64_t delay_ns = 0;
  int rank = -1;  // -1: all
  int peer = -1;  // -1: all
};

struct FaultSpec {
  std::vector<FaultRule> rules;
  /// On failure `*message` says in one line what is wrong and what would be right.
  static bool parse(const std::string& text, FaultSpec* out, std::string* message);
};

class FaultDatagrams;

class Fault final : public Forward {
 public:
  Fault(std::unique_ptr<Fabric> inner, const FaultSpec& spec);
  ~Fault() override;

  Status expose(void* base, std::size_t bytes, Region* out) noexcept override;
  Status attach(std::int32_t peer, const Key& key, Remote* out) noexcept override;
  Status reserve(std::size_t offset, std::size_t bytes) noexcept override;
  Status put(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
             const Tail* tail, Completion* completion, Event event) noexcept override;
  Status get(const Remote& source, std::size_t offset, void* destination, std::size_t bytes,
             Completion* completion) noexcept override;
  void progress() noexcept override;
  void wake(std::int32_t peer, Event event) noexcept override;
  void sleep(std::uint32_t ticket, std::uint64_t timeout_ns, Attention attention) noexcept override;
  Datagrams* datagrams() noexcept override;

 protected:
  void signal_virtually(std::int32_t peer, Word& word, std::uint64_t value) noexcept override;

 private:
  /// A put that is carried out later. Without a completion nobody keeps its source, so it is
  /// copied.
  struct Held {
    Remote target;
    std::size_t offset;
    const void* source;
    std::vector<std::byte> copy;
    std::size_t bytes;
    bool has_tail;
    Tail tail;
    Completion* completion;
    std::uint64_t due_ns;
    Code code;  // ok: it is carried out
    Event event;
    bool bell = false;  // no put: wake() behind those that are held
  };

  struct Counted {
    FaultRule rule;
    std::uint64_t seen = 0;  // operations that it speaks of
  };

  /// Counts an operation, and gives the rule that applies to it, or nullptr. `peer`: towards whom.
  const FaultRule* next(FaultOp op, std::int32_t peer = -1) noexcept;
  bool holds(std::int32_t peer) const noexcept;
  bool outside_arena(const void* base, std::size_t bytes) noexcept;
  Status put_corrupted(const Remote& target, std::size_t offset, const void* source,
                       std::size_t bytes, const Tail* tail, Completion* completion,
                       Event event) noexcept;
  Status hold(const Remote& target, std::size_t offset, const void* source, std::size_t bytes,
              const Tail* tail, Completion* completion, Event event, std::uint64_t due_ns,
              Code code);
  void carry_out(Held& held) noexcept;

  std::vector<Counted> rules_;  // of this rank
  bool deaf_ = false;
  bool nocma_ = false;
  std::deque<Held> held_;  // in the order of posting
  std::unique_ptr<FaultDatagrams> datagrams_;
};

}  // namespace tutti::wrap
