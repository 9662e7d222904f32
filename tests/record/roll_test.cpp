// The roll call, of records made by hand.
#include "mpi/record/roll.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mpi/generated/function_index.h"
#include "mpi/record/node_roll.hpp"

namespace {

using tutti::Coll;
using tutti::roll::Group;
using tutti::roll::RankSeen;
using tutti::roll::Roll;

constexpr std::uint64_t kWorld = 0x1111, kOther = 0x2222;
constexpr std::uint64_t kHandle = 0x44000000;
constexpr std::uint64_t kSecond = 1'000'000'000;

/// Ranks of a job, each with a world and a communicator of its even ranks.
class RollTest : public testing::Test {
 protected:
  explicit RollTest(int size = 4) : records_(static_cast<std::size_t>(size)) {
    struct stat own;
    const bool known = stat("/proc/self/ns/pid", &own) == 0;
    for (int rank = 0; rank < size; ++rank) {
      tutti_record& record = of(rank);
      record.magic = TUTTI_RECORD_MAGIC;
      record.signature = TUTTI_MPI_TABLE_SIGNATURE;
      record.rank = rank;
      record.size = size;
      record.pid = getpid();
      record.job = 7;
      record.processes = known ? own.st_ino : 0;
      record.started = tutti::roll::started_of(getpid());
      record.any_source = -2;
      record.any_tag = -1;
      std::strcpy(record.program, "app");
      add_row(&record.comms[0], kWorld, size, 0, 1, "MPI_COMM_WORLD");
      if (rank % 2 == 0) add_row(&record.comms[1], kOther, size / 2, 0, 2, "even");
    }
  }

  tutti_record& of(int rank) { return records_[static_cast<std::size_t>(rank)]; }

  static void add_row(tutti_comm_row* row, std::uint64_t id, int size, int first, int stride,
                      const char* name) {
    row->id = id;
    row->handle = kHandle + id;
    row->size = size;
    row->first = first;
    row->stride = stride;
    std::strcpy(row->name, name);
  }

  /// A call of thread `lane` that has begun.
  tutti_lane& enter(int rank, tutti_mpi_function function, int lane = 0) {
    tutti_lane& one = of(rank).lanes[lane];
    one.count += 1 + (one.count & 1);
    one.function = function;
    one.site = 0x1000;
    one.peer = TUTTI_NO_RANK;
    return one;
  }

  void collective(int rank, tutti_mpi_function function, Coll coll, std::uint64_t bytes, int root,
                  int row = 0) {
    tutti_lane& lane = enter(rank, function);
    tutti_comm_row& comm = of(rank).comms[row];
    tutti_past& past = comm.past[++comm.number % TUTTI_RECORD_PAST];
    past = {comm.number, lane.site, bytes,
            static_cast<std::uint64_t>(coll) | 0xffff00 |
                std::uint64_t{static_cast<std::uint32_t>(root)} << 32};
    lane.detail =
        reinterpret_cast<std::uintptr_t>(&past) - reinterpret_cast<std::uintptr_t>(&of(rank));
    lane.detail_count = lane.count;
  }

  void barrier(int rank, int row = 0) {
    collective(rank, TUTTI_MPI_Barrier, Coll::barrier, 0, TUTTI_NO_RANK, row);
  }
  void receive(int rank, int from) {
    tutti_lane& lane = enter(rank, TUTTI_MPI_Recv);
    lane.peer = from;
    lane.tag = 5;
    lane.comm = kHandle + kWorld;
  }
  void leave(int rank) { ++of(rank).lanes[0].count; }

  Roll call() {
    std::vector<const tutti_record*> records;
    for (const tutti_record& record : records_) records.push_back(&record);
    return tutti::roll::call_roll(
        tutti::roll::read_records(records),
        [](const RankSeen&, std::uint64_t site) { return "app+" + std::to_string(site); });
  }

  std::vector<tutti_record> records_;
};

std::vector<std::int32_t> ranks_of(const Roll& roll, const std::string& what) {
  for (const Group& group : roll.groups) {
    if (group.what == what) return group.ranks;
  }
  return {};
}

using Ranks = std::vector<std::int32_t>;

TEST_F(RollTest, ARankWithoutAFreeRowIsNotMissing) {
  for (const int rank : {0, 2}) barrier(rank);
  for (int row = 0; row < TUTTI_RECORD_COMMS; ++row) {
    of(1).comms[row].id = 0x7000 + static_cast<std::uint64_t>(row);
    of(1).comms[row].size = 2;
  }
  const std::vector<std::string> findings = call().findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0], "MPI_Barrier no. 1 on MPI_COMM_WORLD waits for rank 3");
}

