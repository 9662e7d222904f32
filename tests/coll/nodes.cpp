// Every collective with every algorithm of the list over the network, against the serial model: one
// rank on each of several nodes, several ranks on some, and ranks that are spread over the nodes in
// any order.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Case;
using test::Combination;
using test::Model;
using test::Rank;

/// With the algorithm of the combination, and a sum for those that reduce.
class Nodes : public ::testing::TestWithParam<Combination> {
 protected:
  void SetUp() override {
    settings_.algorithm = GetParam().forced;
    settings_.arena = std::size_t{128} << 20;
    settings_.deadline_s = 30;
    ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &sum_));
  }
  Coll coll() const { return GetParam().algorithm->coll; }

  Settings settings_;
  Reduction sum_;
};

// An inbox block holds 5120 bytes; the blocks of a broadcast 65536. Counts are of 4-byte elements.
const std::vector<std::size_t> kCounts = {1, 7, 300, 1281, 5000, 40000};

const std::vector<std::vector<int>> kLayouts = {
    {0, 1},
    {0, 1, 2},
    {0, 1, 2, 3, 4},
    {0, 1, 2, 3, 4, 5, 6, 7},  // a rank on each node
    {0, 0, 1, 1},
    {0, 0, 0, 1},
    {0, 1, 1, 2, 2, 2},  // ranks of a node follow each other
    {0, 1, 0, 1},
    {0, 1, 2, 1, 0},
    {2, 0, 1, 0, 2, 1, 0}};  // and do not

void run_cases(Rank& r, Coll coll, const Reduction& reduction) {
  std::uint64_t round = 0;
  for (const std::size_t count : kCounts) {
    for (const int root : test::roots(coll, r.size, round)) {
      const bool in_place = ++round % 2 == 0;
      const Model model(coll, r.size, root, count, round);
      Case mine(model, r.rank, in_place, reduction);
      const Status status = r.job.run(r.team, mine.call);
      ASSERT_TRUE(status.ok()) << name(status.code) << " "
                               << (status.detail != nullptr ? status.detail : "");
      const auto expected = model.expected(r.rank);
      ASSERT_EQ(mine.result(expected.size()), expected)
          << name(coll) << " rank " << r.rank << " of " << r.size << " root " << root << " count "
          << count << (in_place ? " in place" : "");
    }
  }
}

TEST_P(Nodes, MatchesTheModel) {
  for (const std::vector<int>& layout : kLayouts) {
    test::run_nodes(layout, settings_, [&](Rank& r) { run_cases(r, coll(), sum_); });
    std::string text;
    for (const int node : layout) text.append(1, ' ').append(std::to_string(node));
    ASSERT_FALSE(HasFailure()) << "ranks on nodes" << text;
  }
}

/// A root that comes late to each of many calls: those who run ahead overwrite nothing.
TEST_P(Nodes, ALateRootLosesNothing) {
  test::run_nodes({0, 1, 2, 2}, settings_, [&](Rank& r) {
    for (std::uint64_t round = 0; round < 40; ++round) {
      const Model model(coll(), r.size, 0, 30, round);
      Case mine(model, r.rank, false, sum_);
      if (r.rank == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ASSERT_TRUE(r.job.run(r.team, mine.call).ok());
      const auto expected = model.expected(r.rank);
      ASSERT_EQ(mine.result(expected.size()), expected) << "rank " << r.rank << " call " << round;
    }
  });
  test::run_nodes({0, 1}, settings_, [&](Rank& r) {
    for (std::uint64_t round = 0; round < 40; ++round) {
      const Model model(coll(), r.size, 0, 30, round);
      Case mine(model, r.rank, false, sum_);
      if (r.rank == 0 && round % 13 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ASSERT_TRUE(r.job.run(r.team, mine.call).ok());
      const auto expected = model.expected(r.rank);
      ASSERT_EQ(mine.result(expected.size()), expected) << "rank " << r.rank << " call " << round;
    }
  });
}

/// Large and small ones under way at once, which every rank waits for in another order, some ranks
/// only when the others have long begun to.
void run_at_once(Rank& r, Coll coll, const Reduction& reduction) {
  constexpr std::size_t counts[] = {40000, 7, 20000, 300};
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Model>> models;
    std::vector<std::unique_ptr<Case>> cases;
    std::vector<Operation*> operations;
    for (const std::size_t count : counts) {
      models.push_back(std::make_unique<Model>(coll, r.size, 0, count, round));
      cases.push_back(std::make_unique<Case>(*models.back(), r.rank, false, reduction));
      operations.push_back(nullptr);
      ASSERT_TRUE(r.job.start(r.team, cases.back()->call, &operations.back()).ok());
    }
    if ((static_cast<std::uint64_t>(r.rank) + round) % 2 == 0) usleep(2000);  // it computes
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const std::size_t k = (i + static_cast<std::size_t>(r.rank)) % operations.size();
      ASSERT_TRUE(r.job.wait(*operations[k]).ok());
      r.job.release(operations[k]);
      const auto expected = models[k]->expected(r.rank);
      ASSERT_EQ(cases[k]->result(expected.size()), expected)
          << name(coll) << " rank " << r.rank << " of " << r.size << " count " << counts[k];
    }
  }
}

