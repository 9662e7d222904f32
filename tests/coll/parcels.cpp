// Collectives of which each rank knows but its own counts, beyond what the list's test asks of all:
// several parcels for one member, lists that do not match, and ranks that have nothing to say.
#include "coll/parcels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Rank;

constexpr Coll kAll[] = {Coll::gatherv, Coll::scatterv, Coll::alltoallv, Coll::alltoallw,
                         Coll::neighbor_alltoallw};

Call call_of(Coll coll, const Parcels& parcels, int root = 0) {
  Call call;
  call.coll = coll;
  call.root = root;
  call.parcels = &parcels;
  return call;
}

/// What `from` has for `to`: some parcels, most often none. The same on all ranks.
struct Lists {
  Lists(Coll its_coll, int its_size, std::uint64_t its_seed, std::size_t its_most)
      : coll(its_coll), size(its_size), seed(its_seed), most(its_most) {
    root = static_cast<int>(seed % static_cast<std::uint64_t>(size));
  }
  std::vector<std::size_t> of(int from, int to) const {
    if ((coll == Coll::scatterv && from != root) || (coll == Coll::gatherv && to != root))
      return {};
    std::mt19937_64 random(seed * 1009 + static_cast<std::uint64_t>(from * size + to));
    static constexpr std::size_t kCounts[] = {0, 1, 1, 3};
    std::vector<std::size_t> bytes(kCounts[random() % 4]);
    for (std::size_t& b : bytes) b = random() % 4 == 0 ? random() % most : random() % 300;
    return bytes;
  }
  Coll coll;
  int size, root = 0;
  std::uint64_t seed;
  std::size_t most;
};

std::byte value(std::uint64_t seed, int from, int to, std::size_t parcel, std::size_t i) {
  const std::uint64_t mixed = seed * 31 + static_cast<std::uint64_t>(from * 131 + to * 17);
  return static_cast<std::byte>(mixed + parcel * 7 + i + (i >> 8));
}

/// One rank's buffers and call.
struct Mine {
  Mine(const Lists& its_lists, int its_rank)
      : lists(its_lists), rank(its_rank), parcels(its_rank, its_lists.size) {
    for (int other = 0; other < lists.size; ++other) {
      const auto going = lists.of(rank, other), coming = lists.of(other, rank);
      for (std::size_t k = 0; k < going.size(); ++k) {
        sent.emplace_back(going[k]);
        for (std::size_t i = 0; i < going[k]; ++i)
          sent.back()[i] = value(lists.seed, rank, other, k, i);
        parcels.send(other, sent.back().data(), going[k]);
      }
      for (const std::size_t bytes : coming) {
        received.emplace_back(bytes, std::byte{0xee});
        parcels.receive(other, received.back().data(), bytes);
      }
    }
    parcels.arrange();
    call = call_of(lists.coll, parcels, lists.root);
  }
  void expect_right() const {
    auto next = received.begin();
    for (int other = 0; other < lists.size; ++other) {
      const auto coming = lists.of(other, rank);
      for (std::size_t k = 0; k < coming.size(); ++k, ++next) {
        for (std::size_t i = 0; i < coming[k]; ++i)
          ASSERT_EQ((*next)[i], value(lists.seed, other, rank, k, i))
              << name(lists.coll) << " seed " << lists.seed << ": byte " << i << " of " << coming[k]
              << ", parcel " << k << " from " << other << " to " << rank;
      }
    }
  }
  Lists lists;
  int rank;
  std::vector<std::vector<std::byte>> sent, received;
  Parcels parcels;
  Call call;
};

/// Both under way at the same time; the later one is awaited first.
void run_at_once(Rank& r, const Mine& first, const Mine& second) {
  Operation *one = nullptr, *other = nullptr;
  ASSERT_TRUE(r.job.start(r.team, first.call, &one).ok());
  ASSERT_TRUE(r.job.start(r.team, second.call, &other).ok());
  ASSERT_TRUE(r.job.wait(*other).ok());
  ASSERT_TRUE(r.job.wait(*one).ok());
  r.job.release(one);
  r.job.release(other);
}

class SharedParcels : public ::testing::TestWithParam<const char*> {};

