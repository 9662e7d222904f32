// One case of the fault campaign: a small job in which something goes wrong, and what each of its
// ranks has seen of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "support/collective_model.hpp"

namespace tutti::faults {

inline constexpr int kMostRanks = 8;

/// How the job is made: processes of one node, threads on several nodes, with dedicated processors.
enum class World : std::uint8_t { processes, nodes, dedicated };
/// What the ranks do.
enum class Work : std::uint8_t { blocking, waiting, testing, messages };
/// What must come of it: all see the same failure; nothing but what `survivors` are told of a
/// death; the deadline; or nothing at all.
enum class Outcome : std::uint8_t { alike, lost, late, none };

struct Case {
  std::string kind;  // as the summary counts them
  World world = World::processes;
  Work work = Work::blocking;
  Outcome expected = Outcome::alike;
  int ranks = 2;
  int processors = 0;             // dedicated ones, behind the ranks
  int victim = 1;                 // the rank that the fault is for
  std::vector<int> nodes;         // of each rank (and processor), World::nodes
  test::Combination combination;  // of collectives
  std::size_t count = 0;          // elements, or bytes of a message
  Settings settings;
  // What the victim does to itself in the middle, where it is not injected below it.
  bool stops = false;            // stopped for 400 ms
  bool few_descriptors = false;  // no new descriptor can be opened
  bool no_attach = false;        // gives its user id away: cross-memory attach is refused
  bool cut = false;              // its network goes without a word (World::nodes)
  int sleeps_ms = 0;             // before its first collective
};

/// The case of that number: the same for a seed whatever came before it.
Case make_case(std::uint64_t seed, std::uint64_t number, const std::string& only);
std::vector<std::string> kinds();
std::string text_of(const Case& c);

/// What a rank has seen. In memory that all processes of a case share.
struct Seen {
  std::int32_t ended = 0;  // the body came to its end
  std::int32_t code = 0;   // of the first failure; 0: none
  std::int32_t peer = -1;
  std::int32_t again = 0;  // code of the operation after it
  double seconds = 0;      // that the failing operation took
  std::int32_t wrong = 0;  // results that were wrong
};

struct Report {
  std::array<Seen, kMostRanks> seen;
  std::array<std::int32_t, 2 * kMostRanks> statuses;  // wait statuses of processes
  std::int32_t finished = 0;                          // the case itself came to its end
};

/// Runs it in this process, which may not survive.
void run_case(const Case& c, Report& report);

/// What is wrong with what was seen; empty: nothing. `*struck`: the fault has come to pass.
std::string judge(const Case& c, const Report& report, bool* struck);

}  // namespace tutti::faults
