// TUTTI_FIXED_ORDER=exact: the same bits for any number of ranks, in any layout, by any algorithm.
//
// The sums are those of a list of terms, which are dealt out to the ranks anew for each number of
// ranks: what a rank gets of them is a term by itself, or zero. So every job has the same sum.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/exact_sum.hpp"
#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Rank;

__extension__ typedef __int128 Units;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What is hard to add up in any order but by an exact sum, and what comes out.
struct Hard {
  std::vector<double> terms;
  double sum;
};
const std::vector<Hard> kHard = {
    {{0x1p53, 1, 1}, 0x1.0000000000001p53},
    {{1, 0x1p-53, 0x1p-106}, 1 + 0x1p-52},
    {{1e308, 1e308, -1e308, -1e308}, 0},
    {{1e308, 1e308, -1e308, 3}, 1e308},
    {{1e308, 1e308}, kInfinity},
    {{0x1p1000, 0x1p-1074, -0x1p1000}, 0x1p-1074},
    {{kInfinity, -1e308}, kInfinity},
    {{kInfinity, -kInfinity}, std::numeric_limits<double>::quiet_NaN()},
    {{-0x1p-1074, 0x1p-1074}, 0},
    {{1e100, 1, -1e100, 1e-100}, 1},
};

std::uint64_t bits(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

const Hard& hard(std::size_t element) { return kHard[element % kHard.size()]; }

/// Of the terms of an element, the sum of those that this rank has: one, or none. `ranks`: that
/// take part, so many that each term has one of its own.
double term(std::size_t element, int rank, int ranks) {
  const auto& terms = hard(element).terms;
  const auto place =
      (static_cast<std::size_t>(rank) + 3 * element) % static_cast<std::size_t>(ranks);
  return place < terms.size() ? terms[place] : 0;
}

/// A call of each kind for `count` elements in each block, and what this rank must get.
class Sums {
 public:
  Sums(Coll coll, int rank, int size, std::size_t count, bool in_place)
      : rank_(static_cast<std::size_t>(rank)), size_(static_cast<std::size_t>(size)) {
    EXPECT_TRUE(find_reduction(Op::sum, Type::f64, &reduction_));
    make_exact(&reduction_);
    const bool scans = coll == Coll::scan || coll == Coll::exscan;
    const bool blocks = coll == Coll::reduce_scatter_block || coll == Coll::reduce_scatter;
    counts_.assign(size_, count);
    if (coll == Coll::reduce_scatter) {
      counts_[0] *= 2;  // and the second rank has none
      counts_[1] = 0;
    }
    const std::size_t elements = blocks ? count * size_ : count;
    for (std::size_t i = 0; i < elements; ++i)
      send_.push_back(scans ? prefix_term(i) : term(i, rank, size));
    recv_.assign(std::max(elements, counts_[rank_]) + 1, -7);
    if (in_place) std::copy(send_.begin(), send_.end(), recv_.begin());
    for (std::size_t& each : counts_) each *= sizeof(double);
    call_.coll = coll;
    call_.root = size - 1;
    call_.send = in_place ? recv_.data() : send_.data();
    call_.recv = recv_.data();
    call_.bytes = (coll == Coll::reduce_scatter ? elements : count) * sizeof(double);
    if (coll == Coll::reduce_scatter) call_.counts = counts_.data();
    call_.reduction = &reduction_;
  }
  const Call& call() const { return call_; }
  void check(const std::string& where) const {
    const Coll coll = call_.coll;
    if ((coll == Coll::reduce && rank_ + 1 != size_) || (coll == Coll::exscan && rank_ == 0))
      return;
    std::size_t begin = 0, count = send_.size();
    if (coll == Coll::reduce_scatter_block || coll == Coll::reduce_scatter) {
      begin = std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(rank_),
                              std::size_t{0}) /
              sizeof(double);
      count = counts_[rank_] / sizeof(double);
    }
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(bits(recv_[i]), bits(expected(begin + i)))
          << name(coll) << where << ": element " << i << " of rank " << rank_ << " is " << recv_[i]
          << ", not " << expected(begin + i);
  }

 private:
  /// Of a scan: rank r has 2^53, 1 or -2^53, so that only an exact sum keeps the ones.
  double prefix_term(std::size_t element) const {
    const double terms[] = {0x1p53, 1, 1, -0x1p53, 0x1p-40};
    return terms[(rank_ + element) % 5];
  }
  double expected(std::size_t element) const {
    if (call_.coll != Coll::scan && call_.coll != Coll::exscan) return hard(element).sum;
    // Whole multiples of 2^-40 that fit into 128 bits.
    Units sum = 0;
    const std::size_t end = call_.coll == Coll::scan ? rank_ + 1 : rank_;
    for (std::size_t r = 0; r < end; ++r) {
      const Units one = 1;
      const Units terms[] = {one << 93, one << 40, one << 40, -(one << 93), one};
      sum += terms[(r + element) % 5];
    }
    return std::ldexp(static_cast<double>(sum), -40);
  }

  std::size_t rank_, size_;
  Reduction reduction_;
  std::vector<double> send_, recv_;
  std::vector<std::size_t> counts_;
  Call call_;
};

