// Every collective with every algorithm of the list that can run, against a serial model: sizes
// around each threshold, 1 to 9 ranks, every root, in place and not.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/cores.hpp"
#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Case;
using test::Combination;
using test::Model;
using test::Rank;

class Collectives : public ::testing::TestWithParam<Combination> {};

void run_cases(Rank& r, Coll coll, const Reduction& reduction,
               const std::vector<std::size_t>& counts) {
  std::uint64_t round = 0;
  for (const std::size_t count : counts) {
    for (const int root : test::roots(coll, r.size, round)) {
      for (const bool in_place : {false, true}) {
        const Model model(coll, r.size, root, count, ++round);
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
}

// The small cell holds 120 bytes, the cell 1144, an inbox block 5120, a shared block 65536; counts
// are of 4-byte elements.
const std::vector<std::size_t> kAllCounts = {0,   1,   3,    14,   15,   28,   127,   255,   256,
                                             286, 287, 1000, 1279, 1281, 3000, 16383, 16385, 40000};

const std::vector<std::size_t> kFewCounts = {0, 1, 15, 287, 1281, 16385};

/// TEST_LEVEL=0 takes few sizes and ranks, which is what sanitizers have time for; 1 (else) all.
bool reduced() {
  const char* text = std::getenv("TEST_LEVEL");
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return text == nullptr || std::string(text) == "0";
#else
  return text != nullptr && std::string(text) == "0";
#endif
}

TEST_P(Collectives, MatchesTheModel) {
  Settings settings;
  settings.algorithm = GetParam().forced;
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  for (int ranks = 1; ranks <= 9; ++ranks) {
    if (reduced() && ranks != 2 && ranks != 5) continue;
    test::run_threads(ranks, settings, [&](Rank& r) {
      run_cases(r, GetParam().algorithm->coll, reduction, reduced() ? kFewCounts : kAllCounts);
    });
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Collectives, ::testing::ValuesIn(test::combinations()),
                         [](const auto& combination) {
                           std::string text = combination.param.forced;
                           for (char& c : text) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return text;
                         });

Call call_of(Coll coll, int root, const Reduction* reduction, const void* send, void* recv,
             std::size_t bytes) {
  Call call;
  call.coll = coll;
  call.root = root;
  call.reduction = reduction;
  call.send = send;
  call.recv = recv;
  call.bytes = bytes;
  return call;
}

/// Many ranks on a node: what the rules choose, and the trees of cells, whose interior ranks have
/// several children in several steps.
class LargeNodes : public ::testing::TestWithParam<int> {};

TEST_P(LargeNodes, MatchTheModel) {
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  const bool few = GetParam() > 33 || reduced();  // the more ranks, the longer each call takes
  if (reduced() && GetParam() > 16) GTEST_SKIP() << "TEST_LEVEL=0: 16 ranks only";
  const std::vector<std::size_t> counts =
      few ? std::vector<std::size_t>{1, 286} : std::vector<std::size_t>{0, 1, 30, 250, 286, 2000};
  for (const char* degree : {"", "3", "1", "7"}) {
    if (few && *degree == '1') break;
    Settings settings;
    for (const char* coll : {"barrier", "bcast", "reduce", "allreduce"}) {
      if (*degree == '\0') break;
      settings.algorithm += settings.algorithm.empty() ? "" : ",";
      settings.algorithm += std::string(coll) + "=tree:degree=" + degree;
    }
    const bool all = settings.algorithm.empty();
    // Trees by rank, along parts that follow each other, and along parts that ranks are dealt out
    // to.
    settings.topology = *degree == '3'   ? "package:2 numa:2 l3:2 core:3 scattered"
                        : *degree == '7' ? "package:2 l3:3 core:5"
                                         : "";
    test::run_threads(GetParam(), settings, [&](Rank& r) {
      // Where ranks share processors each hop of a tree costs a turn of all of them.
      if (all) {
        ASSERT_STREQ(
            r.job.algorithm(r.team, call_of(Coll::barrier, 0, nullptr, nullptr, nullptr, 0)),
            r.size > available_cores() ? "flat" : "tree");
      }
      for (int i = 0; i < kColls; ++i) {
        const auto coll = static_cast<Coll>(i);
        if (all || coll == Coll::barrier || coll == Coll::bcast || coll == Coll::reduce ||
            coll == Coll::allreduce)
          run_cases(r, coll, reduction, counts);
      }
    });
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, LargeNodes, ::testing::Values(16, 33, 64),
                         ::testing::PrintToStringParamName());

/// Collectives along a machine: of one to four levels, with parts that hold many members or one, of
/// elements that fill blocks or do not, in place and not.
class Nested : public ::testing::TestWithParam<std::pair<int, const char*>> {};

/// Those that have a nested algorithm.
std::vector<Coll> nested() {
  std::vector<Coll> all;
  for (const Algorithm* one : algorithms())
    if (std::string(one->name) == "nested") all.push_back(one->coll);
  return all;
}

/// Elements of a vector, or of each member's block, of which the model makes `ranks` for each rank.
std::vector<std::size_t> nested_counts(Coll coll, int ranks) {
  const bool few = reduced() || ranks > 16;
  const bool blocks = coll == Coll::allgather || coll == Coll::gather || coll == Coll::alltoall;
  if (blocks)
    return few ? std::vector<std::size_t>{1, 70} : std::vector<std::size_t>{0, 1, 30, 700};
  return few ? std::vector<std::size_t>{1, 300, 5000}
             : std::vector<std::size_t>{0, 1, 15, 300, 2047, 2048, 2049, 40000};
}

TEST_P(Nested, MatchesTheModel) {
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  const auto [ranks, machine] = GetParam();
  if (reduced() && ranks > 16) GTEST_SKIP() << "TEST_LEVEL=0: 16 ranks only";
  Settings settings;
  for (const Coll coll : nested()) {
    settings.algorithm += settings.algorithm.empty() ? "" : ",";
    settings.algorithm += std::string(name(coll)) + "=nested";
  }
  settings.topology = machine;
  settings.block = std::size_t{8} << 10;  // so that there are many chunks
  settings.deadline_s = 60;
  test::run_threads(ranks, settings, [&](Rank& r) {
    for (const Coll coll : nested()) {
      ASSERT_STREQ(r.job.algorithm(r.team, call_of(coll, 0, &reduction, nullptr, nullptr, 4)),
                   "nested");
      run_cases(r, coll, reduction, nested_counts(coll, r.size));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Machines, Nested,
    ::testing::Values(std::pair{16, "package:2 numa:2 l3:2 core:2"},
                      std::pair{16, "package:2 numa:2 l3:2 core:2 scattered"},
                      std::pair{12, "package:2 l3:3 core:2"},
                      std::pair{6, "package:2 core:3 scattered"},
                      std::pair{4, "package:2 l3:2 core:1"},
                      std::pair{12, "package:4 core:4"},  // 4, 4 and 4: the last package is empty
                      std::pair{33, "l3:3 core:11"}, std::pair{64, "package:2 l3:4 core:8"},
                      std::pair{64, "package:2 numa:2 l3:4 core:4 scattered"},
                      std::pair{128, "package:2 l3:8 core:8"}),
    [](const auto& pair) { return "n" + std::to_string(pair.index); });

/// Of one team, blocks that peers along the machine read and blocks that anybody may read take
/// turns. The others run ahead of a root that comes late, and some of them come after their peers.
TEST(NestedMixed, LateRootsGetWhatWasPostedForThem) {
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  Settings settings;
  settings.algorithm = "bcast=nested,gather=blocks,gatherv=blocks";
  settings.topology = "package:2 l3:2 core:4 scattered";
  settings.deadline_s = 60;
  const auto late = std::chrono::milliseconds(2);
  test::run_threads(16, settings, [&](Rank& r) {
    std::uint64_t round = 0;
    const auto run = [&](Coll coll, int root, std::size_t count) {
      const Model model(coll, r.size, root, count, ++round);
      Case mine(model, r.rank, false, reduction);
      ASSERT_TRUE(r.job.run(r.team, mine.call).ok());
      const auto expected = model.expected(r.rank);
      ASSERT_EQ(mine.result(expected.size()), expected)
          << name(coll) << " rank " << r.rank << " root " << root << " round " << round;
    };
    for (int turn = 0; turn < 104 && !::testing::Test::HasFatalFailure(); ++turn) {
      const int root = 5 * turn % r.size;
      for (int i = 0; i <= turn % 13; ++i) run(Coll::bcast, turn % r.size, 20);
      if (r.rank == root) std::this_thread::sleep_for(4 * late);
      if (r.rank == (root + 1 + turn % 15) % r.size) std::this_thread::sleep_for(late);
      const bool listed = turn % 4 == 3;
      for (int i = 0; i < 40; ++i)
        run(listed ? Coll::gatherv : Coll::gather, root, listed ? 2000 : 20);
    }
  });
}

/// An operator that does not commute: ranges of ranks, and how many of them do not follow each
/// other.
struct Ranks {
  std::int32_t first, last, broken;
};

void append(const void* left, const void* right, void* out, std::size_t count, const Reduction&) {
  for (std::size_t i = 0; i < count; ++i) {
    const Ranks a = static_cast<const Ranks*>(left)[i], b = static_cast<const Ranks*>(right)[i];
    static_cast<Ranks*>(out)[i] = {a.first, b.last,
                                   a.broken + b.broken + (a.last + 1 == b.first ? 0 : 1)};
  }
}

/// Of one team, trees by rank and along the machine's parts, and cells that all members read, take
/// turns often enough for every cell to be used by each of them.
class LargeNodesMixed : public ::testing::TestWithParam<WaitMode> {};

TEST_P(LargeNodesMixed, TreesAndFlatsTakeTurns) {
  Settings settings;
  settings.wait = GetParam();
  settings.topology = "package:2 l3:2 core:4 scattered";
  settings.algorithm = "allreduce=tree,reduce=tree:degree=7,bcast=tree,barrier=tree:degree=1";
  settings.deadline_s = 60;
  Reduction sum, order;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &sum));
  order.fold = &append;
  order.element_bytes = sizeof(Ranks);
  order.commutative = false;
  test::run_threads(16, settings, [&](Rank& r) {
    for (std::int32_t round = 0; round < 200; ++round) {
      const int root = round % r.size, last = r.size - 1;
      const Ranks mine{r.rank, r.rank, 0};
      Ranks all{-1, -1, -1};
      ASSERT_TRUE(
          r.job.run(r.team, call_of(Coll::allreduce, 0, &order, &mine, &all, sizeof mine)).ok());
      ASSERT_TRUE(all.first == 0 && all.last == last && all.broken == 0) << all.broken;
      const std::int32_t one = round + r.rank;
      std::int32_t total = -1, told = r.rank == root ? 7 * round : -1;
      ASSERT_TRUE(r.job.run(r.team, call_of(Coll::allreduce, 0, &sum, &one, &total, 4)).ok());
      ASSERT_EQ(total, round * r.size + last * r.size / 2);
      ASSERT_TRUE(r.job.run(r.team, call_of(Coll::bcast, root, nullptr, &told, &told, 4)).ok());
      ASSERT_EQ(told, 7 * round);
      total = -1;
      ASSERT_TRUE(r.job.run(r.team, call_of(Coll::reduce, root, &sum, &one, &total, 4)).ok());
      ASSERT_TRUE(r.rank != root || total == round * r.size + last * r.size / 2);
      std::vector<std::int32_t> gathered(static_cast<std::size_t>(r.size), -1);  // flat
      ASSERT_TRUE(
          r.job.run(r.team, call_of(Coll::allgather, 0, nullptr, &one, gathered.data(), 4)).ok());
      ASSERT_EQ(gathered.back(), round + last);
      const std::vector<Ranks> many(round % 8 == 0 ? 700 : 1, mine);
      std::vector<Ranks> folded(many.size());
      ASSERT_TRUE(r.job
                      .run(r.team, call_of(Coll::allreduce, 0, &order, many.data(), folded.data(),
                                           many.size() * sizeof mine))
                      .ok());
      ASSERT_TRUE(folded.back().last == last && folded.back().broken == 0);
      ASSERT_TRUE(round % 3 != 0 || r.job.run(r.team, Call{}).ok());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Waits, LargeNodesMixed,
                         ::testing::Values(WaitMode::automatic, WaitMode::sleep),
                         [](const auto& mode) {
                           return mode.param == WaitMode::sleep ? "sleep" : "automatic";
                         });

/// Who runs ahead by all its cells sleeps until the others are through with them.
TEST(Ahead, RootsWaitForReadersAsleep) {
  Settings settings;
  settings.wait = WaitMode::sleep;
  settings.deadline_s = 60;
  for (const char* algorithm : {"bcast=flat", "bcast=tree"}) {
    settings.algorithm = algorithm;
    test::run_threads(5, settings, [](Rank& r) {
      for (std::int32_t round = 0; round < 1000; ++round) {
        // The readers come late, when the root has used all its cells.
        if (r.rank != 0 && round % 200 == 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(2 * r.rank));
        std::int32_t told = r.rank == 0 ? round : -1;
        ASSERT_TRUE(r.job.run(r.team, call_of(Coll::bcast, 0, nullptr, &told, &told, 4)).ok());
        ASSERT_EQ(told, round);
      }
    });
  }
}

/// Puts of rank 0 are accepted and fail later, for another reason than a lost peer.
class FailedPuts : public ::testing::TestWithParam<const char*> {};

TEST_P(FailedPuts, EndTheCollectiveEverywhere) {
  const std::string forced = GetParam();
  Coll coll = Coll::barrier;
  for (int i = 0; i < kColls; ++i) {
    if (forced.rfind(std::string(name(static_cast<Coll>(i))) + "=", 0) == 0)
      coll = static_cast<Coll>(i);
  }
  Settings settings;
  settings.algorithm = forced;
  settings.deadline_s = 20;
  settings.fault = "fail:op=put:us=500:code=unsupported:count=0:rank=0";
  Reduction reduction;
  ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  // Rank 0 sends in all of them, and to the other one last.
  const Model model(coll, 2, coll == Coll::reduce ? 1 : 0, 200, 1);
  test::run_threads(2, settings, [&](Rank& r) {
    Case mine(model, r.rank, false, reduction);
    const Status status = r.job.run(r.team, mine.call);
    EXPECT_EQ(status.code, Code::unsupported) << "rank " << r.rank << ": " << name(status.code);
  });
}

INSTANTIATE_TEST_SUITE_P(All, FailedPuts,
                         ::testing::Values("bcast=binomial", "bcast=sendrecv_binomial",
                                           "reduce=degree_k", "allreduce=degree_k",
                                           "allreduce=sendrecv_binomial",
                                           "allreduce=sendrecv_recursive_doubling",
                                           "allgather=sendrecv_ring", "allgather=sendrecv_bruck",
                                           "allgather=sendrecv_recursive_doubling"),
                         [](const auto& test) {
                           std::string text = test.param;
                           text[text.find('=')] = '_';
                           return text;
                         });

}  // namespace
}  // namespace tutti