TEST_F(RollTest, GroupsRanksThatDoTheSame) {
  for (const int rank : {0, 1, 3}) {
    collective(rank, TUTTI_MPI_Bcast, Coll::bcast, 4711, 2);
    tutti_lane& lane = of(rank).lanes[0];
    lane.since_count = lane.count;
    lane.since_ns = static_cast<std::uint64_t>(rank + 1) * kSecond;
  }
  receive(2, 3);
  const Roll roll = call();
  ASSERT_EQ(roll.groups.size(), 2u);
  EXPECT_EQ(roll.groups[0].what, "in MPI_Bcast no. 1 on MPI_COMM_WORLD (4,711 bytes, root 2)");
  EXPECT_EQ(roll.groups[0].ranks, (Ranks{0, 1, 3}));
  EXPECT_EQ(roll.groups[0].call.since_ns, kSecond);  // the earliest
  EXPECT_EQ(roll.groups[1].what, "in MPI_Recv from 3 (tag 5) on MPI_COMM_WORLD");
  EXPECT_EQ(tutti::roll::text_of(roll, 4, 36 * kSecond),
            "  ranks 0, 1, 3 (3 of 4): in MPI_Bcast no. 1 on MPI_COMM_WORLD (4,711 bytes, root 2), "
            "called at app+4096, for 35 s\n"
            "  rank 2: in MPI_Recv from 3 (tag 5) on MPI_COMM_WORLD, called at app+4096\n"
            "  -> MPI_Bcast no. 1 on MPI_COMM_WORLD waits for rank 2\n"
            "  -> in a circle: rank 2 waits for rank 3, which waits for rank 2\n");
}

TEST_F(RollTest, SaysWhatOnlyTheRecordKnows) {
  for (int rank = 0; rank < 4; ++rank) barrier(rank);
  leave(0);
  of(1).finalizing = 1;
  of(2).started += 1;  // another process has its number now
  const Roll roll = call();
  EXPECT_EQ(ranks_of(roll, "in MPI_Finalize"), Ranks{1});
  EXPECT_EQ(ranks_of(roll, "ended, inside MPI_Barrier no. 1 on MPI_COMM_WORLD"), Ranks{2});
  EXPECT_EQ(ranks_of(roll, "in MPI_Barrier no. 1 on MPI_COMM_WORLD"), Ranks{3});
  EXPECT_EQ(roll.groups.size(), 4u);
}

TEST_F(RollTest, FindsCallsThatDiffer) {
  for (const int rank : {0, 2, 3}) collective(rank, TUTTI_MPI_Bcast, Coll::bcast, 4, 0);
  collective(1, TUTTI_MPI_Reduce, Coll::reduce, 4, 0);
  Roll roll = call();
  ASSERT_EQ(roll.findings.size(), 1u);
  EXPECT_EQ(roll.findings[0],
            "different collectives have met: ranks 0, 2, 3 (3 of 4) have called MPI_Bcast no. 1 on "
            "MPI_COMM_WORLD (4 bytes, root 0) at app+4096; rank 1 has called MPI_Reduce no. 1 on "
            "MPI_COMM_WORLD (4 bytes, root 0) at app+4096");
}

TEST_F(RollTest, FindsARootThatDiffersAfterTheCall) {
  for (int rank = 0; rank < 4; ++rank) {
    collective(rank, TUTTI_MPI_Bcast, Coll::bcast, 4, rank == 3 ? 3 : 0);
    leave(rank);
    barrier(rank);
    leave(rank);
  }
  const Roll roll = call();
  ASSERT_EQ(roll.findings.size(), 1u);
  EXPECT_TRUE(roll.findings[0].starts_with("the roots differ: ")) << roll.findings[0];
}

TEST_F(RollTest, ForgetsWhatHasBeenOverwritten) {
  collective(0, TUTTI_MPI_Bcast, Coll::bcast, 4, 1);
  leave(0);
  for (int i = 0; i < TUTTI_RECORD_PAST; ++i) {
    barrier(0);
    leave(0);
  }
  for (int rank = 1; rank < 4; ++rank) collective(rank, TUTTI_MPI_Bcast, Coll::bcast, 4, 0);
  const Roll roll = call();
  ASSERT_EQ(roll.findings.size(), 0u)
      << roll.findings[0];  // all have come to it, as far as is known
}

TEST_F(RollTest, LooksForMembersOnly) {
  barrier(0, 1);
  const Roll roll = call();
  ASSERT_EQ(roll.findings.size(), 1u);
  EXPECT_EQ(roll.findings[0], "MPI_Barrier no. 1 on even waits for rank 2");
}