constexpr Coll kReductions[] = {Coll::allreduce,      Coll::reduce, Coll::reduce_scatter_block,
                                Coll::reduce_scatter, Coll::scan,   Coll::exscan};

Settings exact() {
  Settings settings;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 60;
  settings.fixed_order = FixedOrder::exact;
  return settings;
}

void run_all(Rank& r, Coll coll, const std::vector<std::size_t>& counts, const std::string& where) {
  for (const std::size_t count : counts) {
    for (const bool in_place : {false, true}) {
      if (in_place && coll == Coll::reduce && r.rank + 1 != r.size) {
        Sums sums(coll, r.rank, r.size, count, false);  // in place at the root alone
        ASSERT_TRUE(r.job.run(r.team, sums.call()).ok()) << name(coll) << where;
        continue;
      }
      Sums sums(coll, r.rank, r.size, count, in_place);
      const Status status = r.job.run(r.team, sums.call());
      ASSERT_TRUE(status.ok()) << name(coll) << where << ": "
                               << (status.detail != nullptr ? status.detail : name(status.code));
      sums.check(where);
    }
  }
}

/// On a node, by whatever is chosen there: 4 ranks are enough for the terms of an element.
TEST(ExactSums, AreTheSameForAnyNumberOfRanks) {
  for (const int ranks : {4, 5, 8, 9, 17, 33, 64}) {
    const bool few = ranks > 16;
    test::run_threads(ranks, exact(), [&](Rank& r) {
      for (const Coll coll : kReductions)
        run_all(r, coll,
                few ? std::vector<std::size_t>{1, 600} : std::vector<std::size_t>{1, 14, 500, 9001},
                " of " + std::to_string(ranks) + " ranks");
    });
    ASSERT_FALSE(HasFailure());
  }
}

/// Every algorithm that can run such a call runs it; the others are not taken.
TEST(ExactSums, AreTheSameByEveryAlgorithm) {
  int taken = 0;
  for (const test::Combination& each : test::combinations()) {
    const Coll coll = each.algorithm->coll;
    if (!reduces(coll)) continue;
    Settings settings = exact();
    settings.algorithm = each.forced;
    std::atomic<int> runs{0};
    test::run_threads(5, settings, [&](Rank& r) {
      std::vector<std::size_t> counts;
      for (const std::size_t count : {1, 14, 500, 20000}) {
        const Sums sums(coll, r.rank, r.size, count, false);
        if (std::string(r.job.algorithm(r.team, sums.call())) == each.algorithm->name)
          counts.push_back(count);
      }
      if (!counts.empty()) runs = 1;
      run_all(r, coll, counts, " by " + each.forced);
    });
    ASSERT_FALSE(HasFailure());
    taken += runs;
  }
  EXPECT_GE(taken, 10);
}

TEST(ExactSums, AreTheSameInAnyLayout) {
  const std::vector<std::vector<int>> layouts = {
      {0, 1, 2, 3}, {0, 0, 1, 1}, {0, 1, 2, 3, 4}, {0, 1, 1, 2, 2, 2}, {2, 0, 1, 0, 2, 1, 0}};
  for (const char* algorithm :
       {"", "allreduce=two_shot", "allreduce=exchange", "allreduce=ordered"}) {
    for (const std::vector<int>& layout : layouts) {
      Settings settings = exact();
      settings.algorithm = algorithm;
      test::run_nodes(layout, settings, [&](Rank& r) {
        for (const Coll coll : kReductions) {
          if (*algorithm != '\0' && coll != Coll::allreduce) continue;
          run_all(r, coll, {1, 300, 9001}, std::string(" between nodes ") + algorithm);
        }
      });
      ASSERT_FALSE(HasFailure());
    }
  }
}

/// What is forced and cannot sum exactly does not run, whoever forces it.
TEST(ExactSums, AreNotFormedInTrees) {
  for (const char* algorithm :
       {"allreduce=tree", "scan=blocks", "reduce=tree", "allreduce=whole"}) {
    Settings settings = exact();
    settings.algorithm = algorithm;
    const std::string text = algorithm;
    const std::string forced = text.substr(text.find('=') + 1);
    test::run_threads(5, settings, [&](Rank& r) {
      for (const Coll coll : kReductions) {
        const Sums sums(coll, r.rank, r.size, 14, false);
        EXPECT_NE(r.job.algorithm(r.team, sums.call()), forced) << name(coll);
      }
    });
  }
}

}  // namespace
}  // namespace tutti
