// Strangers: who is no rank of the job, but reaches its port or its node's sockets, gets nothing.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "fabric/ofi/ofi.hpp"
#include "fabric/shm/meeting.hpp"
#include "support/local_jobs.hpp"

namespace tutti::test {
namespace {

// ---- over libfabric

/// A rank of two, each with an endpoint of its own.
class End {
 public:
  End() {
    Settings settings;
    settings.libfabric = test_libfabric();
    settings.net_timeout_s = 2;
    std::string message;
    EXPECT_TRUE(ofi::OfiNetwork::open(settings, &network, &message).ok()) << message;
  }
  void meet(const End& first, const End& second, int rank, const Secret& secret) {
    const NetworkAddress both[] = {first.network->address(), second.network->address()};
    ASSERT_TRUE(network->meet(both, 2, rank, secret).ok());
  }
  /// Drives both until `over`, or for `seconds`.
  template <class Over>
  bool drive(End& other, double seconds, Over over) {
    for (int i = 0; i < seconds * 2000; ++i) {
      network->progress(true);
      other.network->progress(true);
      if (over()) return true;
      usleep(500);
    }
    return false;
  }
  std::unique_ptr<Network> network;
};

/// Whether a read of `bytes` there brings what the owner has written.
bool reads(End& thief, End& owner, const NetworkMemory& memory, std::uint64_t key,
           std::uint64_t offset) {
  std::uint64_t word = 0;
  Completion done;
  const NetworkTarget target{0, memory.address + offset, key};
  if (!thief.network->get(target, &word, sizeof word, &done).ok()) return false;
  NetworkFinished over;
  bool good = false;
  thief.drive(owner, 1, [&] {
    if (thief.network->finished(&over, 1) == 0) return false;
    good = over.status.ok();
    return true;
  });
  thief.network->forget(&done);
  return good && word == 0x5ec2e7;
}

class Stranger : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(draw_secret(&secret_).ok());
    owner_.meet(owner_, friend_, 0, secret_);
    friend_.meet(owner_, friend_, 1, secret_);
    memory_.assign(4096 / 8, 0x5ec2e7);
    ASSERT_TRUE(owner_.network->expose(memory_.data(), 4096, &exposed_).ok());
  }
  End owner_, friend_;
  Secret secret_;
  std::vector<std::uint64_t> memory_;
  NetworkMemory exposed_;
};

TEST_F(Stranger, CannotNameTheMemoryOfARank) {
  ASSERT_TRUE(reads(friend_, owner_, exposed_, exposed_.key, 0)) << "who has the key may read";
  for (std::uint64_t key : {0, 1, 2, 3, 4}) {
    End thief;  // one whose access was refused is cut off
    thief.meet(owner_, thief, 1, Secret{});
    EXPECT_FALSE(reads(thief, owner_, exposed_, key, 0)) << "key " << key;
  }
  End thief;
  thief.meet(owner_, thief, 1, Secret{});
  EXPECT_FALSE(reads(thief, owner_, exposed_, exposed_.key + 1, 0));
  // A write is over at its sender's when it has left, so the owner is asked.
  const std::uint64_t forged = 666;
  End vandal;
  vandal.meet(owner_, vandal, 1, Secret{});
  ASSERT_TRUE(
      vandal.network->put({0, exposed_.address, 1}, &forged, sizeof forged, nullptr, 0, nullptr)
          .ok());
  vandal.drive(owner_, 0.5, [] { return false; });
  EXPECT_EQ(memory_, std::vector<std::uint64_t>(4096 / 8, 0x5ec2e7));
  EXPECT_TRUE(reads(friend_, owner_, exposed_, exposed_.key, 8)) << "the job goes on";
}

TEST_F(Stranger, KeysOfRegionsDoNotFollowFromEachOther) {
  std::vector<std::uint64_t> keys{exposed_.key};
  std::vector<std::vector<std::byte>> regions(64, std::vector<std::byte>(64));
  for (auto& region : regions) {
    NetworkMemory memory;
    ASSERT_TRUE(owner_.network->expose(region.data(), region.size(), &memory).ok());
    for (const std::uint64_t other : keys) {
      const std::uint64_t distance = memory.key > other ? memory.key - other : other - memory.key;
      EXPECT_GT(distance, std::uint64_t{1} << 32);  // by chance nearer: 2000 pairs in 2^31
    }
    keys.push_back(memory.key);
  }
}

TEST_F(Stranger, CannotReachBeyondARegion) {
  End thief;
  thief.meet(owner_, thief, 1, secret_);
  EXPECT_FALSE(reads(thief, owner_, exposed_, exposed_.key, 4096));
  EXPECT_EQ(memory_[0], 0x5ec2e7U);
}