/// Blocking ones, and several under way at once.
TEST_P(SharedParcels, ArriveInTheirOrder) {
  const std::string how = GetParam();
  for (const int ranks : {2, 3, 5, 9}) {
    Settings settings;
    for (const Coll coll : kAll)
      settings.algorithm +=
          (settings.algorithm.empty() ? "" : ",") + std::string(name(coll)) + "=" + how;
    test::run_threads(ranks, settings, [](Rank& r) {
      for (std::uint64_t round = 1; round <= 30; ++round) {
        const Coll coll = kAll[round % std::size(kAll)];
        Mine first(Lists(coll, r.size, round, round % 5 == 0 ? 300'000 : 3'000), r.rank);
        Mine second(Lists(Coll::alltoallv, r.size, round + 1000, 20'000), r.rank);
        if (round % 2 == 0) {
          ASSERT_TRUE(r.job.run(r.team, first.call).ok());
          ASSERT_TRUE(r.job.run(r.team, second.call).ok());
        } else {
          ASSERT_NO_FATAL_FAILURE(run_at_once(r, first, second));
        }
        first.expect_right();
        second.expect_right();
      }
    });
    if (HasFatalFailure()) return;
  }
}

/// How much there is between the root and a member in a call: around what fits into a small cell,
/// with one parcel and with several, a large one and a block.
std::size_t bytes_of(int call, int member) {
  static constexpr std::size_t kBytes[] = {1,   8,   25,  26,  27,  52,  53,   54,   80,  107,
                                           108, 109, 120, 200, 990, 992, 1000, 1104, 1112, 5000};
  std::mt19937 random(static_cast<std::uint32_t>(call * 31 + member));
  // Some stretches of calls are small throughout, so that many of them are ahead.
  const std::size_t kinds = call / 100 % 2 == 0 ? 7 : std::size(kBytes);
  return kBytes[random() % kinds];
}

/// Rank 0 is the root. Whoever only sends is far ahead of those that receive.
void gather_or_scatter(Rank& r, Coll coll, int calls) {
  const bool root = r.rank == 0, sends = (coll == Coll::scatterv) == root;
  if (!sends) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (int call = 0; call < calls; ++call) {
    Parcels parcels(r.rank, r.size);
    std::vector<std::vector<std::byte>> data;
    for (int member = 1; member < r.size; ++member) {
      if (!root && member != r.rank) continue;
      const std::size_t bytes = bytes_of(call, member);
      data.emplace_back(bytes, sends ? value(7, call, member, 0, bytes) : std::byte{0xee});
      if (sends) parcels.send(root ? member : 0, data.back().data(), bytes);
      if (!sends) parcels.receive(root ? member : 0, data.back().data(), bytes);
    }
    parcels.arrange();
    ASSERT_TRUE(r.job.run(r.team, call_of(coll, parcels)).ok());
    for (std::size_t i = 0; i < data.size(); ++i) {
      const int member = root ? static_cast<int>(i) + 1 : r.rank;
      const std::size_t bytes = bytes_of(call, member);
      ASSERT_EQ(data[i], std::vector<std::byte>(bytes, value(7, call, member, 0, bytes)))
          << name(coll) << ", call " << call << ": " << bytes << " bytes of member " << member;
    }
  }
}

TEST_P(SharedParcels, OfManyCallsAhead) {
  const std::string how = GetParam();
  for (const int ranks : {2, 3, 5}) {
    Settings settings;
    settings.algorithm = "gatherv=" + how + ",scatterv=" + how;
    test::run_threads(ranks, settings, [](Rank& r) {
      for (const Coll coll : {Coll::gatherv, Coll::scatterv}) gather_or_scatter(r, coll, 600);
    });
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedParcels,
                         ::testing::Values("blocks", "blocks:block=4096", "cma", "cma:least=100"),
                         [](const auto& test) {
                           std::string text = test.param;
                           for (char& c : text)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return text;
                         });

// ---- between nodes: by letter and by invitation

/// Bytes of the longest parcels: all go by letter, some do, and most do not.
constexpr std::size_t kAroundLetters[] = {3'000, 90'000, 200'000};

std::vector<int> one_on_each(int ranks) {
  std::vector<int> node_of(static_cast<std::size_t>(ranks));
  std::iota(node_of.begin(), node_of.end(), 0);
  return node_of;
}

Settings between_nodes() {
  Settings settings;
  settings.deadline_s = 60;
  return settings;
}

/// Blocking ones, and several under way at once, between collectives that need the generations of
/// the inbox: some of which synchronise, some not.
TEST(NodesParcels, ArriveInTheirOrderAmongOthers) {
  for (const int ranks : {2, 3, 5, 9}) {
    Settings settings = between_nodes();
    settings.algorithm = "bcast=binomial,gather=degree_k:degree=3,allreduce=recursive_doubling";
    test::run_nodes(one_on_each(ranks), settings, [](Rank& r) {
      Reduction sum;
      ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &sum));
      std::mt19937 random(20261128);  // the same on all ranks
      for (std::uint64_t round = 1; round <= 60; ++round) {
        const Coll coll = kAll[round % std::size(kAll)];
        Mine first(Lists(coll, r.size, round, kAroundLetters[round % 3]), r.rank);
        Mine second(Lists(Coll::alltoallv, r.size, round + 1000, 90'000), r.rank);
        ASSERT_NO_FATAL_FAILURE(run_at_once(r, first, second));
        first.expect_right();
        second.expect_right();
        for (unsigned more = random() % 12; more > 0; --more) {
          static constexpr Coll kOthers[] = {Coll::bcast, Coll::gather, Coll::allreduce};
          std::int32_t mine = r.rank + 1, all[9] = {};
          Call call;
          call.coll = kOthers[random() % (round % 4 == 0 ? 3 : 2)];
          call.root = static_cast<int>(random() % static_cast<unsigned>(r.size));
          call.send = &mine;
          call.recv = call.coll == Coll::bcast ? &mine : all;
          call.bytes = sizeof mine;
          if (call.coll == Coll::allreduce) call.reduction = &sum;
          ASSERT_TRUE(r.job.run(r.team, call).ok());
          if (call.coll == Coll::bcast) {
            ASSERT_EQ(mine, call.root + 1);
          } else if (call.coll == Coll::allreduce) {
            ASSERT_EQ(all[0], r.size * (r.size + 1) / 2);
          } else if (r.rank == call.root) {
            for (int i = 0; i < r.size; ++i) ASSERT_EQ(all[i], i + 1);
          }
        }
      }
    });
    if (HasFatalFailure()) return;
  }
}

/// Several ranks on some nodes: straight from rank to rank, and bundled by the leaders; the contract
/// of the fabric is checked.
TEST(NodesParcels, ArriveInLayers) {
  const std::vector<std::vector<int>> layouts = {{0, 0, 1}, {0, 1, 0, 1}, {0, 0, 1, 1, 1, 2}};
  for (const char* how : {"direct", "hierarchical"}) {
    Settings settings = between_nodes();
    settings.check = Check::contract;
    for (const Coll coll : kAll)
      settings.algorithm.append(name(coll)).append("=").append(how).append(",");
    settings.algorithm.pop_back();
    for (const std::vector<int>& layout : layouts) {
      test::run_nodes(layout, settings, [](Rank& r) {
        for (std::uint64_t round = 1; round <= 30; ++round) {
          const Coll coll = kAll[round % std::size(kAll)];
          Mine first(Lists(coll, r.size, round, kAroundLetters[round % 3]), r.rank);
          Mine second(Lists(Coll::alltoallv, r.size, round + 1000, 90'000), r.rank);
          ASSERT_NO_FATAL_FAILURE(run_at_once(r, first, second));
          first.expect_right();
          second.expect_right();
          Call barrier;
          ASSERT_TRUE(round % 7 != 0 || r.job.run(r.team, barrier).ok());
        }
      });
      if (HasFatalFailure()) return;
    }
  }
}

/// The two are told apart, and not taken for each other, where lists do not match.
TEST(NodesParcels, OneForAnotherIsAnError) {
  test::run_nodes(one_on_each(2), between_nodes(), [](Rank& r) {
    Status status;
    for (int call = 0; call < 2; ++call) {
      std::vector<char> first(r.rank == 0 || call == 0 ? 10 : 100'000), second(10);
      Parcels parcels(r.rank, r.size);
      for (std::vector<char>* data : {&first, &second}) {
        if (r.rank == 0) parcels.send(1, data->data(), data->size());
        if (r.rank == 1) parcels.receive(0, data->data(), data->size());
      }
      parcels.arrange();
      status = r.job.run(r.team, call_of(Coll::neighbor_alltoallw, parcels));
    }
    if (r.rank == 1) {
      EXPECT_EQ(status.code, Code::truncated);
    }
  });
}

TEST(NodesParcels, OfManyCallsAhead) {
  for (const int ranks : {2, 3, 5}) {
    test::run_nodes(one_on_each(ranks), between_nodes(), [](Rank& r) {
      for (const Coll coll : {Coll::gatherv, Coll::scatterv}) gather_or_scatter(r, coll, 2000);
    });
    if (HasFatalFailure()) return;
  }
}

/// A root that runs ahead in broadcasts, and leaves that do in reductions, of every degree.
TEST(NodesParcels, TreesOfLettersAreRightFarAhead) {
  for (const char* degree : {"1", "2", "3", "15"}) {
    Settings settings = between_nodes();
    for (const char* coll : {"bcast", "reduce"})
      settings.algorithm.append(coll).append("=letters:degree=").append(degree).append(",");
    settings.algorithm.pop_back();
    test::run_nodes(one_on_each(6), settings, [](Rank& r) {
      Reduction sum;
      ASSERT_TRUE(find_reduction(Op::sum, Type::i32, &sum));
      for (int i = 0; i < 300; ++i) {
        std::vector<std::int32_t> data(i % 50 == 0 ? 30'000 : 5, r.rank == 2 ? i : -1);
        std::vector<std::int32_t> total(data.size());
        Call call;
        call.coll = Coll::bcast;
        call.root = 2;
        call.recv = data.data();
        call.bytes = data.size() * sizeof data[0];
        ASSERT_TRUE(r.job.run(r.team, call).ok());
        ASSERT_EQ(data, std::vector<std::int32_t>(data.size(), i));
        if (i % 3 != 0) continue;
        call.coll = Coll::reduce;
        call.root = i % r.size;
        call.send = data.data();
        call.recv = r.rank == call.root ? total.data() : nullptr;
        call.reduction = &sum;
        ASSERT_TRUE(r.job.run(r.team, call).ok());
        if (r.rank == call.root) {
          ASSERT_EQ(total, std::vector<std::int32_t>(data.size(), r.size * i));
        }
      }
    });
    if (HasFatalFailure()) return;
  }
}

/// Lists that go past a rank that is late do not let broadcasts overtake each other in its inbox.
TEST(NodesParcels, BroadcastsAmongListsWaitForTheLast) {
  Settings settings = between_nodes();
  settings.algorithm = "bcast=binomial";
  test::run_nodes(one_on_each(4), settings, [](Rank& r) {
    std::mt19937 random(7);  // the same on all ranks
    for (int call = 0; call < 400; ++call) {
      std::vector<std::int32_t> data(1000, r.rank == 0 ? call : -1);
      if (r.rank == 3 && call % 40 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      Parcels parcels(r.rank, r.size);
      Call bcast;
      bcast.coll = Coll::bcast;
      bcast.recv = data.data();
      bcast.bytes = data.size() * sizeof data[0];
      const bool list = random() % 3 != 0;
      if (r.rank == 0) parcels.send(1, data.data(), bcast.bytes);
      if (r.rank == 1) parcels.receive(0, data.data(), bcast.bytes);
      parcels.arrange();
      ASSERT_TRUE(r.job.run(r.team, list ? call_of(Coll::alltoallv, parcels) : bcast).ok());
      if (!list || r.rank <= 1) {
        ASSERT_EQ(data, std::vector<std::int32_t>(data.size(), call));
      }
    }
  });
}

/// Teams end while what was told last may still be on its way to them.
TEST(NodesParcels, TeamsEndAfterLettersToOneSide) {
  test::run_nodes(one_on_each(3), between_nodes(), [](Rank& r) {
    const std::int32_t members[] = {0, 1, 2};
    for (std::uint64_t i = 0; i < 40; ++i) {
      Team* team = nullptr;
      ASSERT_TRUE(r.job.create_team(TeamSpec{{77, i}, r.rank, 3, members}, &team).ok());
      for (int call = 0; call < 30; ++call) {
        std::vector<char> data(9'000, static_cast<char>('a' + call % 20));
        const std::vector<char> right = data;
        if (r.rank != 0) std::fill(data.begin(), data.end(), '-');
        Parcels parcels(r.rank, r.size);
        if (r.rank == 0) parcels.send(1 + call % 2, data.data(), data.size());
        if (r.rank == 1 + call % 2) parcels.receive(0, data.data(), data.size());
        parcels.arrange();
        ASSERT_TRUE(r.job.run(*team, call_of(Coll::scatterv, parcels)).ok());
        if (r.rank == 1 + call % 2) {
          ASSERT_EQ(data, right);
        }
      }
      r.job.release_team(team);
    }
  });
}

/// One call by invitation, one by letter, and one where only the sender's fits into a letter.
TEST(NodesParcels, LessThanExpectedLeavesTheRest) {
  for (const std::size_t expected : {20, 100'000}) {
    test::run_nodes(one_on_each(2), between_nodes(), [expected](Rank& r) {
      for (int call = 0; call < 3; ++call) {
        std::vector<char> data(r.rank == 0 ? 10 : expected, r.rank == 0 ? 'x' : '-');
        Parcels parcels(r.rank, r.size);
        if (r.rank == 0) parcels.send(1, data.data(), data.size());
        if (r.rank == 1) parcels.receive(0, data.data(), data.size());
        parcels.arrange();
        ASSERT_TRUE(r.job.run(r.team, call_of(Coll::alltoallv, parcels)).ok());
        if (r.rank == 1) {
          EXPECT_EQ(std::string(data.begin(), data.begin() + 12), "xxxxxxxxxx--") << call;
        }
      }
    });
  }
}

TEST(NodesParcels, MoreThanExpectedIsAnError) {
  for (const int calls_before : {0, 1}) {
    test::run_nodes(one_on_each(2), between_nodes(), [calls_before](Rank& r) {
      char data[40] = {};
      Status status;
      for (int call = 0; call <= calls_before; ++call) {
        Parcels parcels(r.rank, r.size);
        if (r.rank == 0) parcels.send(1, data, call == calls_before ? 40 : 20);
        if (r.rank == 1) parcels.receive(0, data, 20);
        parcels.arrange();
        status = r.job.run(r.team, call_of(Coll::alltoallv, parcels));
        ASSERT_TRUE(status.ok() || call == calls_before);
      }
      // By invitation it is the sender that finds it, by letter the receiver, which tells the other.
      if (r.rank == calls_before) {
        EXPECT_EQ(status.code, Code::truncated);
      }
    });
  }
}

/// Rank 0 sends to rank 1, rank 2 is only there later on.
TEST(Parcels, WhoHasNothingForARankIsNotWaitedFor) {
  std::barrier over(3);
  test::run_threads(3, Settings{}, [&](Rank& r) {
    Call barrier;
    ASSERT_TRUE(r.job.run(r.team, barrier).ok());
    std::vector<char> data(100'000, 'x');
    Parcels parcels(r.rank, r.size);
    if (r.rank == 0) parcels.send(1, data.data(), data.size());
    if (r.rank == 1) parcels.receive(0, data.data(), data.size());
    parcels.arrange();
    if (r.rank == 2) over.arrive_and_wait();
    ASSERT_TRUE(r.job.run(r.team, call_of(Coll::alltoallv, parcels)).ok());
    if (r.rank != 2) over.arrive_and_wait();
  });
}

TEST(Parcels, LessThanExpectedLeavesTheRest) {
  test::run_threads(2, Settings{}, [](Rank& r) {
    std::vector<char> data(r.rank == 0 ? 10 : 20, r.rank == 0 ? 'x' : '-');
    Parcels parcels(r.rank, r.size);
    if (r.rank == 0) parcels.send(1, data.data(), data.size());
    if (r.rank == 1) parcels.receive(0, data.data(), data.size());
    parcels.arrange();
    ASSERT_TRUE(r.job.run(r.team, call_of(Coll::alltoallv, parcels)).ok());
    if (r.rank == 1) {
      EXPECT_EQ(std::string(data.begin(), data.end()), "xxxxxxxxxx----------");
    }
  });
}

TEST(Parcels, NothingWhereSomethingIsExpectedEndsAllTheSame) {
  test::run_threads(2, Settings{}, [](Rank& r) {
    char data[4] = {'-', '-', '-', '-'};
    Parcels parcels(r.rank, r.size);
    if (r.rank == 1) parcels.receive(0, data, sizeof data);
    parcels.arrange();
    ASSERT_TRUE(r.job.run(r.team, call_of(Coll::alltoallv, parcels)).ok());
    EXPECT_EQ(data[0], '-');
  });
}

TEST(Parcels, MoreThanExpectedIsAnError) {
  test::run_threads(2, Settings{}, [](Rank& r) {
    char data[40] = {};
    Parcels parcels(r.rank, r.size);
    if (r.rank == 0) parcels.send(1, data, 40);
    if (r.rank == 1) parcels.receive(0, data, 20);
    parcels.arrange();
    const Status status = r.job.run(r.team, call_of(Coll::alltoallv, parcels));
    if (r.rank == 1) {
      EXPECT_EQ(status.code, Code::truncated);
    }
  });
}

/// What it keeps for itself, too.
TEST(Parcels, MoreThanExpectedOfItselfIsAnError) {
  test::run_threads(2, Settings{}, [](Rank& r) {
    char data[60] = {};
    Parcels parcels(r.rank, r.size);
    if (r.rank == 0) {
      parcels.send(0, data, 40);
      parcels.receive(0, data + 40, 20);
    }
    parcels.arrange();
    const Status status = r.job.run(r.team, call_of(Coll::alltoallv, parcels));
    if (r.rank == 0) {
      EXPECT_EQ(status.code, Code::truncated);
    }
  });
}

}  // namespace
}  // namespace tutti
