// The choice by measured thresholds. docs/results.md has the measurements and the command that made
// them.
#include <algorithm>

#include "select/select.hpp"
#include "select/tuned.hpp"

namespace tutti {
namespace {

struct Preference {
  const char* name;
  std::size_t up_to;                   // bytes (of Shape::bytes)
  std::int64_t first;                  // the algorithm's first parameter; 0: its default
  std::int64_t second = 0, third = 0;  // likewise
};

constexpr std::size_t kAny = ~std::size_t{0};
constexpr std::size_t Ki = 1024, Mi = 1024 * 1024;
// Where everybody publishes, the few cells of a kilobyte are still in the readers' caches when they
// come round again, and the ring of blocks is faster. A root that runs ahead gains from the data
// beside the flag.
constexpr std::size_t kSymmetric = Ki - 1;

/// Where members share memory.
std::vector<Preference> within_a_node(const Shape& s) {
  switch (s.coll) {
    case Coll::barrier:
      return {{"flat", kAny, 0}};
    case Coll::bcast:
      return {{"flat", kAny, 0},
              {"blocks", 32 * Ki, 8 * Ki},
              {"blocks", 128 * Ki, 16 * Ki},
              {"blocks", kAny, 0}};
    case Coll::allreduce:
      return {
          {"flat", kSymmetric, 0}, {"blocks", 32 * Ki, 0}, {"split", kAny, 0}, {"whole", kAny, 0}};
    case Coll::reduce:
      return {{"flat", kAny, 0}, {"blocks", kAny, 16 * Ki}, {"whole", kAny, 0}};
    case Coll::reduce_scatter_block:
      return {
          {"flat", kSymmetric, 0}, {"blocks", kAny, 0}, {"memory", kAny, 0}, {"whole", kAny, 0}};
    case Coll::allgather:
    case Coll::allgatherv:
    case Coll::gather:
      return {{"flat", kSymmetric, 0}, {"blocks", kAny, 0}, {"memory", kAny, 0}};
    case Coll::scatter:
      return {
          {"flat", kSymmetric, 0}, {"blocks", 2 * Mi, 0}, {"memory", kAny, 0}, {"blocks", kAny, 0}};
    default:
      return {{"flat", kSymmetric, 0},
              {"blocks", 128 * Ki, 0},
              {"memory", kAny, 0},
              {"blocks", kAny, 0}};
  }
}

constexpr int kStep = 8;  // members up to which a tree of one step is taken, and multicast is not

/// Allreduce between nodes: whole vectors while latency counts, then parts. Where processors are
/// not scarce, by simulation (docs/results.md).
std::vector<Preference> reduce_everywhere(const Shape& s) {
  // A ring has 2 (N - 1) steps: it pays when its parts are large.
  const std::size_t large = 32 * Ki * static_cast<std::size_t>(s.size);
  std::vector<Preference> all = {{"doubling", s.scarce ? large : 32 * Ki, 0}};
  if (!s.scarce) all.push_back({"halving", large, 0});
  all.insert(all.end(), {{"ring", kAny, 0},
                         {"doubling", kAny, 0},
                         {"ordered", kAny, 0},
                         {"degree_k", Ki, 3},
                         {"degree_k", kAny, 1}});
  return all;
}

/// Between nodes, one member on each, where a rank has a processor: few steps.
std::vector<Preference> few_steps(const Shape& s) {
  switch (s.coll) {
    case Coll::barrier:
      return {{"dissemination", kAny, 0}, {"degree_k", kAny, 3}};
    case Coll::bcast:
      // By multicast about two sends instead of log2 N.
      if (s.size > kStep)
        return {{"multicast", kAny, 0}, {"binomial", kAny, 3072}, {"direct", kAny, 0}};
      return {{"binomial", kAny, 3072}, {"direct", kAny, 0}};
    case Coll::allreduce:
      return reduce_everywhere(s);
    case Coll::reduce:
      return {{"degree_k", kAny, 1}, {"direct", kAny, 0}, {"ordered", kAny, 0}};
    case Coll::reduce_scatter_block:
      return {{"direct", kAny, 0}, {"doubling", kAny, 0}, {"ordered", kAny, 0}};
    case Coll::allgather:
      // Few steps for what is latency, every block sent once by its owner for what is bandwidth.
      return {{"bruck", kAny, 0}, {"shared_buffer", 12 * Ki, 0}, {"direct", kAny, 0}};
    case Coll::allgatherv:
      return {{"bruck", kAny, 0}, {"direct", kAny, 0}};
    default:
      return {{"direct", kAny, 0}};
  }
}

// Numbers of members. One round of everybody with everybody takes one latency and N (N - 1)
// messages, a tree of one step up and one down two latencies and 2 (N - 1): measured in the lab,
// where a message costs 30 us of processor time (docs/results.md).
constexpr int kRound = 5;

/// The same where ranks share processors: few messages, and few wake-ups. Beyond kStep members
/// nothing was measured.
std::vector<Preference> few_messages(const Shape& s) {
  const bool round = s.size <= kRound, step = s.size <= kStep;
  if (!step) return few_steps(s);
  switch (s.coll) {
    case Coll::barrier:
      if (round) return {{"dissemination", kAny, kRound}, {"degree_k", kAny, 7, 7}};
      return {{"degree_k", kAny, 7, 7}};
    case Coll::bcast:
      return {{"binomial", 2 * Ki, 3072, 7},
              {"binomial", kAny, 5120, 1, 1},
              {"direct", 96 * Ki, 0},
              {"scatter_allgather", kAny, 0},
              {"direct", kAny, 0}};
    case Coll::allreduce: {
      std::vector<Preference> all;
      if (round) all = {{"exchange", 4 * Ki, 0}};
      all.insert(all.end(), {{"degree_k", kAny, 7, 7}, {"doubling", 12 * Ki, 0}});
      if (s.size > 2) all.push_back({"split_exchange", 2048 * Ki, 0});
      const std::vector<Preference> others = few_steps(s);
      all.insert(all.end(), others.begin(), others.end());
      return all;
    }
    case Coll::reduce:
      return {{"degree_k", kAny, 7}, {"direct", kAny, 0}, {"ordered", kAny, 0}};
    case Coll::allgather:
      return {{"exchange", 96 * Ki, 0}, {"shared_buffer", kAny, 0}, {"direct", kAny, 0}};
    case Coll::allgatherv:
      return {{"exchange", 512 * Ki, 0}, {"bruck", kAny, 0}, {"direct", kAny, 0}};
    default:
      return few_steps(s);
  }
}

std::vector<Preference> between_nodes(const Shape& s) {
  return s.scarce ? few_messages(s) : few_steps(s);
}

std::vector<Preference> without_processors(const Shape& s) {
  if (s.layered) {
    // Where the network is as fast as a processor copies and folds, all processors of a node should
    // (simulated: docs/results.md).
    if (s.coll == Coll::allreduce && s.bypass && !s.scarce && s.bytes >= 12 * Ki)
      return {{"lanes", kAny, 0}, {"layered", kAny, 0}, {"layered_ordered", kAny, 0}};
    // Every rank of a node works on one buffer, and copies while the network sends.
    if ((s.coll == Coll::allgather || s.coll == Coll::allgatherv) && !s.scarce)
      return {{"shared_buffer", kAny, 0}, {"layered", kAny, 0}};
    return {{"layered", kAny, 0}, {"layered_ordered", kAny, 0}};
  }
  if (!s.mapped) return between_nodes(s);
  return within_a_node(s);
}

/// In order of size; the first whose limit is not exceeded and that can run is taken. Whoever has
/// dedicated processors wants them used.
std::vector<Preference> preferences(const Shape& s) {
  std::vector<Preference> all = without_processors(s);
  if (s.dedicated) all.insert(all.begin(), Preference{"dcp", kAny, 0});
  return all;
}

}  // namespace

Choice choose(const Shape& shape, const Forced& forced, const Tuned* tuned) {
  if (const Choice* wanted = forced.of(shape.coll)) {
    if (wanted->algorithm->restriction(shape, wanted->parameters) == nullptr) return *wanted;
  }
  if (tuned != nullptr) {
    if (const Tuned::Rule* rule = tuned->of(shape)) return rule->choice;
  }
  for (const Preference& preference : preferences(shape)) {
    if (shape.bytes > preference.up_to) continue;
    const Algorithm* algorithm = find_algorithm(shape.coll, preference.name);
    if (algorithm == nullptr) continue;
    Parameters parameters = algorithm->defaults();
    if (preference.first != 0) parameters.value[0] = preference.first;
    if (preference.second != 0) parameters.value[1] = preference.second;
    if (preference.third != 0) parameters.value[2] = preference.third;
    if (algorithm->restriction(shape, parameters) == nullptr) return {algorithm, parameters};
  }
  return {};
}

ChoiceTable::ChoiceTable(Shape shape, const Forced& forced, const Tuned* tuned) {
  // Choices change only where a limit is; the limits are found by bisection between powers of two.
  const auto same = [](const Choice& a, const Choice& b) {
    return a.algorithm == b.algorithm &&
           std::equal(a.parameters.value, a.parameters.value + Parameters::kMost,
                      b.parameters.value);
  };
  const auto at_bytes = [&](std::size_t bytes) {
    shape.bytes = bytes;
    shape.longest_block = bytes;
    return choose(shape, forced, tuned);
  };
  std::size_t low = 0;
  Choice current = at_bytes(0);
  const int bits = shape.coll == Coll::barrier ? 0 : 48;  // a barrier has no bytes
  for (int bit = 0; bit < bits; ++bit) {
    const std::size_t high = std::size_t{1} << bit;
    const Choice next = at_bytes(high);
    if (!same(current, next)) {
      std::size_t known_same = low, known_other = high;
      while (known_other - known_same > 1) {
        const std::size_t middle = known_same + (known_other - known_same) / 2;
        (same(at_bytes(middle), current) ? known_same : known_other) = middle;
      }
      entries_.push_back({known_same, current});
      current = at_bytes(known_other);
      low = known_other;
      if (!same(current, next)) --bit;  // another limit before this power of two
    } else {
      low = high;
    }
  }
  entries_.push_back({~std::size_t{0}, current});
  smallest_ = entries_.front();
}

bool ChoiceTable::find_other(const Algorithm* wanted, std::size_t* bytes) const noexcept {
  std::size_t first = 0;
  for (const Entry& entry : entries_) {
    if (entry.choice.algorithm != wanted) {
      *bytes = first;
      return true;
    }
    first = entry.last + 1;
  }
  return false;
}

}  // namespace tutti
