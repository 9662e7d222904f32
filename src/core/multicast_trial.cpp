#include "core/multicast_trial.hpp"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <vector>

namespace tutti {
namespace {

constexpr std::uint64_t kTrialGroup[2] = {0x747269616c, 0};
constexpr std::uint64_t kTrialWord = 0x686561726420;

/// A trial: so many datagrams, so far apart, and how long others wait for the first. The second is
/// for networks that lose many, or that take their time to learn who is in a group.
struct Trial {
  int casts;
  int apart_ms;
  int patience_ms;
};
constexpr Trial kTrials[] = {{5, 1, 50}, {30, 5, 400}};

constexpr std::uint8_t kAll = (1U << kMedia) - 1;

void pause(int milliseconds) noexcept {
  const timespec time{0, milliseconds * 1'000'000L};
  nanosleep(&time, nullptr);
}

bool leads_its_node(const Bootstrap& bootstrap, const nodes::NodesFabric& fabric) {
  for (std::int32_t rank = 0; rank < bootstrap.rank(); ++rank)
    if (fabric.node_of(rank) == fabric.node_of(bootstrap.rank())) return false;
  return true;
}

unsigned join_groups(Candidates& candidates) {
  unsigned joined = 0;
  for (std::size_t medium = 0; medium < kMedia; ++medium) {
    Candidate& tried = candidates[medium];
    if (tried.datagrams != nullptr && tried.datagrams->join(kTrialGroup, 1, &tried.group).ok())
      joined |= bit_of(medium);
  }
  return joined;
}

void cast_words(const Candidates& candidates, const Trial& trial) {
  for (int i = 0; i < trial.casts; ++i) {
    for (const auto& [datagrams, group] : candidates) {
      if (group >= 0) static_cast<void>(datagrams->cast(group, &kTrialWord, sizeof kTrialWord));
    }
    pause(trial.apart_ms);
  }
}

/// Those by which the word has come.
unsigned listen(const Candidates& candidates, unsigned joined, const Fabric& fabric,
                int patience_ms) {
  const std::uint64_t until =
      fabric.now_ns() + static_cast<std::uint64_t>(patience_ms) * 1'000'000U;
  unsigned heard = 0;
  while (heard != joined && fabric.now_ns() < until) {
    pollfd readable[kMedia];
    nfds_t count = 0;
    for (std::size_t medium = 0; medium < kMedia; ++medium) {
      const auto& [datagrams, group] = candidates[medium];
      if ((joined & ~heard & bit_of(medium)) == 0) continue;
      std::uint64_t word = 0;
      if (datagrams->receive(group, &word, sizeof word) == sizeof word && word == kTrialWord)
        heard |= bit_of(medium);
      readable[count++] = {datagrams->descriptor(), POLLIN, 0};
    }
    if (heard == joined) break;
    poll(readable, count, 5);
    for (const auto& [datagrams, group] : candidates) {
      if (group >= 0) datagrams->progress();
    }
  }
  return heard;
}

/// The media by which all have heard it; where there is none, the first rank that lacks the last.
unsigned heard(const std::vector<std::uint8_t>& answers, std::int32_t* deaf) {
  unsigned by_all = kAll;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if ((by_all & answers[rank]) == 0) {
      *deaf = static_cast<std::int32_t>(rank);
      return 0;
    }
    by_all &= answers[rank];
  }
  return by_all;
}

const char* place_of(const Candidates& candidates) {
  const auto first = std::find_if(candidates.begin(), candidates.end(),
                                  [](const Candidate& one) { return one.datagrams != nullptr; });
  return first->datagrams->place();
}

}  // namespace

Status try_multicast(Bootstrap& bootstrap, const nodes::NodesFabric& fabric, Candidates candidates,
                     unsigned* heard_by_all, std::string* message) {
  const bool leads = leads_its_node(bootstrap, fabric);
  const auto size = static_cast<std::size_t>(bootstrap.size());
  const bool here = fabric.node_of(bootstrap.rank()) == fabric.node_of(0);
  const auto joined = static_cast<std::uint8_t>(leads ? join_groups(candidates) : kAll);
  std::int32_t deaf = 0;
  std::vector<std::uint8_t> answers(size);
  std::uint8_t answer = joined;
  TUTTI_TRY(bootstrap.allgather(&answer, answers.data(), 1));  // all are in the groups
  for (const Trial& trial : kTrials) {
    answer = joined;
    if (leads && here) {
      cast_words(candidates, trial);
    } else if (leads) {
      answer = static_cast<std::uint8_t>(listen(candidates, joined, fabric, trial.patience_ms));
    }
    TUTTI_TRY(bootstrap.allgather(&answer, answers.data(), 1));
    *heard_by_all = heard(answers, &deaf);
    if (*heard_by_all != 0) break;
  }
  for (const auto& [datagrams, group] : candidates) {
    if (group >= 0) datagrams->leave(group);
  }
  if (*heard_by_all == 0) {
    *message = "datagrams from node " + std::to_string(fabric.node_of(0)) +
               " do not get through to node " + std::to_string(fabric.node_of(deaf)) + " on " +
               place_of(candidates);
  }
  return Status::success();
}

}  // namespace tutti
