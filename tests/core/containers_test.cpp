// Ranks in namespaces of their own, as containers have them: which of them share memory, what they
// do without, and that a death is noticed all the same.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "fabric/shm/shm.hpp"
#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

#ifndef __SANITIZE_THREAD__  // which cannot see other processes

constexpr int kRefused = 77;  // exit status: the system does not let us test this

bool write_file(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  const bool good =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) close(file);
  return good;
}

/// Puts this process into namespaces of its own, where it is root, as `unshare -Ur` does.
bool enter(int spaces) {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(spaces) != 0) return false;
  if ((spaces & CLONE_NEWUSER) == 0) return true;
  return write_file("/proc/self/uid_map", "0 " + user + " 1") &&
         write_file("/proc/self/setgroups", "deny") &&
         write_file("/proc/self/gid_map", "0 " + group + " 1");
}

/// Runs `body` there: of a new pid namespace, a child is the first process.
int run_in(int spaces, const std::function<int()>& body) {
  if (!enter(spaces)) return kRefused;
  if ((spaces & CLONE_NEWPID) == 0) return body();
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool refused(const std::vector<int>& statuses) {
  for (const int status : statuses) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == kRefused) return true;
  }
  return false;
}

Status create(Bootstrap& bootstrap, std::unique_ptr<Job>* job, Team** team) {
  setenv("TUTTI_LOG", "error", 1);
  setenv("TUTTI_NET", "off", 1);  // whoever shares no memory reaches nobody
  setenv("TUTTI_DEADLINE", "30", 1);
  Host host;
  host.rank = bootstrap.rank();
  host.size = bootstrap.size();
  host.self = &bootstrap;
  host.allgather = [](void* self, const void* in, void* out, std::size_t bytes) {
    return static_cast<Bootstrap*>(self)->allgather(in, out, bytes);
  };
  TUTTI_TRY(Job::create(host, false, job));
  std::vector<std::int32_t> members;
  for (std::int32_t rank = 0; rank < host.size; ++rank) members.push_back(rank);
  return (*job)->create_team(TeamSpec{{1, 1}, host.rank, host.size, members.data()}, team);
}

Status allreduce(Job& job, Team& team, std::size_t count) {
  Reduction reduction;
  EXPECT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  std::vector<std::int32_t> in(count, 1), out(count, -1);
  Call call;
  call.coll = Coll::allreduce;
  call.send = in.data();
  call.recv = out.data();
  call.bytes = count * 4;
  call.reduction = &reduction;
  const Status status = job.run(team, call);
  for (std::size_t i = 0; status.ok() && i < count; ++i) {
    if (out[i] != team.size()) return Status::error(Code::corrupt, "a wrong sum");
  }
  return status;
}

struct Boxes {
  const char* name;
  int spaces;
  bool first_too;  // else rank 0 is on the host
};

class Containers : public ::testing::TestWithParam<Boxes> {
 protected:
  static int spaces_of(const Bootstrap& bootstrap) {
    return bootstrap.rank() != 0 || GetParam().first_too ? GetParam().spaces : 0;
  }
};

