// The nodes fabric over verbs in the conformance suite. Needs four RDMA devices with the interfaces
// e0 to e3: the virtual machine of tests/verbs-vm, which runs this program.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/groups/groups.hpp"
#include "fabric/nodes_world.hpp"
#include "fabric/ofi/ofi.hpp"
#include "fabric/verbs/verbs.hpp"

namespace tutti::test {
namespace {

constexpr int kDevices = 4;

/// Ranks take the devices in turn.
Status open_verbs(const Settings& settings, int rank, std::unique_ptr<Network>* out,
                  std::string* message) {
  Settings own = settings;
  own.net_interface = std::string("e").append(std::to_string(rank % kDevices));
  return verbs::VerbsNetwork::open(own, out, message);
}

/// The guest has little memory, and a device registers arenas whole.
Settings small_settings() {
  Settings settings;
  settings.arena = std::size_t{32} << 20;
  settings.ring = std::size_t{1} << 20;
  return settings;
}

std::vector<WorldFactory> worlds() {
  const Settings settings = small_settings();
  std::vector<WorldFactory> all;
  for (const int ranks_per_node : {1, 2}) {
    const std::string form = ranks_per_node == 1 ? "Apart" : "InPairs";
    for (const bool threads : {true, false}) {
      all.push_back({(threads ? "Threads" : "Processes") + form, [=] {
                       return make_nodes_world(settings, ranks_per_node, threads, {}, open_verbs);
                     }});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Verbs, Conformance, ::testing::ValuesIn(worlds()), world_name);

/// libfabric's way to the same devices, which wants sources registered and named (FI_MR_LOCAL).
Status open_rxm(const Settings& settings, int rank, std::unique_ptr<Network>* out,
                std::string* message) {
  Settings own = settings;
  own.net_provider = "verbs;ofi_rxm";
  own.net_interface = std::string("rxe").append(std::to_string(rank % kDevices));
  return ofi::OfiNetwork::open(own, out, message);
}

std::vector<WorldFactory> rxm_worlds() {
  const Settings settings = small_settings();
  return {{"Libfabric", [=] { return make_nodes_world(settings, 1, true, {}, open_rxm); }}};
}

INSTANTIATE_TEST_SUITE_P(Rxm, Conformance, ::testing::ValuesIn(rxm_worlds()), world_name);

/// Ranks are nodes of their own; those of more than four share devices.
std::vector<WorldFactory> datagram_worlds() {
  Settings settings = small_settings();
  settings.multicast = Switch::on;
  std::vector<WorldFactory> all;
  for (const bool threads : {true, false}) {
    all.push_back({threads ? "Threads" : "Processes",
                   [=] { return make_nodes_world(settings, 1, threads, {}, open_verbs); }});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Verbs, DatagramConformance, ::testing::ValuesIn(datagram_worlds()),
                         world_name);

// ---- what is particular to datagrams over verbs
// --------------------------------------------------------------------

constexpr std::uint64_t kId[2] = {5, 6};

sockaddr_storage address_of(int device) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x0a48'0001U + static_cast<unsigned>(device));  // 10.72.0.1 ...
  sockaddr_storage any{};
  std::memcpy(&any, &address, sizeof address);
  return any;
}

/// Something that sends and receives on a device.
class Member {
 public:
  Member(int device, const groups::Secret& secret) {
    Settings settings;
    settings.net_interface = "e" + std::to_string(device);
    std::string message;
    EXPECT_TRUE(verbs::VerbsNetwork::open(settings, &network_, &message).ok()) << message;
    EXPECT_TRUE(network_->open_datagrams(device, secret, &datagrams, &message).ok()) << message;
  }
  /// Waits up to two seconds for a datagram.
  std::size_t receive(int group, void* out, std::size_t capacity) {
    for (int i = 0; i < 200; ++i) {
      if (const std::size_t bytes = datagrams->receive(group, out, capacity)) return bytes;
      pollfd readable{datagrams->descriptor(), POLLIN, 0};
      poll(&readable, 1, 10);
      datagrams->progress();
    }
    return 0;
  }
  /// Those that are there, after all of them have had the time to come.
  int receive_all(int group) {
    usleep(200'000);
    int count = 0;
    for (std::uint32_t value = 0; datagrams->receive(group, &value, sizeof value) != 0;) ++count;
    return count;
  }

 private:
  std::unique_ptr<Network> network_;

 public:
  std::unique_ptr<NetworkDatagrams> datagrams;
};

// What finds no receive is lost and counted, and afterwards all is as before.
TEST(VerbsDatagramsThreads, WhatFindsNoReceiveIsDroppedAndCounted) {
  groups::Secret secret;
  ASSERT_TRUE(groups::draw_secret(&secret).ok());
  Member sender(0, secret), receiver(1, secret);
  int theirs = -1, mine = -1;
  constexpr int kDepth = 5, kBurst = 40;
  ASSERT_TRUE(sender.datagrams->join(kId, kDepth, &theirs).ok());
  ASSERT_TRUE(receiver.datagrams->join(kId, kDepth, &mine).ok());
  EXPECT_EQ(receiver.datagrams->room(mine), static_cast<std::size_t>(kDepth));
  std::uint32_t value = 0;
  const auto cast = [&](int count) {
    for (int i = 0; i < count; ++i, ++value)
      ASSERT_TRUE(sender.datagrams->cast(theirs, &value, sizeof value).ok());
  };
  cast(kBurst);
  const int kept = receiver.receive_all(mine);
  EXPECT_GE(kept, 1);
  EXPECT_LE(kept, kDepth);
  cast(1);
  std::uint32_t in = 0;
  ASSERT_EQ(receiver.receive(mine, &in, sizeof in), sizeof in);
  EXPECT_EQ(in, static_cast<std::uint32_t>(kBurst));
  const auto counts = receiver.datagrams->counts(mine);
  EXPECT_EQ(counts.received, static_cast<std::uint64_t>(kept) + 1);
  EXPECT_EQ(counts.dropped, static_cast<std::uint64_t>(kBurst - kept));
  // With more receives all of as many find one, and the device's queues have grown with them.
  receiver.datagrams->deepen(mine, 400);
  EXPECT_EQ(receiver.datagrams->room(mine), 400U);
  for (int round = 0; round < 3; ++round) {
    cast(300);
    EXPECT_EQ(receiver.receive_all(mine), 300) << round;
  }
  receiver.datagrams->deepen(mine, 100'000);
  EXPECT_LE(receiver.datagrams->room(mine), 512U);
}

/// Somebody who sends whatever he likes to a group, from a queue pair of his own.
class Stranger {
 public:
  Stranger(int device, const groups::GroupName& name) : name_(name) {
    sockaddr_storage source = address_of(device);
    sockaddr_in group{};
    group.sin_family = AF_INET;
    group.sin_addr.s_addr = htonl(name.address);
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_UD;
    wanted.cap = {kSends, 1, 1, 1, 0};
    events_ = rdma_create_event_channel();
    EXPECT_EQ(rdma_create_id(events_, &id_, nullptr, RDMA_PS_UDP), 0);
    EXPECT_EQ(rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&source)), 0);
    EXPECT_EQ(rdma_create_qp(id_, nullptr, &wanted), 0);
    EXPECT_EQ(rdma_join_multicast(id_, reinterpret_cast<sockaddr*>(&group), nullptr), 0);
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(events_, &event), 0);
    EXPECT_EQ(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
    way_ = ibv_create_ah(id_->pd, &event->param.ud.ah_attr);
    rdma_ack_cm_event(event);
    memory_.resize(4096);
    region_ = ibv_reg_mr(id_->pd, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    rdma_leave_multicast(id_, reinterpret_cast<sockaddr*>(&group));
  }
  ~Stranger() {
    ibv_dereg_mr(region_);
    ibv_destroy_ah(way_);
    rdma_destroy_qp(id_);
    rdma_destroy_id(id_);
    rdma_destroy_event_channel(events_);
  }
  void send(const std::vector<std::byte>& packet, std::uint32_t queue_key) {
    std::copy(packet.begin(), packet.end(), memory_.begin());
    ibv_sge part{reinterpret_cast<std::uint64_t>(memory_.data()),
                 static_cast<std::uint32_t>(packet.size()), region_->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &part;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud.ah = way_;
    request.wr.ud.remote_qpn = 0xffffff;
    request.wr.ud.remote_qkey = queue_key;
    ASSERT_EQ(ibv_post_send(id_->qp, &request, &bad), 0);
    ibv_wc entry{};
    while (ibv_poll_cq(id_->send_cq, 1, &entry) == 0) {
    }
    ASSERT_EQ(entry.status, IBV_WC_SUCCESS);
  }

 private:
  static constexpr std::uint32_t kSends = 4;
  groups::GroupName name_;
  rdma_event_channel* events_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_ah* way_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::vector<std::byte> memory_;
};

TEST(VerbsDatagramsThreads, ForeignAndForgedDatagramsAreCountedAndNeverDelivered) {
  groups::Secret secret;
  ASSERT_TRUE(groups::draw_secret(&secret).ok());
  Member sender(0, secret), receiver(1, secret);
  int theirs = -1, mine = -1;
  ASSERT_TRUE(sender.datagrams->join(kId, 5, &theirs).ok());
  ASSERT_TRUE(receiver.datagrams->join(kId, 100, &mine).ok());
  const groups::GroupName name = groups::name_group(secret, kId);
  Stranger stranger(2, name);
  std::mt19937 random(7);
  constexpr int kForged = 60;
  for (int i = 0; i < kForged; ++i) {
    // Random bytes, of all lengths; then the right form under another key.
    std::vector<std::byte> packet(1 + random() % 600);
    for (auto& byte : packet) byte = static_cast<std::byte>(random());
    if (i % 2 == 1) {
      groups::GroupName forged = name;
      forged.key[i % 16] ^= static_cast<std::uint8_t>(1 + random() % 255);
      packet.resize(packet.size() + groups::kTrailerBytes);
      groups::write_trailer(forged, {0, 1}, packet.data(), packet.size() - groups::kTrailerBytes);
    }
    ASSERT_NO_FATAL_FAILURE(stranger.send(packet, name.queue_key));
    // These are of another group, and the device keeps them away.
    ASSERT_NO_FATAL_FAILURE(stranger.send(packet, name.queue_key ^ 1));
  }
  const std::uint64_t word = 0x1234567890;
  ASSERT_TRUE(sender.datagrams->cast(theirs, &word, sizeof word).ok());
  std::byte in[4096];
  ASSERT_EQ(receiver.receive(mine, in, sizeof in), sizeof word);
  EXPECT_EQ(std::memcmp(in, &word, sizeof word), 0);
  EXPECT_EQ(receiver.datagrams->counts(mine).foreign, static_cast<std::uint64_t>(kForged));
  EXPECT_EQ(receiver.datagrams->counts(mine).received, 1U);
}

// Groups come and go without the device or the connection manager keeping anything.
TEST(VerbsDatagramsThreads, GroupsCanBeMadeAgainAndAgain) {
  groups::Secret secret;
  ASSERT_TRUE(groups::draw_secret(&secret).ok());
  Member one(0, secret), other(1, secret);
  for (std::uint64_t round = 0; round < 20; ++round) {
    const std::uint64_t first[2] = {round, 1}, second[2] = {round, 2};
    int a = -1, b = -1, c = -1, d = -1;
    ASSERT_TRUE(one.datagrams->join(first, 5, &a).ok());
    ASSERT_TRUE(one.datagrams->join(second, 5, &b).ok());
    ASSERT_TRUE(other.datagrams->join(first, 5, &c).ok());
    ASSERT_TRUE(other.datagrams->join(second, 5, &d).ok());
    ASSERT_TRUE(one.datagrams->cast(a, &round, sizeof round).ok());
    ASSERT_TRUE(one.datagrams->cast(b, &a, sizeof a).ok());
    std::uint64_t in = 0;
    ASSERT_EQ(other.receive(c, &in, sizeof in), sizeof round);
    EXPECT_EQ(in, round);
    ASSERT_EQ(other.receive(d, &in, sizeof in), sizeof a);
    for (const int group : {a, b}) one.datagrams->leave(group);
    for (const int group : {c, d}) other.datagrams->leave(group);
  }
}

}  // namespace
}  // namespace tutti::test
