// IP multicast: in the conformance suite, and against what others send to the same group.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/nodes_world.hpp"
#include "fabric/udp/udp.hpp"
#include "fabric/wrap/fault.hpp"
#include "team/packet.hpp"

namespace tutti::test {
namespace {

std::vector<WorldFactory> worlds() {
  Settings settings;
  settings.arena = std::size_t{64} << 20;
  settings.net_interface = "lo";
  settings.multicast = Switch::on;
  std::vector<WorldFactory> all = {
      {"Threads", [=] { return make_nodes_world(settings, 1, true); }}};
#ifndef __SANITIZE_THREAD__  // which cannot see other processes
  all.push_back({"Processes", [=] { return make_nodes_world(settings, 1, false); }});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Udp, DatagramConformance, ::testing::ValuesIn(worlds()), world_name);

constexpr std::uint64_t kId[2] = {5, 6};

std::unique_ptr<udp::UdpDatagrams> member(int rank, const groups::Secret& secret, int* group) {
  std::unique_ptr<udp::UdpDatagrams> datagrams;
  std::string message;
  EXPECT_TRUE(
      udp::UdpDatagrams::open(udp::Family::ip4, "lo", rank, secret, &datagrams, &message).ok())
      << message;
  EXPECT_TRUE(datagrams->join(kId, 5, group).ok());
  return datagrams;
}

/// Waits up to a second for a datagram.
std::size_t receive(udp::UdpDatagrams& datagrams, int group, void* out, std::size_t capacity) {
  for (int i = 0; i < 100; ++i) {
    if (const std::size_t bytes = datagrams.receive(group, out, capacity)) return bytes;
    pollfd readable{datagrams.descriptor(), POLLIN, 0};
    poll(&readable, 1, 10);
    datagrams.progress();
  }
  return 0;
}

/// Somebody who sends whatever he likes to a group.
class Stranger {
 public:
  explicit Stranger(const groups::GroupName& name) : socket_(socket(AF_INET, SOCK_DGRAM, 0)) {
    ip_mreqn interface {};
    interface.imr_ifindex = static_cast<int>(if_nametoindex("lo"));
    setsockopt(socket_, IPPROTO_IP, IP_MULTICAST_IF, &interface, sizeof interface);
    address_.sin_family = AF_INET;
    address_.sin_port = htons(name.port);
    address_.sin_addr.s_addr = htonl(name.address);
  }
  ~Stranger() { close(socket_); }
  void send(const void* data, std::size_t bytes) {
    EXPECT_EQ(sendto(socket_, data, bytes, 0, reinterpret_cast<const sockaddr*>(&address_),
                     sizeof address_),
              static_cast<ssize_t>(bytes));
  }