TEST_P(Containers, ShareTheMemoryOfTheirNode) {
  const auto statuses = test::fork_ranks(3, [](Bootstrap& bootstrap) {
    return run_in(spaces_of(bootstrap), [&] {
      Settings settings;
      settings.log = LogLevel::error;
      std::unique_ptr<shm::ShmFabric> fabric;
      const Status status = test::connect_shm(bootstrap, settings, &fabric);
      EXPECT_TRUE(status.ok()) << name(status.code);
      if (!status.ok()) return 1;
      EXPECT_EQ(fabric->neighbours().size(), 3U);
      EXPECT_EQ(fabric->losses().separated, -1);
      if ((GetParam().spaces & CLONE_NEWPID) != 0) {
        EXPECT_GE(fabric->losses().without_cma, 0);
        EXPECT_TRUE(fabric->losses().processes);
        EXPECT_FALSE(fabric->traits().user_memory) << "numbers of processes that mean others";
      }
      for (int peer = 0; peer < 3; ++peer) EXPECT_TRUE(fabric->alive(peer)) << peer;
      std::uint8_t done = 1, all[3];  // nobody leaves before all have looked
      EXPECT_TRUE(bootstrap.allgather(&done, all, 1).ok());
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
  });
  if (refused(statuses)) GTEST_SKIP() << "such namespaces are not permitted here";
  EXPECT_TRUE(test::all_exited(statuses));
}

TEST_P(Containers, RunCollectives) {
  const auto statuses = test::fork_ranks(3, [](Bootstrap& bootstrap) {
    return run_in(spaces_of(bootstrap), [&] {
      std::unique_ptr<Job> job;
      Team* team = nullptr;
      EXPECT_TRUE(create(bootstrap, &job, &team).ok());
      for (const std::size_t count : {1, 1 << 18, 3 << 20}) {
        const Status done = team != nullptr ? allreduce(*job, *team, count)
                                            : Status::error(Code::internal, "no team");
        EXPECT_TRUE(done.ok()) << name(done.code) << " " << count;
      }
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
  });
  if (refused(statuses)) GTEST_SKIP() << "such namespaces are not permitted here";
  EXPECT_TRUE(test::all_exited(statuses));
}

TEST_P(Containers, ADeathIsNoticed) {
  const auto statuses = test::fork_ranks(3, [](Bootstrap& bootstrap) {
    return run_in(spaces_of(bootstrap), [&] {
      std::unique_ptr<Job> job;
      Team* team = nullptr;
      EXPECT_TRUE(create(bootstrap, &job, &team).ok());
      if (team == nullptr) return 1;
      EXPECT_TRUE(allreduce(*job, *team, 1).ok());
      // The first process of a pid namespace cannot kill itself otherwise.
      if (bootstrap.rank() == 1) _exit(9);
      Status status;
      for (int round = 0; round < 1000 && status.ok(); ++round) status = allreduce(*job, *team, 1);
      EXPECT_EQ(status.code, Code::peer_lost) << name(status.code);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
  });
  if (refused(statuses)) GTEST_SKIP() << "such namespaces are not permitted here";
  EXPECT_EQ(WEXITSTATUS(statuses[0]), 0);
  EXPECT_EQ(WEXITSTATUS(statuses[1]), 9);
  EXPECT_EQ(WEXITSTATUS(statuses[2]), 0);
}

constexpr int kUser = CLONE_NEWUSER;
constexpr int kMost = CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS;
INSTANTIATE_TEST_SUITE_P(Core, Containers,
                         ::testing::Values(Boxes{"None", 0, true}, Boxes{"User", kUser, true},
                                           Boxes{"UserBesidesTheHost", kUser, false},
                                           Boxes{"UserIpcUtsMount", kMost, true},
                                           Boxes{"UserAndPid", kUser | CLONE_NEWPID, true},
                                           Boxes{"Everything", kMost | CLONE_NEWPID, true},
                                           Boxes{"EverythingBesidesTheHost", kMost | CLONE_NEWPID,
                                                 false}),
                         [](const auto& box) { return std::string(box.param.name); });

TEST(Containers, NetworkNamespacesSeparateAndThatIsKnown) {
  const auto statuses = test::fork_ranks(3, [](Bootstrap& bootstrap) {
    return run_in(bootstrap.rank() == 1 ? CLONE_NEWUSER | CLONE_NEWNET : 0, [&] {
      Settings settings;
      settings.log = LogLevel::error;
      std::unique_ptr<shm::ShmFabric> fabric;
      const Status status = test::connect_shm(bootstrap, settings, &fabric);
      EXPECT_TRUE(status.ok()) << name(status.code);
      if (!status.ok()) return 1;
      EXPECT_EQ(fabric->neighbours().size(), bootstrap.rank() == 1 ? 1U : 2U);
      EXPECT_EQ(fabric->losses().separated, 0);
      EXPECT_EQ(fabric->losses().from, 1);
      EXPECT_EQ(fabric->machine_ranks(), 3);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
  });
  if (refused(statuses)) GTEST_SKIP() << "such namespaces are not permitted here";
  EXPECT_TRUE(test::all_exited(statuses));
}

TEST(Containers, RanksThatAreToldToBeApartAreNotSaidToLoseAnything) {
  const auto statuses = test::fork_ranks(2, [](Bootstrap& bootstrap) {
    Settings settings;
    settings.node = std::to_string(bootstrap.rank());
    std::unique_ptr<shm::ShmFabric> fabric;
    EXPECT_TRUE(test::connect_shm(bootstrap, settings, &fabric).ok());
    EXPECT_TRUE(fabric != nullptr && fabric->losses().separated == -1);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(test::all_exited(statuses));
}

#endif

}  // namespace
}  // namespace tutti