TEST_F(RollTest, FindsTwoCommunicatorsInTheWrongOrder) {
  barrier(0);
  for (const int rank : {1, 3}) barrier(rank);
  barrier(2, 1);
  const Roll roll = call();
  ASSERT_EQ(roll.findings.size(), 3u);
  EXPECT_EQ(roll.findings[0], "MPI_Barrier no. 1 on MPI_COMM_WORLD waits for rank 2");
  EXPECT_EQ(roll.findings[1], "MPI_Barrier no. 1 on even waits for rank 0");
  EXPECT_EQ(roll.findings[2], "in a circle: rank 0 waits for rank 2, which waits for rank 0");
}

/// A wait for a message of another call, on the communicator of the even ranks.
TEST_F(RollTest, FindsACircleOfMessagesThatAreAwaited) {
  for (const int rank : {0, 2}) {
    tutti_lane& lane = enter(rank, TUTTI_MPI_Waitall);
    lane.peer = 1 - rank / 2;
    lane.tag = 6;
    lane.comm = kHandle + kOther;
    lane.detail = rank == 0 ? TUTTI_DETAIL_RECEIVE : TUTTI_DETAIL_SEND;
    lane.detail_count = lane.count;
  }
  const Roll roll = call();
  EXPECT_EQ(ranks_of(roll, "in MPI_Waitall for a message from 1 (tag 6) on even"), Ranks{0});
  EXPECT_EQ(ranks_of(roll, "in MPI_Waitall for a message to 0 (tag 6) on even"), Ranks{2});
  ASSERT_EQ(roll.findings.size(), 1u);
  EXPECT_EQ(roll.findings[0], "in a circle: rank 0 waits for rank 2, which waits for rank 0");
}

TEST_F(RollTest, SaysToWhomAMessageIsSent) {
  tutti_lane& lane = enter(1, TUTTI_MPI_Send);
  lane.peer = 3;
  lane.tag = 5;
  lane.comm = kHandle + kWorld;
  EXPECT_EQ(ranks_of(call(), "in MPI_Send to 3 (tag 5) on MPI_COMM_WORLD"), Ranks{1});
}

/// As another machine's ranks are seen, whose records are copied twice.
TEST_F(RollTest, ReadsCopiesOfRecords) {
  for (int rank = 0; rank < 2; ++rank) barrier(rank);
  tutti_record first, second;
  tutti::roll::copy_record(of(0), &first);
  leave(0);
  barrier(0);
  tutti::roll::copy_record(of(0), &second);
  RankSeen seen;
  ASSERT_TRUE(tutti::roll::read_copies(first, second, &seen));
  ASSERT_EQ(seen.calls.size(), 1u);
  EXPECT_TRUE(seen.calls[0].inside && seen.calls[0].moved);
  EXPECT_EQ(seen.calls[0].passed.number, 1u);
  EXPECT_EQ(seen.comms[0].number, 2u);  // what it has come to since counts
  ASSERT_TRUE(tutti::roll::read_copies(second, second, &seen));
  EXPECT_FALSE(seen.calls[0].moved);
  first.magic = 0;
  EXPECT_FALSE(tutti::roll::read_copies(first, second, &seen));
}

/// As another node's ranks are seen in a stall report: by a clock that shows something else.
TEST_F(RollTest, UnpacksWhatANodeHasPacked) {
  for (int rank = 0; rank < 3; ++rank) barrier(rank);
  const auto own = reinterpret_cast<std::uint64_t>(&tutti::roll::pack_node);
  tutti_lane& lane = of(1).lanes[0];
  lane.site = own;
  lane.since_ns = 40 * kSecond;
  lane.since_count = lane.count;
  const std::vector<std::byte> packed =
      tutti::roll::pack_node({&of(0), &of(1), &of(2)}, 100 * kSecond);
  tutti::roll::NodeRoll node;
  ASSERT_TRUE(tutti::roll::unpack_node(packed, 1000 * kSecond, &node));
  ASSERT_EQ(node.ranks.size(), 3u);
  EXPECT_EQ(node.ranks[1].calls[0].since_ns, 940 * kSecond);
  EXPECT_EQ(node.site(node.ranks[1], own), tutti::roll::module_site(getpid(), own));
  EXPECT_NE(node.site(node.ranks[1], own), "");
  EXPECT_EQ(node.site(node.ranks[2], own), "");  // it has called from elsewhere

  const Roll roll = tutti::roll::call_roll(
      node.ranks,
      [&node](const RankSeen& rank, std::uint64_t site) { return node.site(rank, site); });
  EXPECT_NE(tutti::roll::text_of(roll, 4, 1000 * kSecond).find("MPI_Barrier no. 1"),
            std::string::npos);

  for (const std::size_t bytes : {std::size_t{0}, std::size_t{10}, packed.size() - 1}) {
    const std::vector<std::byte> cut(packed.begin(), packed.begin() + static_cast<long>(bytes));
    EXPECT_FALSE(tutti::roll::unpack_node(cut, 0, &node)) << bytes;
  }
}

