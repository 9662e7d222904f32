// What a system may refuse: memory, descriptors, cross-memory attach. Each is a status and a line,
// on all ranks.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "fabric/shm/shm.hpp"
#include "support/collective_model.hpp"
#include "support/local_jobs.hpp"

namespace tutti {
namespace {

using test::Rank;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// A job over a bootstrap, as a host makes it, with its settings from the environment.
Status create_job(Bootstrap& bootstrap, std::unique_ptr<Job>* job) {
  Host host;
  host.rank = bootstrap.rank();
  host.size = bootstrap.size();
  host.self = &bootstrap;
  host.allgather = [](void* self, const void* in, void* out, std::size_t bytes) {
    return static_cast<Bootstrap*>(self)->allgather(in, out, bytes);
  };
  return Job::create(host, false, job);
}

Status allreduce(Job& job, Team& team, std::size_t count, const Reduction& reduction) {
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

Reduction sum() {
  Reduction reduction;
  EXPECT_TRUE(find_reduction(Op::sum, Type::i32, &reduction));
  return reduction;
}

// ---- the start
// -----------------------------------------------------------------------------------

/// Counts the exchanges through another one.
class CountingBootstrap final : public Bootstrap {
 public:
  explicit CountingBootstrap(Bootstrap& inner) : inner_(inner) {}
  int rank() const noexcept override { return inner_.rank(); }
  int size() const noexcept override { return inner_.size(); }
  Status allgather(const void* in, void* out, std::size_t bytes) noexcept override {
    ++exchanges;
    return inner_.allgather(in, out, bytes);
  }
  int exchanges = 0;

 private:
  Bootstrap& inner_;
};

/// Each may take the host milliseconds, where it has more ranks than processors.
TEST(Resources, AJobOnOneNodeStartsInThreeExchanges) {
  const auto statuses = test::fork_ranks(4, [](Bootstrap& bootstrap) {
    CountingBootstrap counting(bootstrap);
    std::unique_ptr<Job> job;
    EXPECT_TRUE(create_job(counting, &job).ok());
    EXPECT_EQ(counting.exchanges, 3);
    std::int32_t pid = getpid(), pids[4];
    EXPECT_TRUE(bootstrap.allgather(&pid, pids, sizeof pid).ok());
    for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(job->process(rank), pids[rank]);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_TRUE(test::all_exited(statuses));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space

/// Wherever a rank fails, all of them do, at once, and say what it was.
TEST(Resources, ARankThatCannotMapTheSegmentFailsTheJobForAll) {
  for (const char* node : {"", "of its own"}) {
    for (const int poor : {0, 1, 2}) {
      const auto begin = Clock::now();
      const auto statuses = test::fork_ranks(3, [poor, node](Bootstrap& bootstrap) {
        setenv("TUTTI_LOG", "quiet", 1);
        setenv("TUTTI_NET", "off", 1);
        setenv("TUTTI_ARENA", "64G", 1);
        if (bootstrap.rank() == 0) setenv("TUTTI_NODE", node, 1);
        const rlimit limit{std::size_t{32} << 30, std::size_t{32} << 30};
        if (bootstrap.rank() == poor) setrlimit(RLIMIT_AS, &limit);
        std::unique_ptr<Job> job;
        const Status status = create_job(bootstrap, &job);
        EXPECT_EQ(status.code, Code::no_memory) << name(status.code);
        return ::testing::Test::HasFailure() ? 1 : 0;
      });
      EXPECT_TRUE(test::all_exited(statuses)) << "poor rank " << poor << " " << node;
      EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 10);
    }
  }
}

#endif

// ---- memory
// --------------------------------------------------------------------------------------

/// The ring of blocks grows by use: for many small messages slowly, for large ones at once.
TEST(Resources, SmallMessagesTakeLittleOfTheRingOfBlocks) {
  Settings settings;
  settings.arena = 64 * kMiB;
  settings.algorithm = "allreduce=blocks";
  test::run_threads(2, settings, [](Rank& r) {
    const Reduction reduction = sum();
    const auto used = [&r] { return r.job.memory().segment_used; };
    ASSERT_TRUE(allreduce(r.job, r.team, 256, reduction).ok());
    const std::size_t at_first = used();
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(allreduce(r.job, r.team, 256, reduction).ok());
    EXPECT_LT(used() - at_first, kMiB / 4) << "1,000 messages of 1 KiB";
    for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(allreduce(r.job, r.team, 256, reduction).ok());
    EXPECT_GT(used() - at_first, kMiB / 2) << "21,000 of them";
  });
  test::run_threads(2, settings, [](Rank& r) {
    const Reduction reduction = sum();
    for (int i = 0; i < 32; ++i) ASSERT_TRUE(allreduce(r.job, r.team, 16 * 1024, reduction).ok());
    EXPECT_GT(r.job.memory().segment_used, kMiB) << "32 messages of 64 KiB";
  });
}

TEST(Resources, AFullArenaIsAStatusAndReleasingHelps) {
  Settings settings;
  settings.arena = 16 * kMiB;
  test::run_threads(2, settings, [](Rank& r) {
    const std::int32_t members[] = {0, 1};
    for (std::uint64_t attempt = 0; attempt < 3; ++attempt) {
      std::vector<Team*> teams;
      Status status;
      for (std::uint64_t i = 0; status.ok() && i < 5000; ++i) {
        Team* team = nullptr;
        status = r.job.create_team(TeamSpec{{attempt + 1, i}, r.rank, 2, members}, &team);
        if (status.ok()) teams.push_back(team);
      }
      EXPECT_EQ(status.code, Code::no_memory) << name(status.code);
      EXPECT_GT(teams.size(), 100u);
      ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
      for (Team* team : teams) r.job.release_team(team);
      ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
    }
  });
}

/// Teams of this rank alone until its arena is full.
std::vector<Team*> fill_arena(Rank& r, std::uint64_t family) {
  const std::int32_t self[] = {r.rank};
  std::vector<Team*> teams;
  for (std::uint64_t i = 0;; ++i) {
    Team* team = nullptr;
    if (!r.job.create_team(TeamSpec{{family, i}, 0, 1, self}, &team).ok()) return teams;
    teams.push_back(team);
  }
}

TEST(Resources, AMemberWithoutRoomIsKnownToAllOfThem) {
  Settings settings;
  settings.arena = 16 * kMiB;
  settings.deadline_s = 30;
  test::run_threads(3, settings, [](Rank& r) {
    const std::int32_t members[] = {0, 1, 2};
    for (std::uint64_t round = 0; round < 4; ++round) {
      const int poor = static_cast<int>(round % 3);
      std::vector<Team*> filling;
      if (r.rank == poor) filling = fill_arena(r, 100 + round);
      Team *met = nullptr, *used = nullptr;
      const Status first = r.job.create_team(TeamSpec{{1, round}, r.rank, 3, members}, &met);
      const Status second = r.job.create_team(TeamSpec{{2, round}, r.rank, 3, members}, &used);
      if (r.rank == poor) {
        EXPECT_EQ(first.code, Code::no_memory) << name(first.code);
        EXPECT_EQ(second.code, Code::no_memory) << name(second.code);
      } else {
        ASSERT_TRUE(first.ok() && second.ok());
        const Status meeting = r.job.meet(*met);
        EXPECT_EQ(meeting.code, Code::no_memory) << name(meeting.code);
        EXPECT_EQ(meeting.peer, poor);
        Operation* operation = nullptr;
        EXPECT_TRUE(r.job.start(*used, Call{}, &operation).ok());
        const Status outcome = r.job.wait(*operation);
        EXPECT_EQ(outcome.code, Code::no_memory) << name(outcome.code);
        EXPECT_EQ(outcome.peer, poor);
        r.job.release(operation);
        r.job.release_team(met);
        r.job.release_team(used);
      }
      for (Team* team : filling) r.job.release_team(team);
      ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
      Team* later = nullptr;  // there is room again
      ASSERT_TRUE(r.job.create_team(TeamSpec{{3, round}, r.rank, 3, members}, &later).ok());
      EXPECT_TRUE(r.job.meet(*later).ok());
      EXPECT_TRUE(r.job.run(*later, Call{}).ok());
      r.job.release_team(later);
    }
  });
}

TEST(Resources, ATeamThatExistsIsLeftAloneByASecondOfItsId) {
  Settings settings;
  settings.arena = 16 * kMiB;
  settings.deadline_s = 30;
  test::run_threads(2, settings, [](Rank& r) {
    const std::int32_t members[] = {0, 1};
    for (int round = 0; round < 200; ++round) {  // boards that are lost would fill the arena
      Team *team = nullptr, *again = nullptr;
      const TeamSpec spec{{9, static_cast<std::uint64_t>(round)}, r.rank, 2, members};
      ASSERT_TRUE(r.job.create_team(spec, &team).ok());
      for (int i = 0; i < 5; ++i)
        EXPECT_EQ(r.job.create_team(spec, &again).code, Code::invalid_argument);
      ASSERT_TRUE(r.job.run(*team, Call{}).ok());
      if (r.rank == 0) r.job.release_team(team);
      ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
      // Still this member's: the other's release alone does not give it back.
      if (r.rank == 1) {
        EXPECT_EQ(r.job.create_team(spec, &again).code, Code::invalid_argument);
        r.job.release_team(team);
      }
      ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
    }
  });
}

TEST(Resources, AFullTableOfTeamsIsKnownToAllMembers) {
  Settings settings;
  settings.arena = std::size_t{1} << 30;
  settings.deadline_s = 30;
  test::run_threads(2, settings, [](Rank& r) {
    const std::int32_t members[] = {0, 1};
    if (r.rank == 0) {
      EXPECT_GT(fill_arena(r, 50).size(), 2000u);
    }
    ASSERT_TRUE(r.job.run(r.team, Call{}).ok());
    for (std::uint64_t i = 0; i < 1500; ++i) {  // more than its table can decline one by one
      Team* team = nullptr;
      const Status status = r.job.create_team(TeamSpec{{60, i}, r.rank, 2, members}, &team);
      if (r.rank == 0) {
        EXPECT_EQ(status.code, Code::no_memory) << i << " " << name(status.code);
      } else {
        ASSERT_TRUE(status.ok());
        EXPECT_EQ(r.job.meet(*team).code, Code::no_memory) << i;
        r.job.release_team(team);
      }
    }
    EXPECT_TRUE(r.job.run(r.team, Call{}).ok());
  });
}

#ifndef __SANITIZE_THREAD__

/// In a child: a /dev/shm of its own with `bytes`. False where that is not permitted.
bool small_dev_shm(const std::string& bytes) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tutti-test", "/dev/shm", "tmpfs", 0, ("size=" + bytes).c_str()) == 0;
}

constexpr int kRefused = 77;  // exit status: the system does not let us test this

bool refused(const std::vector<int>& statuses) {
  for (const int status : statuses) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == kRefused) return true;
  }
  return false;
}

/// Runs ranks that share a small /dev/shm: a child makes it, and forks them.
std::vector<int> run_in_small_shm(const std::string& bytes, int ranks,
                                  const std::function<int(Bootstrap&)>& body) {
  return test::fork_ranks(1, [&](Bootstrap&) {
    if (!small_dev_shm(bytes)) return kRefused;
    const auto statuses = test::fork_ranks(ranks, body);
    for (const int status : statuses) {
      if (WIFSIGNALED(status)) {
        std::fprintf(stderr, "a rank was ended by signal %d\n", WTERMSIG(status));
        return 1;
      }
    }
    return test::all_exited(statuses) ? 0 : 1;
  });
}

TEST(Resources, ADevShmThatIsTooSmallForTheSegmentIsSaid) {
  const auto statuses = run_in_small_shm("16k", 2, [](Bootstrap& bootstrap) {
    if (bootstrap.rank() == 0) {  // the leader finds it full
      const int file = open("/dev/shm/full", O_WRONLY | O_CREAT, 0600);
      const std::vector<char> page(4096, 'x');
      while (file >= 0 && write(file, page.data(), page.size()) > 0) {
      }
    }
    Settings settings;
    settings.segment = SegmentKind::posix;
    std::unique_ptr<shm::ShmFabric> fabric;
    const Status status = test::connect_shm(bootstrap, settings, &fabric);
    EXPECT_EQ(status.code, Code::no_memory) << name(status.code);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (refused(statuses)) GTEST_SKIP() << "needs the right to mount (root)";
  EXPECT_TRUE(test::all_exited(statuses));
}

TEST(Resources, ADevShmThatFillsUpIsAStatusNotASignal) {
  const auto statuses = run_in_small_shm("1500k", 2, [](Bootstrap& bootstrap) {
    setenv("TUTTI_SEGMENT", "posix", 1);
    setenv("TUTTI_DEADLINE", "20", 1);
    setenv("TUTTI_CMA", "off", 1);
    std::unique_ptr<Job> job;
    Status status = create_job(bootstrap, &job);
    if (!status.ok()) {
      EXPECT_EQ(status.code, Code::no_memory);
      return 1;  // there is room for the directories
    }
    // Teams and blocks until nothing is left: some rank runs out first, and says so.
    const Reduction reduction = sum();
    const std::int32_t members[] = {0, 1};
    Team* first = nullptr;
    EXPECT_TRUE(job->create_team(TeamSpec{{1, 1}, bootstrap.rank(), 2, members}, &first).ok());
    for (std::uint64_t i = 0; status.ok() && i < 1000; ++i) {
      Team* team = nullptr;
      status = job->create_team(TeamSpec{{2, i}, bootstrap.rank(), 2, members}, &team);
    }
    EXPECT_EQ(status.code, Code::no_memory) << name(status.code);
    status = allreduce(*job, *first, 1 << 20, reduction);
    EXPECT_TRUE(status.code == Code::no_memory || status.code == Code::timeout ||
                status.code == Code::peer_lost || status.ok())
        << name(status.code);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (refused(statuses)) GTEST_SKIP() << "needs the right to mount (root)";
  EXPECT_TRUE(test::all_exited(statuses));
}

// ---- descriptors
// ---------------------------------------------------------------------------------

/// Takes the right to open anything more away from this process.
void exhaust_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 0;
  setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(Resources, ARankWithoutDescriptorsFailsTheJobForAllAtOnce) {
  for (const int poor : {0, 1}) {
    const auto begin = Clock::now();
    const auto statuses = test::fork_ranks(3, [poor](Bootstrap& bootstrap) {
      if (bootstrap.rank() == poor) exhaust_descriptors();
      Settings settings;
      settings.log = LogLevel::quiet;
      std::unique_ptr<shm::ShmFabric> fabric;
      const Status status = test::connect_shm(bootstrap, settings, &fabric);
      EXPECT_EQ(status.code, Code::no_memory) << name(status.code);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_TRUE(test::all_exited(statuses)) << "poor rank " << poor;
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 10);
  }
}

TEST(Resources, ADeathIsNoticedWithoutFreeDescriptors) {
  Settings settings;
  settings.arena = 64 * kMiB;
  settings.deadline_s = 20;
  const auto begin = Clock::now();
  const auto statuses = test::run_processes(2, settings, [](Rank& r) {
    if (r.rank == 0) exhaust_descriptors();
    EXPECT_TRUE(r.job.run(r.team, Call{}).ok());
    if (r.rank == 1) raise(SIGKILL);
    Status status;
    for (int round = 0; round < 1000 && status.ok(); ++round) status = r.job.run(r.team, Call{});
    EXPECT_EQ(status.code, Code::peer_lost) << name(status.code);
  });
  EXPECT_TRUE(WIFSIGNALED(statuses[1]));
  EXPECT_TRUE(WIFEXITED(statuses[0]) && WEXITSTATUS(statuses[0]) == 0);
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 10);
}

// ---- cross-memory attach
// -------------------------------------------------------------------------

/// A filter that refuses the two calls, as container runtimes do.
bool refuse_cross_memory() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(Resources, RefusedCrossMemoryAttachIsAgreedAndDoneWithout) {
  const auto statuses = test::fork_ranks(3, [](Bootstrap& bootstrap) {
    if (bootstrap.rank() == 1 && !refuse_cross_memory())
      return kRefused;  // one is enough to refuse it for all
    setenv("TUTTI_LOG", "error", 1);
    setenv("TUTTI_DEADLINE", "30", 1);
    std::unique_ptr<Job> job;
    const Status status = create_job(bootstrap, &job);
    EXPECT_TRUE(status.ok()) << name(status.code);
    if (!status.ok()) return 1;
    const std::int32_t members[] = {0, 1, 2};
    Team* team = nullptr;
    EXPECT_TRUE(job->create_team(TeamSpec{{1, 1}, bootstrap.rank(), 3, members}, &team).ok());
    const Reduction reduction = sum();
    for (const std::size_t count :
         {std::size_t{10}, std::size_t{100'000}, std::size_t{3'000'000}}) {
      const Status done = allreduce(*job, *team, count, reduction);
      EXPECT_TRUE(done.ok()) << name(done.code) << " " << count;
    }
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (refused(statuses)) GTEST_SKIP() << "seccomp filters are not permitted here";
  EXPECT_TRUE(test::all_exited(statuses));
}

TEST(Resources, CrossMemoryAttachThatWasAskedForIsAnErrorWhereRefused) {
  const auto statuses = test::fork_ranks(2, [](Bootstrap& bootstrap) {
    if (bootstrap.rank() == 1 && !refuse_cross_memory()) return kRefused;
    Settings settings;
    settings.cma = Switch::on;
    std::unique_ptr<shm::ShmFabric> fabric;
    const Status status = test::connect_shm(bootstrap, settings, &fabric);
    EXPECT_EQ(status.code, Code::not_permitted) << name(status.code);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (refused(statuses)) GTEST_SKIP() << "seccomp filters are not permitted here";
  EXPECT_TRUE(test::all_exited(statuses));
}

/// What goes on between the nodes would find some ranks missing.
TEST(Resources, CrossMemoryAttachThatIsRefusedOnOneNodeIsAnErrorOnAll) {
  const auto statuses = test::fork_ranks(3, [](Bootstrap& bootstrap) {
    if (bootstrap.rank() == 1 && !refuse_cross_memory()) return kRefused;
    Settings settings;
    settings.cma = Switch::on;
    settings.node = bootstrap.rank() == 0 ? "of its own" : "";
    std::unique_ptr<shm::ShmFabric> fabric;
    const Status status = shm::ShmFabric::connect(bootstrap, settings, &fabric);
    EXPECT_EQ(status.code, Code::not_permitted) << name(status.code);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  if (refused(statuses)) GTEST_SKIP() << "seccomp filters are not permitted here";
  EXPECT_TRUE(test::all_exited(statuses));
}

// ---- settings
// ------------------------------------------------------------------------------------

TEST(Resources, ABadSettingOnOneRankFailsTheJobForAll) {
  for (const char* setting : {"TUTTI_FAULT=explode", "TUTTI_TRACE=/no/such/folder/t",
                              "TUTTI_WAIT=eagerly", "TUTTI_ALG=bcast=best"}) {
    const auto statuses = test::fork_ranks(2, [setting](Bootstrap& bootstrap) {
      setenv("TUTTI_LOG", "quiet", 1);
      const std::string text = setting;
      const std::size_t equals = text.find('=');
      if (bootstrap.rank() == 1)
        setenv(text.substr(0, equals).c_str(), text.substr(equals + 1).c_str(), 1);
      std::unique_ptr<Job> job;
      const Status status = create_job(bootstrap, &job);
      EXPECT_FALSE(status.ok());
      EXPECT_EQ(job, nullptr);
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_TRUE(test::all_exited(statuses)) << setting;
  }
}

#endif

}  // namespace
}  // namespace tutti