TEST_F(Stranger, CannotSendNoticesInAnothersName) {
  End liar;
  Secret other;
  ASSERT_TRUE(draw_secret(&other).ok());
  liar.meet(owner_, liar, 1, other);
  const NetworkTarget anywhere{0, exposed_.address, exposed_.key};
  ASSERT_TRUE(liar.network->notify(anywhere, 5).ok());
  ASSERT_TRUE(friend_.network->notify(anywhere, 6).ok());
  std::vector<std::uint32_t> heard;
  const auto listen = [&] {
    liar.network->progress(true);
    std::uint32_t notices[4];
    const std::size_t count = owner_.network->notices(notices, 4);
    heard.insert(heard.end(), notices, notices + count);
    return heard.size() > 1;
  };
  friend_.drive(owner_, 2, listen);
  EXPECT_EQ(heard, std::vector<std::uint32_t>{6});
}

// ---- on a node

socklen_t address_of(const shm::Meeting::Name& name, sockaddr_un* address) {
  *address = sockaddr_un{};
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name.bytes, sizeof name.bytes);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + sizeof name.bytes);
}

int connect_to(const shm::Meeting::Name& name) {
  sockaddr_un address;
  const socklen_t length = address_of(name, &address);
  const int caller = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(caller, reinterpret_cast<sockaddr*>(&address), length), 0);
  return caller;
}

/// Whether a descriptor or anything else comes before the other end hangs up.
bool gets_something(int caller) {
  char bytes[64];
  pollfd readable{caller, POLLIN, 0};
  return poll(&readable, 1, 2000) > 0 && recv(caller, bytes, sizeof bytes, 0) > 0;
}

TEST(Meeting, SegmentsGoToThoseWhoKnowTheSecretOnly) {
  Secret secret;
  ASSERT_TRUE(draw_secret(&secret).ok());
  shm::Meeting leader(0), follower(1), liar(1);
  shm::Meeting::Name name, unused;
  ASSERT_TRUE(leader.open(&name).ok());
  ASSERT_TRUE(follower.open(&unused).ok());
  ASSERT_TRUE(liar.open(&unused).ok());
  leader.adopt(secret);
  follower.adopt(secret);
  liar.adopt(Secret{});
  // More than are listened to at once say nothing, one says something, one lies: all of this user.
  std::vector<int> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(connect_to(name));
  ASSERT_EQ(send(strangers[280], "let me in, please: I am of your family", 38, MSG_NOSIGNAL), 38);
  ASSERT_TRUE(liar.call(name));
  ASSERT_TRUE(follower.call(name));
  Status served, received;
  int descriptor = -1;
  std::thread serving([&] { served = leader.serve(STDERR_FILENO, {1}); });
  received = follower.receive(&descriptor);
  serving.join();
  EXPECT_TRUE(served.ok());
  EXPECT_TRUE(received.ok());
  EXPECT_GE(descriptor, 0);
  close(descriptor);
  int stolen = -1;
  EXPECT_FALSE(liar.receive(&stolen).ok());
  EXPECT_EQ(stolen, -1);
  for (const int stranger : strangers) {
    EXPECT_FALSE(gets_something(stranger));
    close(stranger);
  }
}

/// Takes the next caller of `listener`, and hands it a descriptor with a proof of zeros.
void hand_over_something(int listener) {
  const int caller = accept(listener, nullptr, nullptr);
  Proof zeros;
  iovec data{&zeros, sizeof zeros};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = STDERR_FILENO;
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  EXPECT_EQ(sendmsg(caller, &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof zeros));
  close(caller);
}

TEST(Meeting, WhoHasTheNameButNotTheSecretIsNoLeader) {
  const shm::Meeting::Name name{{1, 2, 3, 4}};
  sockaddr_un address;
  const socklen_t length = address_of(name, &address);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 4), 0);
  shm::Meeting follower(1);
  shm::Meeting::Name unused;
  ASSERT_TRUE(follower.open(&unused).ok());
  Secret secret;
  ASSERT_TRUE(draw_secret(&secret).ok());
  follower.adopt(secret);
  ASSERT_TRUE(follower.call(name));
  std::thread serving([&] { hand_over_something(listener); });
  int descriptor = -1;
  EXPECT_EQ(follower.receive(&descriptor).code, Code::not_permitted);
  EXPECT_EQ(descriptor, -1);
  serving.join();
  close(listener);
}

TEST(Meeting, NobodyIsReachedWhereNobodyListens) {
  shm::Meeting follower(1);
  shm::Meeting::Name name;
  ASSERT_TRUE(follower.open(&name).ok());
  EXPECT_FALSE(follower.call(shm::Meeting::Name{}));
}

}  // namespace
}  // namespace tutti::test