/// What is overwritten while it is copied is left out, and nothing of two calls is mixed.
TEST_F(RollTest, CopiesARecordThatIsBeingWritten) {
  std::atomic<bool> over{false};
  std::thread writer([this, &over] {
    for (std::uint64_t i = 1; !over.load(std::memory_order_relaxed); ++i) {
      tutti_past& past = of(0).comms[0].past[0];
      __atomic_store_n(&past.number, 0, __ATOMIC_RELAXED);
      __atomic_thread_fence(__ATOMIC_RELEASE);
      TUTTI_SET(past.bytes, i);
      TUTTI_SET(past.site, i);
      __atomic_store_n(&past.number, i, __ATOMIC_RELEASE);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    tutti_record copy;
    tutti::roll::copy_record(of(0), &copy);
    const tutti_past& past = copy.comms[0].past[0];
    if (past.number == 0) continue;
    EXPECT_EQ(past.site, past.number);
    EXPECT_EQ(past.bytes, past.number);
  }
  over = true;
  writer.join();
}

TEST_F(RollTest, NamesNoCircleWhereSomebodyIsFree) {
  receive(0, 1);
  receive(1, 2);
  enter(2, TUTTI_MPI_Recv);
  leave(2);
  EXPECT_TRUE(call().findings.empty());
}

TEST_F(RollTest, ShowsEveryThreadThatIsInside) {
  for (int lane = 0; lane < 3; ++lane) {
    tutti_lane& one = enter(1, TUTTI_MPI_Recv, lane);
    one.peer = -2;
    one.tag = lane;
    one.comm = kHandle + kWorld;
  }
  const Roll roll = call();
  for (int lane = 0; lane < 3; ++lane) {
    EXPECT_EQ(ranks_of(roll, "in MPI_Recv from any rank (tag " + std::to_string(lane) +
                                 ") on MPI_COMM_WORLD"),
              Ranks{1});
  }
}

TEST_F(RollTest, TakesNothingForARecordThatIsNone) {
  of(1).magic = 0;
  of(2).lanes[0].count = 1;
  of(2).lanes[0].function = 1u << 30;
  of(3).lanes[0].count = of(3).lanes[0].detail_count = 1;
  of(3).lanes[0].detail = ~std::uint64_t{0} - 8;
  std::memset(of(3).comms[0].name, 0x1b, sizeof of(3).comms[0].name);
  const Roll roll = call();
  EXPECT_EQ(ranks_of(roll, "in an MPI call"), Ranks{2});
  const std::string text = tutti::roll::text_of(roll, 4, 0);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Past, IsToldFromOneOfWhichMoreWillBeSaid) {
  tutti_past past{};
  past.number = 5;
  constexpr std::uint64_t kNone = tutti::Reduction::kNoName;
  past.what =
      static_cast<std::uint64_t>(Coll::bcast) | kNone << 8 | kNone << 16 | std::uint64_t{3} << 32;
  past.bytes = TUTTI_BYTES_LATER;
  const tutti::roll::Passed begun = tutti::roll::read_past(past, false);
  EXPECT_FALSE(begun.planned);
  EXPECT_EQ(tutti::roll::described(begun, "it"), "MPI_Bcast no. 5 on it (root 3)");
  for (const std::uint64_t bytes : {std::uint64_t{TUTTI_NO_BYTES}, std::uint64_t{8}}) {
    past.bytes = bytes;
    const tutti::roll::Passed passed = tutti::roll::read_past(past, false);
    EXPECT_TRUE(passed.planned);
    EXPECT_EQ(passed.bytes, bytes);
  }
}

TEST(RankList, IsShortForMany) {
  std::vector<std::int32_t> ranks;
  for (int rank = 0; rank < 100; rank += 2) ranks.push_back(rank);
  EXPECT_EQ(tutti::roll::rank_list(ranks, 128),
            "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ... (50 of 128)");
  EXPECT_EQ(tutti::roll::rank_list({0, 1, 2, 5, 6}, 8), "ranks 0-2, 5, 6 (5 of 8)");
  EXPECT_EQ(tutti::roll::rank_list({3}, 8), "rank 3");
}

}  // namespace
