// A job in virtual time: a simulated machine with a rank of a team on each of its processors, on
// which collectives of the one list of algorithms are run unchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/dispatcher.hpp"
#include "fabric/sim/large_memory.hpp"
#include "fabric/sim/sim.hpp"
#include "fabric/sim/world.hpp"
#include "team/team.hpp"

namespace tutti::sim {

struct JobSpec {
  int nodes = 1;
  int ranks_per_node = 1;
  Network network;
  bool elided = true;  // no payload
  Noise noise{};
  bool trace = false;          // World::deliveries()
  int multicast_receives = 5;  // that each member of a multicast group pre-posts
  /// The team has layers, a team on each node and one of the leaders, where nodes have several
  /// ranks. Else all ranks are members of one flat team, whatever node they are on.
  bool hierarchical = false;
  std::size_t most_carried = ~std::size_t{0};  // WorldSpec::most_carried
  /// By what layers choose, and dispatcher(): as the settings of a real job.
  Policy policy{};
  std::size_t block_bytes = std::size_t{64} << 10;  // of a shared block (TUTTI_BLOCK)
  /// What selection is told of the machine, and changes no time: ranks share processors, and the
  /// kernel permits cross-memory attach.
  bool scarce = false;
  bool user_memory = true;
  bool scattered = false;  // WorldSpec::scattered
};

/// How a program uses a collective in each iteration.
enum class Progress : std::uint8_t {
  blocking,   // computes, then calls it
  host,       // starts it, computes, waits: it moves only while the program is inside
  polled,     // the same, but the program looks in between (LibNBC's NBC_Test), until it is over
  interrupt,  // the same, but arrivals interrupt the computation (Ti each)
};

struct Program {
  Progress progress = Progress::blocking;
  Time compute = 0;     // by every rank in every iteration
  Time poll_every = 0;  // polled: so much of it, above 0, comes before each look ...
  Time poll = 0;        // ... which takes so long by itself
};

/// One thread at a time.
class SimJob {
 public:
  /// Fails with one line in `*message`: bad numbers, or more ranks than there is memory for.
  static Status create(const JobSpec& spec, std::unique_ptr<SimJob>* out, std::string* message);
  ~SimJob();
  SimJob(const SimJob&) = delete;
  SimJob& operator=(const SimJob&) = delete;

  int size() const noexcept { return world_->ranks(); }
  World& world() noexcept { return *world_; }
  Team& team(int rank) noexcept;

  /// True when the algorithm runs only on a team with layers: what JobSpec::hierarchical is to be.
  static bool needs_layers(const Choice& choice, int nodes, int ranks_per_node) noexcept;

  /// Of its teams, the whole one and its layers: chooses as that of a real job does.
  Dispatcher& dispatcher() noexcept { return dispatcher_; }

  /// nullptr when the algorithm can run this call here, else why not.
  const char* restriction(const Choice& choice, const Call& call);

  /// Runs a collective `repeat` times on all ranks, back to back, each from its present time on,
  /// until nobody has anything left to do. `call_of(rank)` is taken once per rank, in rank order;
  /// what it points to must live until run() returns. On failure `*message` says why: the algorithm
  /// cannot run here, a rank failed, ranks wait for ever.
  Status run(const Choice& choice, const std::function<Call(int)>& call_of, int repeat,
             std::string* message) {
    return run(choice, call_of, repeat, Program{}, message);
  }
  /// The same within a program: `repeat` iterations of it.
  Status run(const Choice& choice, const std::function<Call(int)>& call_of, int repeat,
             const Program& program, std::string* message);

  /// When the rank came to the last run() and when it was through with it.
  Time started(int rank) const noexcept;
  Time finished(int rank) const noexcept;
  /// The latest of them; since the earliest rank came.
  Time duration() const noexcept;
  /// Gives all ranks the same time, the latest of theirs: an ideal barrier.
  void align() noexcept;
  /// Lets the rank come `duration` later to its next collective.
  void delay(int rank, Time duration) noexcept;

  /// For World::on_lost: true when the rank belongs to this Membership, which is then broken.
  static bool depends_on(const void* membership, int lost) noexcept;

  /// Bytes per rank that a job needs, apart from payload. For the check of memory and for reports.
  static std::size_t bytes_per_rank() noexcept;

 private:
  struct Rank;
  explicit SimJob(const Policy& policy) : dispatcher_(policy) {}
  Shape shape_of(const Call& call);
  Status run_without_algorithm() noexcept;
  Status check_result(std::string* message) noexcept;
  static Task run_rank(Rank& rank, const Choice& choice, std::uint64_t items, int repeat,
                       Program program) noexcept;
  static Task compute_and_poll(Rank& rank, Program program, std::uint64_t wanted) noexcept;
  static Task run_behind(Rank& rank, const Choice& choice, std::uint64_t items) noexcept;

  std::unique_ptr<World> world_;
  FramePool frames_;
  Dispatcher dispatcher_;  // of all ranks
  std::vector<std::int32_t> members_;
  LargeMemory memory_;  // of the ranks
  Rank* ranks_ = nullptr;
  int constructed_ = 0;
};

}  // namespace tutti::sim
