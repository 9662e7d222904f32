// Broadcast by IP multicast over sockets of the loopback, ranks as threads: one on each node, and
// several on some.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "coll/multicast_bodies.hpp"
#include "core/job.hpp"
#include "fabric/udp/udp.hpp"
#include "support/local_jobs.hpp"
#include "team/packet.hpp"

namespace tutti {
namespace {

using test::broadcast;
using test::Rank;

Settings settings_of(const std::string& algorithm) {
  Settings settings;
  settings.algorithm = algorithm;
  settings.arena = std::size_t{128} << 20;
  settings.deadline_s = 30;
  settings.net_interface = "lo";
  settings.multicast = Switch::on;
  return settings;
}

class MulticastNodes : public ::testing::TestWithParam<const char*> {};

TEST_P(MulticastNodes, EveryByteArrives) {
  const std::vector<std::vector<int>> layouts = {
      {0, 1}, {0, 1, 2}, {0, 1, 2, 3, 4, 5, 6}, {0, 0, 1, 1, 2}, {2, 0, 1, 0, 2, 1, 0}};
  for (const auto& layout : layouts) {
    test::run_nodes(layout, settings_of(GetParam()), [](Rank& r) {
      int round = 0;
      for (const std::size_t bytes : {1, 60, 2024, 2048, 2049, 8000, 8192}) {
        for (int root = 0; root < r.size; ++root) {
          broadcast(r, root, bytes, ++round);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
      // Back to back from one root, which nobody holds up.
      for (int i = 0; i < 200; ++i) broadcast(r, 0, 100, ++round);
    });
    ASSERT_FALSE(HasFailure());
  }
}

/// More of them than there are slots and surveys, of one datagram and of several.
void sum_often(Rank& r) {
  const Reduction reduction = test::sum_of_ints();
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = round % 3 == 0 ? 1 : round % 3 == 1 ? 500 : 1280;
    std::vector<std::int32_t> mine(count), sum(count);
    for (std::size_t i = 0; i < count; ++i)
      mine[i] = static_cast<std::int32_t>(i) * (r.rank + 1) + round;
    Call call;
    call.coll = Coll::allreduce;
    call.root = static_cast<std::int32_t>(round) % r.size;  // which says nothing here
    call.send = mine.data();
    call.recv = sum.data();
    call.bytes = count * sizeof(std::int32_t);
    call.reduction = &reduction;
    ASSERT_TRUE(r.job.run(r.team, call).ok());
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(sum[i], static_cast<std::int32_t>(i) * r.size * (r.size + 1) / 2 + round * r.size);
  }
}

TEST(MulticastTeams, AllreduceCastsItsResult) {
  for (const char* algorithm : {"allreduce=tree_multicast", "allreduce=tree_multicast:degree=1"}) {
    test::run_nodes({0, 1, 2, 3, 4}, settings_of(algorithm), [](Rank& r) {
      Call call;
      call.coll = Coll::allreduce;
      call.bytes = 5120;
      const Reduction reduction = test::sum_of_ints();
      call.reduction = &reduction;
      ASSERT_STREQ(r.job.algorithm(r.team, call), "tree_multicast");
      sum_often(r);
    });
    test::run_nodes({2, 0, 1, 0, 2}, settings_of(algorithm), sum_often);
  }
}

TEST(MulticastTeams, AllgatherAndAllreduceCastTheirBlocks) {
  test::run_nodes({0, 1, 2, 3}, settings_of("allgather=multicast,allreduce=multicast"),
                  test::cast_blocks);
}

class WindowNodes : public ::testing::TestWithParam<const char*> {};

TEST_P(WindowNodes, EveryByteArrives) {
  for (const auto& layout :
       std::vector<std::vector<int>>{{0, 1}, {0, 1, 2, 3, 4}, {2, 0, 1, 0, 2, 1, 0}}) {
    test::run_nodes(layout, settings_of(GetParam()), [](Rank& r) {
      int round = 0;
      for (const std::size_t bytes : {1, 9000, 214'000, 215'001, 1'000'000, 3'000'001}) {
        for (const int root : {0, r.size - 1}) {
          broadcast(r, root, bytes, ++round);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
      // Back to back, and small ones in between.
      for (int i = 0; i < 10; ++i) {
        broadcast(r, 0, 100'000, ++round);
        broadcast(r, i % r.size, 100, ++round);
      }
    });
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(All, WindowNodes,
                         ::testing::Values("bcast=multicast_window",
                                           "bcast=multicast_window:window=24:pace=500"),
                         [](const auto& one) { return one.index == 0 ? "Wide" : "Narrow"; });

std::string name_of(const ::testing::TestParamInfo<const char*>& one) {
  const char* const names[] = {"Chords", "Ring", "CoRootAck", "Nack"};
  return names[one.index];
}

INSTANTIATE_TEST_SUITE_P(All, MulticastNodes,
                         ::testing::Values("bcast=multicast:chords=32", "bcast=multicast",
                                           "bcast=multicast_coroot_ack:timeout=20000",
                                           "bcast=multicast_nack:timeout=20000"),
                         name_of);

TEST(MulticastTeams, IsWhatRuns) {
  test::run_nodes({0, 1, 2}, settings_of("bcast=multicast"), [](Rank& r) {
    Call call;
    call.coll = Coll::bcast;
    call.bytes = 100;
    EXPECT_STREQ(r.job.algorithm(r.team, call), "multicast");
    call.bytes = std::size_t{1} << 20;
    EXPECT_STRNE(r.job.algorithm(r.team, call), "multicast");
    broadcast(r, 1, 100, 1);
    EXPECT_EQ(r.team.multicast().counts().damaged, 0U);
    EXPECT_TRUE(r.team.multicast().joined().ok());
  });
}

TEST(MulticastTeams, ManyTeamsHaveGroupsOfTheirOwn) {
  test::run_nodes({0, 1, 2}, settings_of("bcast=multicast"), [](Rank& r) {
    const std::int32_t members[] = {0, 1, 2};
    for (std::uint64_t i = 0; i < 30; ++i) {
      Team* team = nullptr;
      ASSERT_TRUE(r.job.create_team(TeamSpec{{77, i}, r.rank, 3, members}, &team).ok());
      Rank view{r.rank, r.size, r.job, *team};
      broadcast(view, static_cast<int>(i % 3), 500, static_cast<int>(i));
      broadcast(r, 0, 500, static_cast<int>(i));
      if (i % 8 == 0) broadcast(view, 1, 300'000, static_cast<int>(i));
      r.job.release_team(team);
    }
  });
}

/// Several under way at once, from roots in turn; every byte is compared.
void outstanding(Rank& r, int first) {
  constexpr int kAtOnce = 12;
  std::vector<std::vector<std::uint8_t>> buffers;
  std::vector<Operation*> operations(kAtOnce);
  for (int i = 0; i < kAtOnce; ++i) {
    Call call;
    call.coll = Coll::bcast;
    call.root = (first + i) % r.size;
    call.bytes = 300;
    buffers.push_back(test::message_of(first + i, call.bytes));
    if (r.rank != call.root) buffers.back().assign(call.bytes, 0xee);
    call.recv = buffers.back().data();
    ASSERT_TRUE(r.job.start(r.team, call, &operations[static_cast<std::size_t>(i)]).ok());
  }
  for (int i = 0; i < kAtOnce; ++i) {
    Operation* const operation = operations[static_cast<std::size_t>(i)];
    ASSERT_TRUE(r.job.wait(*operation).ok());
    r.job.release(operation);
    ASSERT_EQ(buffers[static_cast<std::size_t>(i)], test::message_of(first + i, 300)) << first + i;
  }
}

// The first datagrams of every rank are lost, the later ones are not. What the members decide is
// the same after the same broadcasts, or this would not end.
TEST(MulticastTeams, LeaveItWhereItDoesNotGetThroughAndComeBack) {
  Settings settings = settings_of("bcast=multicast");
  settings.fault = "drop:op=receive:count=40";
  test::run_nodes({0, 1, 2, 3}, settings, [](Rank& r) {
    int round = 0;
    const auto go_on = [&] {
      outstanding(r, round);
      round += 12;
    };
    while (!HasFailure() && round < 36) go_on();
    const CastWatch& watch = r.team.multicast().watch();
    EXPECT_TRUE(watch.has_left());
    while (!HasFailure() && watch.has_left() && round < 12'000) go_on();
    EXPECT_FALSE(watch.has_left());
    EXPECT_EQ(r.job.cast_totals().left, 1U);
    EXPECT_EQ(r.job.cast_totals().resumed, 1U);
  });
}

// ---- floods

using Clock = std::chrono::steady_clock;

/// Sends packets of its making to the group of a team, 100,000 a second, for as long as it lives.
class Flood {
 public:
  using Make = std::function<std::vector<std::byte>(std::mt19937&)>;
  Flood(const groups::GroupName& name, const Make& make)
      : socket_(socket(AF_INET, SOCK_DGRAM, 0)), thread_([this, name, make] { run(name, make); }) {}
  ~Flood() {
    over_.store(true);
    thread_.join();
    close(socket_);
  }
  void report() const {
    const std::chrono::duration<double> time = Clock::now() - begin_;
    std::printf("%llu packets, %.0f a second\n", static_cast<unsigned long long>(sent_.load()),
                static_cast<double>(sent_.load()) / time.count());
  }

 private:
  void run(const groups::GroupName& name, const Make& make) {
    ip_mreqn interface {};
    interface.imr_ifindex = static_cast<int>(if_nametoindex("lo"));
    setsockopt(socket_, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(name.port);
    address.sin_addr.s_addr = htonl(name.address);
    ASSERT_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    std::mt19937 random(5);
    std::vector<std::vector<std::byte>> packets;
    for (int i = 0; i < 256; ++i) packets.push_back(make(random));
    while (!over_.load()) {
      const auto due =
          static_cast<std::uint64_t>((Clock::now() - begin_) / std::chrono::microseconds(10));
      if (sent_.load() >= due) usleep(100);
      for (std::uint64_t i = sent_.load(); i < due && !over_.load(); ++i) {
        const auto& packet = packets[i % packets.size()];
        static_cast<void>(send(socket_, packet.data(), packet.size(), 0));
        sent_.fetch_add(1);
      }
    }
  }

  const Clock::time_point begin_ = Clock::now();
  const int socket_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> sent_{0};
  std::thread thread_;
};

std::vector<std::byte> random_bytes(std::mt19937& random, std::size_t most) {
  std::vector<std::byte> bytes(random() % most);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// With room for the trailer, which makes them the group's own.
std::vector<std::byte> sealed(const groups::GroupName& name, std::vector<std::byte> bytes,
                              std::uint32_t sender) {
  const std::size_t length = bytes.size();
  bytes.resize(length + groups::kTrailerBytes);
  groups::write_trailer(name, {sender, 0}, bytes.data(), length);
  return bytes;
}

/// Under the right key, from rank 1: no packets, and packets of broadcasts that there are, or may
/// be, with fragments that none of them has.
std::vector<std::byte> nonsense(const groups::GroupName& name, std::mt19937& random) {
  if (random() % 2 == 0) return sealed(name, random_bytes(random, 600), 1);
  const std::vector<std::byte> data = random_bytes(random, 600);
  const MulticastPacket packet{random() % 2000, 1'000'000, 1, data.data(), data.size()};
  std::vector<std::byte> out(data.size() + kPacketOverhead);
  write_packet(packet, false, out.data());
  return sealed(name, out, 1);
}

const udp::UdpDatagrams& datagrams_of(Rank& r) {
  return dynamic_cast<const udp::UdpDatagrams&>(
      *static_cast<JobImpl&>(r.job).engine().fabric().datagrams());
}

class Flooded : public ::testing::TestWithParam<const char*> {};

// Whatever anybody sends to the group, with the right key or without, only costs time.
TEST_P(Flooded, BroadcastsGoOn) {
  const bool knows_the_key = std::string(GetParam()) == "Nonsense";
  for (const char* algorithm : {"bcast=multicast", "bcast=multicast_window"}) {
    test::run_nodes({0, 1, 2, 3}, settings_of(algorithm), [&](Rank& r) {
      int round = 0;
      broadcast(r, 0, 100, ++round);  // all are in the group
      std::unique_ptr<Flood> flood;
      if (r.rank == 3) {
        const groups::GroupName name = datagrams_of(r).name_of(r.team.id());
        groups::GroupName foreign = name;
        foreign.key[3] ^= 1;
        flood = std::make_unique<Flood>(name, [&, name, foreign](std::mt19937& random) {
          return knows_the_key ? nonsense(name, random)
                               : sealed(foreign, random_bytes(random, 600), 1);
        });
      }
      for (int i = 0; i < 2000; ++i) {
        broadcast(r, i % r.size, i % 3 == 0 ? 8000 : 500, ++round);
        if (i % 50 == 0) broadcast(r, 0, 400'000, ++round);
        if (::testing::Test::HasFatalFailure()) return;
      }
      if (flood) flood->report();
    });
    ASSERT_FALSE(HasFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Flooded, ::testing::Values("Foreign", "Nonsense"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tutti
