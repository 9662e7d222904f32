// A world: N connected fabrics, each with an engine, on which a test body runs as one task per
// rank.
//
// An implementation of the contract enters the conformance suite with a World of its own: ranks as
// threads, as processes, or as coroutines in virtual time. Bodies therefore wait only by awaiting
// words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/task.hpp"
#include "engine/engine.hpp"
#include "fabric/fabric.hpp"

namespace tutti::test {

/// Most ranks that a body asks for.
inline constexpr int kMostRanks = 8;

/// One rank of a world, with the little communication that test bodies need, built from the
/// contract itself: a barrier and messages through the first bytes of the arenas.
class Node {
 public:
  /// Bytes at the start of every arena that belong to Node. The world reserves them on all ranks
  /// before any body starts. Tests use what lies behind.
  static constexpr std::size_t kControlBytes = std::size_t{64} << 10;
  static constexpr std::size_t kMessageBytes = 2048;

  /// `die`: ends this rank as a crash would; may return (threads), and the body then ends too.
  Node(Fabric& fabric, Engine& engine, std::function<void()> die);

  int rank() const noexcept { return fabric.rank(); }
  int size() const noexcept { return fabric.size(); }
  FramePool& frames() noexcept { return engine.frames(); }
  std::byte* arena() noexcept { return static_cast<std::byte*>(fabric.arena().base); }
  /// The Word at `offset` of the own arena.
  Word& word(std::size_t offset) noexcept { return *reinterpret_cast<Word*>(arena() + offset); }
  Engine::Reached reached(const Word& its_word, std::uint64_t value, int peer = -1) noexcept {
    return engine.reached(its_word, value, members, peer);
  }
  /// Awaits all that was posted to `completion`.
  Engine::Reached completed(const Completion& completion) noexcept {
    return engine.completed(completion, members);
  }

  /// A dissemination barrier of all ranks, of puts without data. Awaits the completion of all
  /// messages too.
  Task barrier();
  /// Puts a message into the peer's mailbox for this rank. The previous one must have been
  /// received.
  Status send(int peer, const void* data, std::size_t bytes);
  /// Awaits the next message of `peer`.
  Task receive(int peer, void* data, std::size_t bytes);

  Fabric& fabric;
  Engine& engine;
  Membership members;  // all ranks
  std::function<void()> die;

 private:
  std::vector<std::int32_t> ranks_;
  Completion posted_;  // of barriers and messages
  std::uint64_t barriers_ = 0;
  std::uint64_t sent_[kMostRanks] = {};
  std::uint64_t received_[kMostRanks] = {};
  std::byte outgoing_[kMostRanks][kMessageBytes] = {};
};

/// How a rank's body ended.
struct Outcome {
  bool died = false;  // by Node::die
  Status status = Status::error(Code::internal, "the body has not finished");
};

using NodeBody = std::function<Task(Node&)>;
/// Wraps the fabric of each rank, for decorators and for defects put in on purpose.
using Wrap = std::function<std::unique_ptr<Fabric>(std::unique_ptr<Fabric>)>;

class World {
 public:
  virtual ~World() = default;
  /// Runs the body to its end on `ranks` new ranks (2 to kMostRanks) and gives their outcomes.
  /// Failed expectations of any rank are failures of the calling test.
  virtual std::vector<Outcome> run(int ranks, const NodeBody& body) = 0;
};

/// A World by name, as a test parameter.
struct WorldFactory {
  std::string name;
  std::function<std::unique_ptr<World>()> make;
  friend std::ostream& operator<<(std::ostream& out, const WorldFactory& factory) {
    return out << factory.name;
  }
};

}  // namespace tutti::test

/// In a body with a Node& n: ends it with a failure of the test.
#define TUTTI_REQUIRE(condition)                                                              \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      ADD_FAILURE() << "rank " << n.rank() << ": " #condition;                                \
      co_return ::tutti::Status::error(::tutti::Code::internal, "a requirement was not met"); \
    }                                                                                         \
  } while (0)

#define TUTTI_REQUIRE_OK(expression)                                                               \
  do {                                                                                             \
    const ::tutti::Status status_ = (expression);                                                  \
    if (!status_.ok()) {                                                                           \
      ADD_FAILURE() << "rank " << n.rank() << ": " #expression ": " << ::tutti::name(status_.code) \
                    << ": " << (status_.detail != nullptr ? status_.detail : "");                  \
      co_return status_;                                                                           \
    }                                                                                              \
  } while (0)