TEST_P(Nodes, SeveralAreUnderWayAtOnce) {
  for (const std::vector<int>& layout : {std::vector<int>{0, 1, 2}, {0, 0, 1, 1}}) {
    test::run_nodes(layout, settings_, [&](Rank& r) { run_at_once(r, coll(), sum_); });
  }
}

// What a caller leaves to the progress thread happens while it is away, and something else is
// under way for which that thread sleeps already.
TEST(Progress, StartsWhatTheCallerHasLeftToIt) {
  Settings settings;
  settings.deadline_s = 30;
  for (const char* algorithm : {"allgather=exchange", "allgather=shared_buffer"}) {
    settings.algorithm = algorithm;
    std::atomic<bool> over{false};
    test::run_nodes({0, 1, 2}, settings, [&](Rank& r) {
      const std::int32_t members[] = {0, 1};
      Call barrier;
      barrier.coll = Coll::barrier;
      Operation *late = nullptr, *large = nullptr;
      if (r.rank < 2) {
        Team* pair = nullptr;
        ASSERT_TRUE(r.job.create_team(TeamSpec{{7, 7}, r.rank, 2, members}, &pair).ok());
        ASSERT_TRUE(r.job.start(r.team, barrier, &late).ok());
        usleep(5000);  // the thread has found nothing to do, and sleeps
        const Model model(Coll::allgather, 2, 0, 200'000, 1);
        Reduction none;
        Case mine(model, r.rank, false, none);
        ASSERT_TRUE(r.job.start(*pair, mine.call, &large).ok());
        while (r.rank == 1 && !over.load()) usleep(100);  // it does not come back before
        ASSERT_TRUE(r.job.wait(*large).ok());
        const auto expected = model.expected(r.rank);
        EXPECT_EQ(mine.result(expected.size()), expected);
        r.job.release(large);
        over.store(true);
      } else {
        while (!over.load()) usleep(100);
        ASSERT_TRUE(r.job.start(r.team, barrier, &late).ok());
      }
      ASSERT_TRUE(r.job.wait(*late).ok());
      r.job.release(late);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, Nodes, ::testing::ValuesIn(test::combinations()),
                         [](const auto& combination) {
                           std::string text = combination.param.forced;
                           for (char& c : text) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return text;
                         });

// An operator that does not commute: x (op) y = the pair (first of x, last of y), with counts of
// how many were folded, so that any other order is seen.
struct Range {
  std::int32_t first, last, folded, broken;
};

void append(const void* left, const void* right, void* out, std::size_t count, const Reduction&) {
  for (std::size_t i = 0; i < count; ++i) {
    const Range a = static_cast<const Range*>(left)[i], b = static_cast<const Range*>(right)[i];
    static_cast<Range*>(out)[i] = {a.first, b.last, a.folded + b.folded,
                                   a.broken + b.broken + (a.last + 1 != b.first)};
  }
}

class Order : public ::testing::TestWithParam<std::tuple<bool, bool, const char*>> {};

TEST_P(Order, IsThatOfTheRanks) {
  Settings settings;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 30;
  if (std::get<0>(GetParam())) settings.fixed_order = FixedOrder::on;
  settings.algorithm = std::get<2>(GetParam());
  Reduction reduction;
  reduction.fold = &append;
  reduction.element_bytes = sizeof(Range);
  reduction.commutative = false;
  reduction.divisible = std::get<1>(GetParam());
  for (const std::vector<int>& layout : kLayouts) {
    test::run_nodes(layout, settings, [&](Rank& r) {
      for (const std::size_t count : {1, 400, 9000}) {
        const auto size = static_cast<std::size_t>(r.size);
        const std::vector<Range> send(count * size, Range{r.rank, r.rank, 1, 0});
        std::vector<std::size_t> counts(size, count * sizeof(Range));  // but the second has none
        counts[1] = 0;
        counts[0] *= 2;
        for (const Coll coll : {Coll::allreduce, Coll::reduce, Coll::reduce_scatter_block,
                                Coll::reduce_scatter, Coll::scan, Coll::exscan}) {
          std::vector<Range> result(coll == Coll::reduce_scatter ? counts[r.rank] / sizeof(Range)
                                                                 : count);
          Call call;
          call.coll = coll;
          call.root = r.size - 1;
          call.send = send.data();
          call.recv = result.data();
          call.bytes = count * sizeof(Range);
          if (coll == Coll::reduce_scatter) {
            call.bytes *= size;
            call.counts = counts.data();
          }
          call.reduction = &reduction;
          ASSERT_TRUE(r.job.run(r.team, call).ok()) << name(coll);
          if (coll == Coll::reduce && r.rank != call.root) continue;
          if (coll == Coll::exscan && r.rank == 0) continue;
          const int last = coll == Coll::scan     ? r.rank
                           : coll == Coll::exscan ? r.rank - 1
                                                  : r.size - 1;
          for (const Range& range : result) {
            ASSERT_TRUE(range.first == 0 && range.last == last && range.folded == last + 1 &&
                        range.broken == 0)
                << name(coll) << " count " << count << ": " << range.first << " to " << range.last
                << ", " << range.folded << " folded, " << range.broken << " out of order";
          }
        }
      }
    });
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Order,
                         ::testing::Combine(::testing::Bool(), ::testing::Bool(),
                                            ::testing::Values("", "allreduce=rabenseifner")));

double operand(int rank, std::size_t i) {
  const auto r = static_cast<std::size_t>(rank);
  return std::ldexp(1.0 / static_cast<double>(1 + (31 * r + 7 * i) % 97),
                    static_cast<int>((r + i) % 40));
}

/// Of the first `ranks` ranks, from left to right.
double sum_in_order(int ranks, std::size_t i) {
  double sum = operand(0, i);
  for (int rank = 1; rank < ranks; ++rank) sum += operand(rank, i);
  return sum;
}

/// One sum of each kind. Blocks are of `count` elements; of a reduce-scatter with listed ones the
/// second rank's belongs to the first.
void compare_sums(Rank& r, Coll coll, std::size_t count) {
  Reduction sum;
  ASSERT_TRUE(find_reduction(Op::sum, Type::f64, &sum));
  const auto size = static_cast<std::size_t>(r.size), rank = static_cast<std::size_t>(r.rank);
  std::vector<double> send(count * size), result(2 * count, -1);
  for (std::size_t i = 0; i < send.size(); ++i) send[i] = operand(r.rank, i);
  std::vector<std::size_t> counts(size, count * sizeof(double));
  counts[0] *= 2;
  counts[1] = 0;
  Call call;
  call.coll = coll;
  call.send = send.data();
  call.recv = result.data();
  call.bytes = count * sizeof(double) * (coll == Coll::reduce_scatter ? size : 1);
  call.counts = coll == Coll::reduce_scatter ? counts.data() : nullptr;
  call.reduction = &sum;
  ASSERT_TRUE(r.job.run(r.team, call).ok()) << name(coll);
  if (coll == Coll::reduce && r.rank != 0) return;
  const int ranks = coll == Coll::scan ? r.rank + 1 : coll == Coll::exscan ? r.rank : r.size;
  const bool listed = coll == Coll::reduce_scatter;
  const std::size_t begin = listed || coll == Coll::reduce_scatter_block ? rank * count : 0;
  const std::size_t received = ranks == 0 ? 0 : listed ? counts[rank] / sizeof(double) : count;
  for (std::size_t i = 0; i < received; ++i)
    ASSERT_EQ(result[i], sum_in_order(ranks, begin + i)) << name(coll) << ", rank " << r.rank;
}

/// TUTTI_FIXED_ORDER: the bits of a sum that is formed from left to right, in any layout.
TEST(FixedOrder, IsFromLeftToRight) {
  Settings settings;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 30;
  settings.fixed_order = FixedOrder::on;
  const std::vector<std::vector<int>> layouts = {
      {0, 0, 0, 0, 0}, {0, 1, 2, 3, 4}, {0, 1, 1, 2, 2, 2}, {2, 0, 1, 0, 2, 1, 0}};
  for (const std::vector<int>& layout : layouts) {
    test::run_nodes(layout, settings, [&](Rank& r) {
      for (const std::size_t count : {1, 300, 20000}) {
        for (const Coll coll : {Coll::allreduce, Coll::reduce, Coll::reduce_scatter_block,
                                Coll::reduce_scatter, Coll::scan, Coll::exscan})
          compare_sums(r, coll, count);
      }
    });
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace tutti
