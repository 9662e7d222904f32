// Broadcast by multicast in virtual time, payload carried, whatever the network does to datagrams.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "profile.hpp"
#include "sim/job.hpp"

namespace tutti::sim {
namespace {

Choice choice_of(const std::string& text) {
  Forced forced;
  std::string message;
  EXPECT_TRUE(Forced::parse("bcast=" + text, &forced, &message).ok()) << message;
  return *forced.of(Coll::bcast);
}

std::unique_ptr<SimJob> job_of(int nodes, const Network& network, bool elided,
                               std::uint64_t seed = 1, int receives = 5) {
  JobSpec spec{nodes, 1, network, elided};
  spec.noise.seed = seed;
  spec.multicast_receives = receives;
  std::unique_ptr<SimJob> job;
  std::string message;
  EXPECT_TRUE(SimJob::create(spec, &job, &message).ok()) << message;
  return job;
}

std::vector<std::uint8_t> bytes_of(int round, std::size_t size) {
  std::mt19937 generator(static_cast<unsigned>(round));
  std::vector<std::uint8_t> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(generator());
  return bytes;
}

Call call_of(int root, void* buffer, std::size_t bytes) {
  Call call;
  call.coll = Coll::bcast;
  call.root = root;
  call.recv = buffer;
  call.bytes = bytes;
  return call;
}

/// One broadcast; every byte of every rank is compared.
void broadcast(SimJob& job, const Choice& choice, int root, std::size_t size, int round) {
  const auto message = bytes_of(round, size);
  std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(job.size()),
                                                 std::vector<std::uint8_t>(size, 0xa5));
  buffers[static_cast<std::size_t>(root)] = message;
  std::string why;
  const Status status = job.run(
      choice,
      [&](int rank) { return call_of(root, buffers[static_cast<std::size_t>(rank)].data(), size); },
      1, &why);
  ASSERT_TRUE(status.ok()) << why;
  for (int rank = 0; rank < job.size(); ++rank) {
    ASSERT_EQ(buffers[static_cast<std::size_t>(rank)], message)
        << "rank " << rank << " of " << job.size() << " root " << root << " bytes " << size;
  }
}

std::uint64_t repaired(SimJob& job) {
  std::uint64_t total = 0;
  for (int rank = 0; rank < job.size(); ++rank)
    total += job.team(rank).multicast().counts().repaired;
  return total;
}

struct Weather {
  const char* name;
  double loss, duplicate, corrupt, reorder;
};
const Weather kWeathers[] = {
    {"clear", 0, 0, 0, 0},     {"paper", 0.00287, 0, 0, 0}, {"loss5", 0.05, 0, 0, 0},
    {"loss30", 0.3, 0, 0, 0},  {"loss100", 1, 0, 0, 0},     {"duplicate", 0, 0.3, 0, 0},
    {"corrupt", 0, 0, 0.3, 0}, {"reorder", 0, 0, 0, 0.3},   {"all", 0.2, 0.2, 0.2, 0.2}};

Network network_in(const Weather& weather) {
  Network network = test::profile("odin2007");
  network.loss = weather.loss;
  network.duplicate = weather.duplicate;
  network.corrupt = weather.corrupt;
  network.reorder = weather.reorder;
  network.reorder_by = 30'000'000;  // several sends
  return network;
}

class Multicasts : public ::testing::TestWithParam<std::tuple<Weather, int>> {};

TEST_P(Multicasts, DeliverEveryByte) {
  const auto& [weather, chords] = GetParam();
  const Network network = network_in(weather);
  const Choice choice = choice_of("multicast:chords=" + std::to_string(chords));
  int round = 0;
  for (const int ranks : {2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 100, 300}) {
    const auto job = job_of(ranks, network, false, static_cast<std::uint64_t>(ranks));
    for (const std::size_t size : {1, 8, 255, 2023, 2024, 2025, 5000, 8096}) {
      for (const int root : {0, ranks - 1, ranks / 2}) {
        broadcast(*job, choice, root, size, ++round);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_TRUE(weather.loss != 1 || repaired(*job) != 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Multicasts,
                         ::testing::Combine(::testing::ValuesIn(kWeathers),
                                            ::testing::Values(1, 32)),
                         [](const auto& one) {
                           return std::string(std::get<0>(one.param).name) +
                                  (std::get<1>(one.param) != 1 ? "_chords" : "_ring");
                         });

TEST(Multicast, NothingIsRepairedWhereNothingIsLost) {
  Network network = test::profile("odin2007");
  network.loss = 0;
  const auto job = job_of(40, network, false);
  for (int round = 0; round < 10; ++round)
    broadcast(*job, choice_of("multicast"), round % 40, 1, round);
  EXPECT_EQ(repaired(*job), 0U);
}

TEST(Multicast, ManyInARowWithoutWaitingForEachOther) {
  // Back to back from one root and more of them than receives are posted: what is lost that way
  // comes by the ring.
  Network network = test::profile("odin2007");
  network.loss = 0.05;
  for (const int receives : {1, 5, 64}) {
    const auto job = job_of(16, network, false, 3, receives);
    std::vector<std::vector<std::uint8_t>> buffers(16, std::vector<std::uint8_t>(700));
    buffers[3] = bytes_of(1, 700);
    job->delay(9, 400'000'000);  // comes when the others have cast much
    std::string why;
    const Status status = job->run(
        choice_of("multicast"),
        [&](int rank) { return call_of(3, buffers[static_cast<std::size_t>(rank)].data(), 700); },
        100, &why);
    ASSERT_TRUE(status.ok()) << why;
    for (const auto& buffer : buffers) ASSERT_EQ(buffer, buffers[3]);
    EXPECT_GT(repaired(*job), 0U);
  }
}

/// `count` broadcasts of 700 bytes from roots in turn, one after the other.
Time many(SimJob& job, int count) {
  std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(job.size()));
  const Time begin = job.world().now();
  for (int i = 0; i < count; ++i) {
    const int root = i % job.size();
    for (auto& buffer : buffers) buffer.assign(700, 0);
    buffers[static_cast<std::size_t>(root)] = bytes_of(i, 700);
    std::string why;
    const auto call = [&](int rank) {
      return call_of(root, buffers[static_cast<std::size_t>(rank)].data(), 700);
    };
    EXPECT_TRUE(job.run(choice_of("multicast"), call, 1, &why).ok()) << why;
    for (const auto& buffer : buffers) EXPECT_EQ(buffer, buffers[static_cast<std::size_t>(root)]);
    if (::testing::Test::HasFailure()) break;
  }
  return job.world().now() - begin;
}

TEST(Multicast, IsLeftWhereNothingGetsThroughAndTheTreeIsFaster) {
  Network network = test::profile("odin2007");
  network.loss = 1;
  const auto job = job_of(33, network, false);
  const Time ring = many(*job, CastWatch::kFirst / 2);
  many(*job, CastWatch::kFirst);
  const Time tree = many(*job, CastWatch::kFirst / 2);
  EXPECT_LT(3 * tree, ring);
  for (int rank = 0; rank < job->size(); ++rank)
    EXPECT_TRUE(job->team(rank).multicast().watch().has_left()) << rank;
}

TEST(Multicast, IsNotLeftForALossThatTheRingRepairs) {
  for (const double loss : {0.00287, 0.1}) {
    Network network = test::profile("odin2007");
    network.loss = loss;
    const auto job = job_of(16, network, false, 7);
    many(*job, 300);
    for (int rank = 0; rank < job->size(); ++rank) {
      const CastWatch& watch = job->team(rank).multicast().watch();
      EXPECT_FALSE(watch.has_left() || watch.roots_left() != 0) << loss;
    }
  }
}

TEST(Multicast, OneThatComesLateHoldsUpNobody) {
  Network network = test::profile("odin2007");
  network.loss = 0;
  const auto job = job_of(32, network, false);
  constexpr Time kLate = 1'000'000'000;
  job->delay(7, kLate);
  broadcast(*job, choice_of("multicast"), 0, 64, 1);
  for (int rank = 0; rank < 32; ++rank) {
    EXPECT_TRUE(rank == 7 || job->finished(rank) < kLate / 10) << rank;
  }
  EXPECT_GE(job->finished(7), kLate);
  EXPECT_LT(job->finished(7), kLate + kLate / 100) << "its datagram was waiting for it";
}

// ---- large messages

class Windows : public ::testing::TestWithParam<std::tuple<Weather, const char*>> {};

TEST_P(Windows, DeliverEveryByte) {
  const auto& [weather, name] = GetParam();
  const Network network = network_in(weather);
  const Choice choice = choice_of(name);
  constexpr std::size_t kFragment = 2024, kGroup = 24 * kFragment, kWindow = 8 * kGroup;
  int round = 0;
  for (const int ranks : {2, 3, 4, 9, 33}) {
    const auto job = job_of(ranks, network, false, static_cast<std::uint64_t>(ranks));
    for (const std::size_t size : {std::size_t{1}, kFragment, kFragment + 1, kGroup - 1, kGroup,
                                   kGroup + 1, 3 * kGroup + 5, kWindow, 2 * kWindow + 1}) {
      if (ranks > 9 && size > 4 * kGroup) continue;
      for (const int root : {0, ranks - 1}) {
        broadcast(*job, choice, root, size, ++round);
        if (HasFatalFailure()) return;
      }
    }
    EXPECT_EQ(repaired(*job) != 0, weather.loss + weather.corrupt > 0 || weather.reorder > 0)
        << ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Windows,
                         ::testing::Combine(::testing::ValuesIn(kWeathers),
                                            ::testing::Values("multicast_window",
                                                              "multicast_window:window=24")),
                         [](const auto& one) {
                           const std::string name = std::get<1>(one.param);
                           return std::string(std::get<0>(one.param).name) +
                                  (name.find(':') == std::string::npos ? "" : "_narrow");
                         });

TEST(Window, BackToBackFromChangingRootsWithOneThatIsSlow) {
  Network network = test::profile("odin2007");
  network.loss = 0.05;
  const auto job = job_of(12, network, false, 7, 1);
  for (const int root : {3, 3, 0, 11, 5}) {
    std::vector<std::vector<std::uint8_t>> buffers(12, std::vector<std::uint8_t>(150'001));
    buffers[static_cast<std::size_t>(root)] = bytes_of(root, 150'001);
    job->delay(9, 300'000'000);
    std::string why;
    const Status status = job->run(
        choice_of("multicast_window"),
        [&](int rank) {
          return call_of(root, buffers[static_cast<std::size_t>(rank)].data(), 150'001);
        },
        6, &why);
    ASSERT_TRUE(status.ok()) << why;
    for (const auto& buffer : buffers)
      ASSERT_EQ(buffer, buffers[static_cast<std::size_t>(root)]) << "root " << root;
  }
}

TEST(Window, SmallOnesBetweenLargeOnes) {
  Network network = test::profile("odin2007");
  network.loss = 0.1;
  const auto job = job_of(10, network, false);
  for (int round = 0; round < 20; ++round) {
    broadcast(*job, choice_of("multicast_window"), round % 10, 60'000, 2 * round);
    broadcast(*job, choice_of("multicast"), (round + 1) % 10, 3000, 2 * round + 1);
  }
}

TEST(Window, OneThatComesLateHoldsUpTheOneBeforeIt) {
  Network network = test::profile("odin2007");
  network.loss = 0;
  constexpr Time kLate = 2'000'000'000'000;  // two seconds; patience is a tenth of one
  for (const int late : {7, 8, 1}) {
    const auto job = job_of(32, network, false);
    job->delay(late, kLate);
    broadcast(*job, choice_of("multicast_window"), 0, 2'000'000, 1);
    for (int rank = 0; rank < 32; ++rank) {
      EXPECT_TRUE(rank == late || rank == late - 1 || job->finished(rank) < kLate / 4)
          << "rank " << rank << " at " << job->finished(rank) << " where " << late << " is late";
    }
    EXPECT_GE(job->finished(late), kLate);
  }
}

TEST(Window, NobodyIsOverrunWithSlowProcessors) {
  // A datagram takes its receiver several times as long as its root.
  Network network = test::profile("odin2007");
  network.loss = 0;
  network.Tr = 15'000'000;
  const auto job = job_of(9, network, false);
  broadcast(*job, choice_of("multicast_window"), 4, 3'000'000, 1);
  EXPECT_EQ(repaired(*job), 0U);
  for (int rank = 0; rank < 9; ++rank)
    EXPECT_EQ(job->team(rank).multicast().datagram_counts().dropped, 0U);
}

TEST(Window, PaceIsKept) {
  Network network = test::profile("odin2007");
  network.loss = 0;
  const auto job = job_of(4, network, false);
  broadcast(*job, choice_of("multicast_window:pace=100"), 0, 1'000'000, 1);
  // 10 ms, but for the last group.
  EXPECT_GT(job->duration(), 9'500'000'000U);
  EXPECT_LT(job->duration(), 10'500'000'000U);
}

/// What all nodes have sent, in messages, and the most that one of them has.
struct Traffic {
  double all, most_sent, most_received;
};
Traffic traffic(int nodes, const std::string& algorithm, std::size_t bytes) {
  Network network = test::profile("odin2007");
  network.loss = 0;
  const auto job = job_of(nodes, network, false);
  broadcast(*job, choice_of(algorithm), 0, bytes, 1);
  Traffic traffic{};
  for (int node = 0; node < nodes; ++node) {
    const LinkBytes link = job->world().link_bytes(node);
    traffic.all += static_cast<double>(link.sent) / static_cast<double>(bytes);
    traffic.most_sent =
        std::max(traffic.most_sent, static_cast<double>(link.sent) / static_cast<double>(bytes));
    traffic.most_received = std::max(
        traffic.most_received, static_cast<double>(link.received) / static_cast<double>(bytes));
  }
  return traffic;
}

TEST(Window, SendsEachByteOnceOverEachLink) {
  constexpr std::size_t kBytes = 1 << 20;
  const Traffic cast = traffic(16, "multicast_window", kBytes);
  EXPECT_LT(cast.all, 1.03) << "headers, and words of the ring";
  EXPECT_LT(cast.most_received, 1.03);
  // By a tree the root sends the message log2 N times, and N - 1 copies of it are sent in all; in
  // parts, every node sends all of it.
  const Traffic tree = traffic(16, "direct", kBytes);
  EXPECT_GT(tree.most_sent, 3.9);
  EXPECT_GT(tree.all, 14.9);
  const Traffic parts = traffic(16, "scatter_allgather", kBytes);
  EXPECT_GT(parts.all, 14);
}

/// An allgather of blocks of `size` bytes; every byte of every rank is compared.
void gather(SimJob& job, const Choice& choice, std::size_t size, int round) {
  const auto ranks = static_cast<std::size_t>(job.size());
  std::vector<std::vector<std::uint8_t>> blocks, results;
  std::vector<std::uint8_t> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    blocks.push_back(bytes_of(round * 1000 + static_cast<int>(rank), size));
    results.emplace_back(ranks * size, std::uint8_t{0xa5});
    all.insert(all.end(), blocks.back().begin(), blocks.back().end());
  }
  std::string why;
  const Status status = job.run(
      choice,
      [&](int rank) {
        Call call;
        call.coll = Coll::allgather;
        call.send = blocks[static_cast<std::size_t>(rank)].data();
        call.recv = results[static_cast<std::size_t>(rank)].data();
        call.bytes = size;
        return call;
      },
      1, &why);
  ASSERT_TRUE(status.ok()) << why;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    ASSERT_EQ(results[rank], all) << "rank " << rank << " of " << ranks << ", blocks of " << size;
}

Choice allgather_of(const std::string& name) {
  Forced forced;
  std::string message;
  EXPECT_TRUE(Forced::parse("allgather=" + name, &forced, &message).ok()) << message;
  return *forced.of(Coll::allgather);
}

class CastBlocksOfAll : public ::testing::TestWithParam<Weather> {};

TEST_P(CastBlocksOfAll, DeliverEveryByte) {
  const Weather& weather = GetParam();
  const Network network = network_in(weather);
  int round = 0;
  for (const int ranks : {2, 3, 8, 17}) {
    const auto job = job_of(ranks, network, false, static_cast<std::uint64_t>(ranks));
    for (const std::size_t size : {1, 2025, 48'577, 120'000}) {
      for (const char* name : {"multicast", "multicast:window=24"}) {
        gather(*job, allgather_of(name), size, ++round);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CastBlocksOfAll, ::testing::ValuesIn(kWeathers),
                         [](const auto& one) { return one.param.name; });

TEST(Window, BlocksOfAllMembersLeaveThemOnce) {
  constexpr std::size_t kBytes = 200'000;
  const auto sent = [](const char* name) {
    Network network = test::profile("odin2007");
    network.loss = 0;
    const auto job = job_of(8, network, false);
    gather(*job, allgather_of(name), kBytes, 1);
    double all = 0;
    for (int node = 0; node < 8; ++node)
      all += static_cast<double>(job->world().link_bytes(node).sent) / kBytes;
    return all;
  };
  EXPECT_LT(sent("multicast"), 8 * 1.03);
  EXPECT_GT(sent("exchange"), 8 * 6.99);
}

// ---- the rivals

class Rivals : public ::testing::TestWithParam<std::tuple<Weather, const char*>> {};

TEST_P(Rivals, DeliverEveryByte) {
  const auto& [weather, name] = GetParam();
  const Network network = network_in(weather);
  const Choice choice = choice_of(std::string(name) + ":timeout=100");
  int round = 0;
  for (const int ranks : {2, 3, 8, 17, 33}) {
    const auto job = job_of(ranks, network, false, static_cast<std::uint64_t>(ranks));
    for (const std::size_t size : {1, 2025, 8096}) {
      for (const int root : {0, ranks - 1}) {
        broadcast(*job, choice, root, size, ++round);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Rivals,
    ::testing::Combine(::testing::Values(kWeathers[0], kWeathers[3], kWeathers[8]),
                       ::testing::Values("multicast_linear_ack", "multicast_tree_ack",
                                         "multicast_coroot_ack", "multicast_nack")),
    [](const auto& one) {
      return std::string(std::get<0>(one.param).name) + "_" + std::get<1>(one.param);
    });

TEST(Rival, NackBringsWhatNoMulticastDoes) {
  Network network = test::profile("odin2007");
  network.loss = 1;
  const auto job = job_of(17, network, false);
  for (int round = 0; round < 3; ++round)
    broadcast(*job, choice_of("multicast_nack:timeout=50"), round, 5000, round);
  EXPECT_EQ(repaired(*job), 3U * 16 * 3) << "three fragments each";
}

/// When the ranks are through with a broadcast of a byte, in order of their places.
std::vector<Time> ends(int nodes, const std::string& algorithm, double loss, Time late_root = 0) {
  Network network = test::profile("odin2007");
  network.loss = loss;
  const auto job = job_of(nodes, network, true);
  job->delay(0, late_root);
  std::string why;
  const Status status = job->run(
      choice_of(algorithm), [&](int) { return call_of(0, nullptr, 1); }, 1, &why);
  EXPECT_TRUE(status.ok()) << why;
  std::vector<Time> times;
  for (int rank = 0; rank < nodes; ++rank) times.push_back(job->finished(rank));
  return times;
}

TEST(Rival, NackOfALateRootAsksInVain) {
  // The root is late by many timeouts: nobody may take what it has not saved.
  constexpr Time kLate = 1'000'000'000;
  for (const double loss : {0.0, 0.5}) {
    const auto times = ends(8, "multicast_nack:timeout=20", loss, kLate);
    for (const Time time : times) EXPECT_GT(time, kLate);
  }
}

TEST(Rival, TheRootOfLinearAcknowledgementsIsAHotSpot) {
  const Time few = ends(16, "multicast_linear_ack", 0)[0];
  const Time many = ends(1024, "multicast_linear_ack", 0)[0];
  EXPECT_GT(many, 20 * few);
  // Trees take log N, groups sqrt N, the ring nothing at all.
  EXPECT_LT(ends(1024, "multicast_tree_ack", 0)[0], many / 5);
  EXPECT_LT(ends(1024, "multicast_coroot_ack", 0)[0], many / 5);
  EXPECT_LT(ends(1024, "multicast", 0)[0], ends(1024, "multicast_tree_ack", 0)[0] / 5);
}

TEST(Rival, ALostDatagramCostsATimeout) {
  for (const char* name : {"multicast_linear_ack", "multicast_tree_ack", "multicast_coroot_ack"}) {
    const Time clear = ends(64, std::string(name) + ":timeout=500", 0)[0];
    const Time lossy = ends(64, std::string(name) + ":timeout=500", 0.3)[0];
    EXPECT_GT(lossy, clear + 500'000'000 / 2) << name;
  }
}

/// Mean completion in microseconds of one broadcast of a byte, over a few losses.
double mean(int nodes, const char* algorithm, double loss, int runs = 8) {
  Network network = test::profile("odin2007");
  network.loss = loss;
  double sum = 0;
  for (int seed = 1; seed <= runs; ++seed) {
    const auto job = job_of(nodes, network, true, static_cast<std::uint64_t>(seed));
    std::string why;
    const Status status = job->run(
        choice_of(algorithm), [&](int) { return call_of(0, nullptr, 1); }, 1, &why);
    EXPECT_TRUE(status.ok()) << why;
    for (int rank = 0; rank < nodes; ++rank)
      sum += static_cast<double>(job->finished(rank) - job->started(rank)) / kMicrosecond;
  }
  return sum / nodes / runs;
}

TEST(Multicast, TakesTheSameTimeHoweverManyRanks) {
  const double few = mean(4, "multicast", 0.00287);
  for (const int nodes : {64, 1000, 20000}) {
    EXPECT_LT(mean(nodes, "multicast", 0.00287, 2), 1.3 * few) << nodes;
  }
  EXPECT_GT(mean(64, "binomial", 0), 2 * mean(64, "multicast", 0));
}

TEST(Multicast, ChordsShortenLongRunsOfLosses) {
  const double ring = mean(256, "multicast:chords=1", 1, 1);
  const double chords = mean(256, "multicast:chords=32", 1, 1);
  EXPECT_LT(chords, ring / 4) << "ring " << ring << " us, chords " << chords;
}

}  // namespace
}  // namespace tutti::sim