 private:
  int socket_;
  sockaddr_in address_{};
};

TEST(Udp, ForeignAndForgedPacketsAreCountedAndNeverDelivered) {
  groups::Secret secret;
  ASSERT_TRUE(groups::draw_secret(&secret).ok());
  int mine = -1, theirs = -1;
  const auto receiver = member(0, secret, &mine), sender = member(1, secret, &theirs);
  const groups::GroupName name = receiver->name_of(kId);
  Stranger stranger(name);
  std::mt19937 random(7);
  constexpr int kForged = 200;
  for (int i = 0; i < kForged; ++i) {
    // Random bytes, of all lengths from nothing on; then the right form under another key.
    std::vector<std::byte> packet(random() % 600);
    for (auto& byte : packet) byte = static_cast<std::byte>(random());
    if (i % 2 == 1) {
      groups::GroupName forged = name;
      forged.key[i % 16] ^= static_cast<std::uint8_t>(1 + random() % 255);
      packet.resize(packet.size() + groups::kTrailerBytes);
      groups::seal(forged, packet.data(), packet.size() - groups::kSealBytes);
    }
    stranger.send(packet.data(), packet.size());
  }
  const std::uint64_t word = 0x1234567890;
  ASSERT_TRUE(sender->cast(theirs, &word, sizeof word).ok());
  std::byte in[2048];
  ASSERT_EQ(receive(*receiver, mine, in, sizeof in), sizeof word);
  EXPECT_EQ(std::memcmp(in, &word, sizeof word), 0);
  EXPECT_EQ(receiver->counts(mine).foreign, static_cast<std::uint64_t>(kForged));
  EXPECT_EQ(receiver->counts(mine).received, 1U);
}

// However many a stranger sends, a look at the group comes to its end, and to what is behind them.
TEST(Udp, AFloodOfForeignPacketsDoesNotHoldTheReceiver) {
  groups::Secret secret;
  ASSERT_TRUE(groups::draw_secret(&secret).ok());
  int mine = -1, theirs = -1;
  const auto receiver = member(0, secret, &mine), sender = member(1, secret, &theirs);
  Stranger stranger(receiver->name_of(kId));
  constexpr int kForged = 1000;
  const std::uint64_t word = 0x1234567890;
  for (int i = 0; i < kForged; ++i) stranger.send(&i, sizeof i);
  ASSERT_TRUE(sender->cast(theirs, &word, sizeof word).ok());
  int looks = 0;
  std::size_t bytes = 0;
  for (const std::byte* found = nullptr; found == nullptr && looks < kForged; ++looks) {
    const std::uint64_t seen = receiver->arrivals(mine).load();
    const std::uint64_t foreign = receiver->counts(mine).foreign;
    found = receiver->view(mine, &bytes);
    EXPECT_LE(receiver->counts(mine).foreign - foreign, 100U);
    if (found == nullptr && receiver->counts(mine).foreign < kForged) {
      EXPECT_GT(receiver->arrivals(mine).load(), seen) << "whoever waits would miss the rest";
    }
  }
  EXPECT_GT(looks, 5);
  EXPECT_EQ(bytes, sizeof word);
}

TEST(Udp, ABitTurnedOverAnywhereIsSeen) {
  groups::Secret secret;
  ASSERT_TRUE(groups::draw_secret(&secret).ok());
  const groups::GroupName name = groups::name_group(secret, kId);
  std::vector<std::byte> packet(40 + groups::kSealBytes, std::byte{0x3c});
  groups::seal(name, packet.data(), 40);
  ASSERT_TRUE(groups::is_sealed(name, packet.data(), packet.size()));
  for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
    packet[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(groups::is_sealed(name, packet.data(), packet.size())) << bit;
    packet[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  for (std::size_t length = 0; length < packet.size(); ++length)
    EXPECT_FALSE(groups::is_sealed(name, packet.data(), length)) << length;
}

TEST(Udp, GroupsAreScopedAndDifferByJobAndCommunicator) {
  std::set<std::pair<std::uint32_t, std::uint16_t>> places;
  std::set<std::string> keys, gids;
  std::set<std::uint32_t> queue_keys;
  for (std::uint64_t job = 0; job < 20; ++job) {
    groups::Secret secret;
    ASSERT_TRUE(groups::draw_secret(&secret).ok());
    for (std::uint64_t team = 0; team < 20; ++team) {
      const std::uint64_t id[2] = {team, 1};
      const groups::GroupName name = groups::name_group(secret, id);
      EXPECT_EQ(name.address >> 18, 0xefc00000U >> 18) << "outside 239.192.0.0/14";
      EXPECT_GE(name.port, 1024);
      EXPECT_EQ(name.queue_key >> 31, 0U) << "needs a privilege";
      places.insert({name.address, name.port});
      keys.insert(std::string(reinterpret_cast<const char*>(name.key), sizeof name.key));
      gids.insert(std::string(reinterpret_cast<const char*>(name.gid), sizeof name.gid));
      queue_keys.insert(name.queue_key);
    }
  }
  EXPECT_EQ(places.size(), 400U);  // by chance equal: 400^2/2 in 2^18 * 12000
  EXPECT_EQ(keys.size(), 400U);
  EXPECT_EQ(gids.size(), 400U);
  EXPECT_GE(queue_keys.size(), 399U);  // by chance equal: 400^2/2 in 2^31
}

TEST(Losses, AreCountedByTheGapsInTheNumbers) {
  groups::Losses losses;
  losses.note({3, 100});  // where this sender's numbers begin
  losses.note({3, 101});
  EXPECT_EQ(losses.count(), 0U);
  losses.note({3, 105});
  EXPECT_EQ(losses.count(), 3U);
  losses.note({3, 103});  // overtaken
  EXPECT_EQ(losses.count(), 2U);
  losses.note({4, 0});
  losses.note({4, 2});
  EXPECT_EQ(losses.count(), 3U);
  losses.note({4, 2});  // twice
  EXPECT_EQ(losses.count(), 3U);
  losses.note({5, ~0U});  // the numbers go round
  losses.note({5, 1});
  EXPECT_EQ(losses.count(), 4U);
}

/// Rank 0 casts the numbers from 1 to 9.
Task cast_nine(Node& n, std::vector<int>* arrived, Datagrams::Counts* counts) {
  Datagrams& datagrams = *n.fabric.datagrams();
  int group = -1;
  TUTTI_REQUIRE_OK(datagrams.join(kId, 5, &group));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  for (int i = 1; i <= 9 && n.rank() == 0; ++i)
    TUTTI_REQUIRE_OK(datagrams.cast(group, &i, sizeof i));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  int value = 0;
  while (n.rank() == 1 && datagrams.receive(group, &value, sizeof value) == sizeof value)
    arrived->push_back(value);
  if (n.rank() == 1) *counts = datagrams.counts(group);
  datagrams.leave(group);
  co_await n.barrier();
  co_return Status::success();
}

/// What has arrived of them at rank 1, with these faults.
std::vector<int> that_arrive(const std::string& faults, Datagrams::Counts* counts) {
  Settings settings;
  settings.arena = std::size_t{64} << 20;
  settings.net_interface = "lo";
  settings.multicast = Switch::on;
  wrap::FaultSpec spec;
  std::string message;
  EXPECT_TRUE(wrap::FaultSpec::parse(faults, &spec, &message)) << message;
  const auto world = make_nodes_world(settings, 1, true, [&](std::unique_ptr<Fabric> fabric) {
    return std::make_unique<wrap::Fault>(std::move(fabric), spec);
  });
  std::vector<int> arrived;
  for (const Outcome& outcome :
       world->run(2, [&](Node& n) { return cast_nine(n, &arrived, counts); }))
    EXPECT_TRUE(outcome.status.ok());
  return arrived;
}

TEST(FaultsOfDatagrams, AreThoseThatWereAskedFor) {
  Datagrams::Counts counts;
  EXPECT_EQ(that_arrive("drop:op=receive:at=3:every=3:count=0:rank=1", &counts),
            (std::vector<int>{1, 2, 4, 5, 7, 8}));
  EXPECT_EQ(counts.received, 6U);
  EXPECT_EQ(counts.dropped, 3U);
  EXPECT_EQ(that_arrive("drop:op=cast:at=2:every=2:count=2", &counts),
            (std::vector<int>{1, 3, 5, 6, 7, 8, 9}));
  EXPECT_EQ(that_arrive("duplicate:op=cast:at=9", &counts),
            (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 9}));
  const std::vector<int> wrong =
      that_arrive("corrupt:op=receive:at=4,corrupt:op=cast:at=6", &counts);
  ASSERT_EQ(wrong.size(), 9U);
  for (int i = 1; i <= 9; ++i)
    EXPECT_EQ(wrong[static_cast<std::size_t>(i) - 1] == i, i != 4 && i != 6) << i;
}

TEST(Packet, ReadsWhatWasWrittenAndNothingElse) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> data(random() % 1500);
    for (auto& byte : data) byte = static_cast<std::byte>(random());
    const MulticastPacket packet{random() * 0x100000001ULL, static_cast<std::uint32_t>(random()),
                                 static_cast<std::uint32_t>(random()), data.data(), data.size()};
    std::vector<std::byte> out(data.size() + kPacketOverhead);
    ASSERT_EQ(write_packet(packet, false, out.data()), out.size());
    MulticastPacket read;
    ASSERT_TRUE(read_packet(out.data(), out.size(), false, &read));
    EXPECT_EQ(read.broadcast, packet.broadcast);
    EXPECT_EQ(read.sequence, packet.sequence);
    EXPECT_EQ(read.sender, packet.sender);
    ASSERT_EQ(read.bytes, data.size());
    EXPECT_TRUE(data.empty() || std::memcmp(read.data, data.data(), data.size()) == 0);
    // A bit turned over, or cut off.
    const std::size_t bit = random() % (8 * out.size());
    out[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(read_packet(out.data(), out.size(), false, &read)) << bit;
    out[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(read_packet(out.data(), random() % out.size(), false, &read));
  }
}

TEST(Packet, RandomBytesAreNotPackets) {
  std::mt19937 random(13);
  std::vector<std::byte> bytes(400);
  for (int round = 0; round < 20000; ++round) {
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    MulticastPacket packet;
    packet.sequence = 77;
    EXPECT_FALSE(read_packet(bytes.data(), random() % bytes.size(), false, &packet));
    EXPECT_EQ(packet.sequence, 77U) << "set although it failed";
  }
}

}  // namespace
}  // namespace tutti::test
