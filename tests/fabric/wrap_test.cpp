// The decorators: they pass the conformance suite themselves, and each does what it is for.
#include <gtest/gtest.h>

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "fabric/conformance.hpp"
#include "fabric/shm/shm.hpp"
#include "fabric/shm_world.hpp"
#include "fabric/wrap/check.hpp"
#include "fabric/wrap/decorate.hpp"
#include "fabric/wrap/fault.hpp"

namespace tutti::test {
namespace {

Settings small_arenas() {
  Settings settings;
  settings.arena = std::size_t{64} << 20;
  return settings;
}

/// A path that is removed with everything that begins with it.
class TemporaryPath {
 public:
  TemporaryPath() {
    char name[] = "/tmp/tutti-test-XXXXXX";
    if (mkdtemp(name) != nullptr) folder_ = name;
  }
  ~TemporaryPath() {
    for (int rank = 0; rank < kMostRanks; ++rank)
      unlink((path() + "." + std::to_string(rank)).c_str());
    rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/trace"; }

 private:
  std::string folder_;
};

Wrap decorated(const Settings& settings) {
  return [settings](std::unique_ptr<Fabric> fabric) {
    std::string message;
    auto wrapped = wrap::decorate(std::move(fabric), settings, &message);
    EXPECT_NE(wrapped, nullptr) << message;
    return wrapped;
  };
}

/// Fails when the check has found anything.
class Strict final : public wrap::Forward {
 public:
  explicit Strict(std::unique_ptr<Fabric> fabric)
      : Strict(std::make_unique<wrap::Check>(std::move(fabric))) {}
  ~Strict() override {
    // What the suite does wrong on purpose is refused before it does harm; the rest must be right.
    EXPECT_LE(check_->violations(), 100u);
  }

 private:
  explicit Strict(std::unique_ptr<wrap::Check> check) : Forward(std::move(check)) {
    check_ = static_cast<wrap::Check*>(&inner());
  }
  wrap::Check* check_;
};

std::vector<WorldFactory> worlds() {
  const Settings plain = small_arenas();
  Settings late = plain, all = plain;
  late.fault = "delay:op=put:us=30:count=0";
  all.fault = "nocma";
  all.check = Check::contract;
  std::vector<WorldFactory> list = {
      {"Late", [late] { return make_thread_world(late, decorated(late)); }},
      {"NoCmaChecked", [all] { return make_thread_world(all, decorated(all)); }},
      {"Checked",
       [plain] {
         return make_thread_world(plain, [](std::unique_ptr<Fabric> fabric) {
           return std::make_unique<Strict>(std::move(fabric));
         });
       }},
  };
#ifndef __SANITIZE_THREAD__
  list.push_back({"LateProcesses", [late] { return make_process_world(late, decorated(late)); }});
#endif
  return list;
}

INSTANTIATE_TEST_SUITE_P(Wrapped, Conformance, ::testing::ValuesIn(worlds()), world_name);

// ---- fault
// ---------------------------------------------------------------------------------------

std::string parse_error(const std::string& text) {
  wrap::FaultSpec spec;
  std::string message;
  return wrap::FaultSpec::parse(text, &spec, &message) ? "" : message;
}

TEST(Fault, GoodSpecificationsAreTaken) {
  for (const char* text :
       {"fail:op=put", "fail:op=get:at=3:code=timeout", "drop:op=signal:count=0",
        "duplicate:op=put:rank=1", "corrupt:op=put:at=2", "delay:op=put:us=100:count=0",
        "delay:peer=5:op=put:rank=6:us=9", "slow:op=put:us=500:every=3", "drop:op=signal:peer=0",
        "fail:op=attach:peer=3", "kill:op=any:at=100:rank=2", "deaf", "deaf:rank=1", "nocma",
        "nocma,deaf,fail:op=reserve:at=2:count=0"}) {
    EXPECT_EQ(parse_error(text), "") << text;
  }
}

TEST(Fault, BadSpecificationsGetOneClearLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"explode", "a rule begins with one of fail, drop"},
      {"", ""},
      {",deaf", "a rule begins with"},
      {"fail", "fail needs op="},
      {"fail:op=signal", "op must be one of put, get, expose, attach, reserve"},
      {"fail:op=put:code=ok", "code must be one of peer_lost"},
      {"fail:op=put:code=bad", "code must be one of"},
      {"fail:op=put:at=0", "at must be a number of at least 1"},
      {"fail:op=put:at=x", "at must be"},
      {"fail:op=put:at=", "at must be"},
      {"fail:op=put:at=-1", "at must be"},
      {"fail:op=put:count=99999999999999999999", "count must be"},
      {"drop:op=get", "op must be one of put, signal, cast, receive"},
      {"duplicate:op=receive", "op must be one of put, cast"},
      {"drop:op=cast:every=0", "every must be a number of at least 1"},
      {"drop:op=put:us=3", "drop takes op, at, every, count, rank, peer"},
      {"drop:op=cast:peer=1", "peer goes with op of put, get, attach, signal"},
      {"kill:op=any:peer=1", "peer goes with op of"},
      {"delay:op=put:us=3:peer=x", "peer must be a number of at least 0"},
      {"delay:op=put:us=3:peer=", "peer must be"},
      {"delay:op=put:us=3:peer=-1", "peer must be"},
      {"deaf:peer=1", "deaf takes rank"},
      {"delay:op=put", "delay needs us="},
      {"delay:op=put:us=0", "us must be"},
      {"slow:op=put", "slow needs us="},
      {"slow:op=get:us=3", "op must be one of put"},
      {"delay:op=put:us=99999999999", "us must be"},
      {"kill:op=put:rank=-2", "rank must be"},
      {"deaf:op=put", "deaf takes rank"},
      {"nocma:rank=1", "nocma takes no key"},
      {"kill:op", "op must be one of"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string message = parse_error(text);
    EXPECT_NE(message.find(expected), std::string::npos) << text << " -> " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_TRUE(message.empty() || message.starts_with("TUTTI_FAULT: ")) << message;
  }
}

constexpr std::size_t kData = Node::kControlBytes;

/// Rank 0 puts ten numbered messages with counters to rank 1's arena; rank 1 tells which it can see
/// in the end.
Task ten_puts(Node& n, std::vector<Status>* statuses, std::vector<std::uint64_t>* seen) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  if (n.rank() == 0) {
    Remote remote;
    TUTTI_REQUIRE_OK(n.fabric.arena_of(1, &remote));
    std::uint64_t values[10];
    Completion sent;
    for (std::uint64_t i = 0; i < 10; ++i) {
      values[i] = i + 1;
      statuses->push_back(n.fabric.put(remote, kData + 64 * i, &values[i], 8, nullptr, &sent));
    }
    TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  for (std::size_t i = 0; n.rank() == 1 && i < 10; ++i)
    seen->push_back(n.word(kData + 64 * i).load());
  co_await n.barrier();
  co_return Status::success();
}

struct TenPuts {
  std::vector<Status> statuses;
  std::vector<std::uint64_t> seen;
};

/// `at` of the rules counts from the first put after the barrier, which is put number 2 (two ranks:
/// one round).
TenPuts run_ten(const std::string& fault) {
  Settings settings = small_arenas();
  settings.fault = fault;
  TenPuts result;
  const auto outcomes = make_thread_world(settings, decorated(settings))->run(2, [&](Node& n) {
    return ten_puts(n, &result.statuses, &result.seen);
  });
  for (const Outcome& outcome : outcomes)
    EXPECT_TRUE(outcome.status.ok()) << name(outcome.status.code);
  EXPECT_EQ(result.statuses.size(), 10u);
  EXPECT_EQ(result.seen.size(), 10u);
  return result;
}

TEST(Fault, TheIthOperationFailsAndNothingElse) {
  const TenPuts result =
      run_ten("fail:op=put:at=4:code=timeout:rank=0,fail:op=put:at=6:count=2:rank=0");
  for (std::size_t i = 0; i < 10; ++i) {
    const bool fails = i == 2 || i == 4 || i == 5;
    EXPECT_EQ(result.statuses[i].code, i == 2  ? Code::timeout
                                       : fails ? Code::no_memory
                                               : Code::ok)
        << i;
    EXPECT_EQ(result.seen[i], fails ? 0 : i + 1) << i;
  }
}

TEST(Fault, PutsAreDroppedCorruptedAndRepeated) {
  const TenPuts result =
      run_ten("drop:op=put:at=2:rank=0,corrupt:op=put:at=5:rank=0,duplicate:op=put:at=7:rank=0");
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(result.statuses[i].ok());
    if (i == 0) {
      EXPECT_EQ(result.seen[i], 0u);
    } else if (i == 3) {
      EXPECT_EQ(__builtin_popcountll(result.seen[i] ^ (i + 1)), 1);
    } else {
      EXPECT_EQ(result.seen[i], i + 1);
    }
  }
}

/// Rank 0 puts five numbers to each of two others, which say what they see.
Task five_puts_to_each(Node& n, std::vector<std::uint64_t>* seen) {
  TUTTI_REQUIRE_OK(n.fabric.reserve(kData, 65536));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  const std::uint64_t values[] = {1, 2, 3, 4, 5};
  Completion sent;
  for (std::size_t i = 0; n.rank() == 0 && i < 5; ++i) {
    for (const int to : {1, 2}) {
      Remote remote;
      TUTTI_REQUIRE_OK(n.fabric.arena_of(to, &remote));
      TUTTI_REQUIRE_OK(n.fabric.put(remote, kData + 64 * i, &values[i], 8, nullptr, &sent));
    }
  }
  TUTTI_REQUIRE_OK(co_await outcome(n.completed(sent)));
  TUTTI_REQUIRE_OK(co_await outcome(n.barrier()));
  for (std::size_t i = 0; n.rank() != 0 && i < 5; ++i)
    seen[n.rank()].push_back(n.word(kData + 64 * i).load());
  co_await n.barrier();
  co_return Status::success();
}

// The barrier puts once to each of the two: the third put towards rank 2 is its second number.
TEST(Fault, OneConnectionHasFaultsOfItsOwn) {
  Settings settings = small_arenas();
  settings.fault = "drop:op=put:rank=0:peer=2:at=3,drop:op=put:rank=0:peer=7:count=0";
  std::vector<std::uint64_t> seen[3];
  const auto outcomes = make_thread_world(settings, decorated(settings))->run(3, [&](Node& n) {
    return five_puts_to_each(n, seen);
  });
  for (const Outcome& outcome : outcomes)
    EXPECT_TRUE(outcome.status.ok()) << name(outcome.status.code);
  EXPECT_EQ(seen[1], (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(seen[2], (std::vector<std::uint64_t>{1, 0, 3, 4, 5}));
}

// Its sleeps can only take longer, on a machine however busy.
TEST(Fault, ASlowRankWaitsBeforeItPuts) {
  Settings settings = small_arenas();
  settings.fault = "slow:op=put:us=10000:rank=0:count=5";
  std::vector<std::uint64_t> seen[3];
  const auto begin = std::chrono::steady_clock::now();
  const auto outcomes = make_thread_world(settings, decorated(settings))->run(3, [&](Node& n) {
    return five_puts_to_each(n, seen);
  });
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
  for (const Outcome& outcome : outcomes)
    EXPECT_TRUE(outcome.status.ok()) << name(outcome.status.code);
  for (const int rank : {1, 2}) EXPECT_EQ(seen[rank], (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
}

Task exposes_and_gets(Node& n) {
  std::vector<std::byte> user(100);
  Region region;
  EXPECT_EQ(n.fabric.expose(user.data(), 100, &region).code, Code::unsupported);
  Remote remote;
  TUTTI_REQUIRE_OK(n.fabric.arena_of(0, &remote));
  Completion completion;
  const std::size_t unused = Node::kControlBytes - 8;
  EXPECT_EQ(n.fabric.get(remote, unused, user.data(), 8, &completion).code, Code::corrupt);
  TUTTI_REQUIRE_OK(n.fabric.get(remote, unused, user.data(), 8, &completion));
  EXPECT_EQ(n.fabric.reserve(kData, 100).code, Code::no_memory);
  Key key{};
  EXPECT_EQ(n.fabric.attach(0, key, &remote).code, Code::peer_lost);
  co_await n.barrier();
  co_return Status::success();
}

TEST(Fault, EveryKindOfOperationCanFail) {
  Settings settings = small_arenas();
  settings.fault =
      "fail:op=expose:code=unsupported,fail:op=get:code=corrupt,fail:op=reserve:at=2,fail:op="
      "attach:code=peer_lost";
  const auto outcomes = make_thread_world(settings, decorated(settings))->run(2, exposes_and_gets);
  for (const Outcome& outcome : outcomes)
    EXPECT_TRUE(outcome.status.ok()) << name(outcome.status.code);
}

#ifndef __SANITIZE_THREAD__
Task barriers(Node& n) {
  for (int i = 0; i < 100; ++i) co_await n.barrier();
  co_return Status::success();
}

TEST(Fault, TheProcessIsKilledAtTheIthOperation) {
  Settings settings = small_arenas();
  settings.fault = "kill:op=put:at=50:rank=1";
  const auto outcomes = make_process_world(settings, decorated(settings))->run(2, barriers);
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_TRUE(outcomes[1].died);
  EXPECT_EQ(outcomes[0].status.code, Code::peer_lost);
  EXPECT_EQ(outcomes[0].status.peer, 1);
}
#endif

// ---- check
// ---------------------------------------------------------------------------------------

/// A check around rank 0 of two thread ranks.
class CheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<std::unique_ptr<shm::ShmFabric>> fabrics;
    ASSERT_TRUE(shm::ShmFabric::create_threads(2, small_arenas(), &fabrics).ok());
    peer_ = std::move(fabrics[1]);
    check_ = std::make_unique<wrap::Check>(std::move(fabrics[0]));
    ASSERT_TRUE(check_->reserve(0, 65536).ok());
    ASSERT_TRUE(check_->arena_of(1, &arena_).ok());
  }
  void TearDown() override { check_.reset(); }
  std::uint64_t found() const { return check_->violations(); }
  Word& own_word(std::size_t offset) {
    return *reinterpret_cast<Word*>(static_cast<std::byte*>(check_->arena().base) + offset);
  }

  Fabric& checked() { return *check_; }

  std::unique_ptr<shm::ShmFabric> peer_;
  std::unique_ptr<wrap::Check> check_;
  Remote arena_;
};

TEST_F(CheckTest, RightUseIsSilent) {
  Region region;
  ASSERT_TRUE(check_->expose(check_->arena().base, 64, &region).ok());
  check_->withdraw(region);
  Completion completion;
  std::uint64_t value = 5;
  const Tail tail{64, 1};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(checked().put(arena_, 128, &value, 8, &tail, &completion).ok());
    ASSERT_TRUE(check_->get(arena_, 128, &value, 8, &completion).ok());
  }
  check_->signal(0, own_word(256), 1);
  check_->signal(0, own_word(256), 1);
  check_->signal(0, own_word(256), 7);
  const auto ticket = check_->arm(Attention::all);
  check_->sleep(ticket, 1000, Attention::all);
  check_->disarm(Attention::all);
  EXPECT_EQ(found(), 0u);
}

TEST_F(CheckTest, WordsThatGoBackAreFound) {
  check_->signal(0, own_word(256), 7);
  check_->signal(0, own_word(256), 6);
  EXPECT_EQ(found(), 1u);
  const Tail later{64, 9}, earlier{64, 8};
  ASSERT_TRUE(checked().put(arena_, 0, nullptr, 0, &later, nullptr).ok());
  ASSERT_TRUE(checked().put(arena_, 0, nullptr, 0, &earlier, nullptr).ok());
  EXPECT_EQ(found(), 2u);
}

TEST_F(CheckTest, BadRangesCountersAndPointersAreRefused) {
  std::uint64_t value = 0;
  Completion completion;
  const Tail unaligned{3, 1}, outside{arena_.bytes, 1}, under{4, 1}, within{16, 1};
  EXPECT_FALSE(checked().put(arena_, arena_.bytes, &value, 1, nullptr, nullptr).ok());
  EXPECT_FALSE(checked().put(arena_, 0, &value, 8, &unaligned, nullptr).ok());
  EXPECT_FALSE(checked().put(arena_, 0, &value, 8, &outside, nullptr).ok());
  EXPECT_FALSE(checked().put(arena_, 0, &value, 8, &under, nullptr).ok());
  EXPECT_FALSE(checked().put(arena_, 16, &value, 8, &within, nullptr).ok());
  EXPECT_FALSE(checked().put(arena_, 0, nullptr, 8, nullptr, nullptr).ok());
  EXPECT_FALSE(check_->get(arena_, 0, nullptr, 8, &completion).ok());
  EXPECT_FALSE(check_->get(arena_, 0, &value, 8, nullptr).ok());
  EXPECT_FALSE(checked().put(Remote{}, 0, &value, 0, nullptr, nullptr).ok());
  EXPECT_EQ(found(), 9u);
}

TEST_F(CheckTest, WithdrawingTwiceAndUseAfterwardsAreFound) {
  std::vector<std::byte> memory(256);
  Region region;
  ASSERT_TRUE(check_->expose(memory.data(), memory.size(), &region).ok());
  const Key key = region.key;
  Region again = region;
  Remote remote;
  ASSERT_TRUE(check_->attach(0, key, &remote).ok());
  check_->withdraw(region);
  check_->withdraw(region);
  EXPECT_EQ(found(), 1u);
  check_->withdraw(again);
  EXPECT_EQ(found(), 2u);
  Completion completion;
  EXPECT_FALSE(check_->get(remote, 0, memory.data(), 8, &completion).ok());
  EXPECT_FALSE(check_->attach(0, key, &remote).ok());
  EXPECT_EQ(found(), 4u);
  ASSERT_TRUE(check_->expose(memory.data(), memory.size(), &region).ok());  // and it is right again
  ASSERT_TRUE(check_->attach(0, key, &remote).ok());
  check_->withdraw(region);
  EXPECT_EQ(found(), 4u);
}

TEST_F(CheckTest, SleepsOutsideOfArmAreFound) {
  check_->sleep(0, 1000, Attention::all);
  check_->disarm(Attention::all);
  EXPECT_EQ(found(), 2u);
}

TEST(CheckOfLateFabric, CompletionsThatAreGivenUpAreFound) {
  std::vector<std::unique_ptr<shm::ShmFabric>> fabrics;
  ASSERT_TRUE(shm::ShmFabric::create_threads(2, small_arenas(), &fabrics).ok());
  wrap::FaultSpec spec;
  std::string message;
  ASSERT_TRUE(wrap::FaultSpec::parse("delay:op=put:us=1000000:count=0", &spec, &message));
  wrap::Check check(std::make_unique<wrap::Fault>(std::move(fabrics[0]), spec));
  Remote arena;
  ASSERT_TRUE(check.arena_of(1, &arena).ok());
  std::uint64_t value = 1;
  Completion completion;
  ASSERT_TRUE(check.put(arena, 0, &value, 8, nullptr, &completion, Event::solicited).ok());
  ASSERT_TRUE(check.put(arena, 0, &value, 8, nullptr, &completion, Event::solicited).ok());
  EXPECT_EQ(check.violations(), 0u);
  completion.~Completion();
  new (&completion) Completion;
  EXPECT_FALSE(check.put(arena, 0, &value, 8, nullptr, &completion, Event::solicited).ok());
  EXPECT_EQ(check.violations(), 1u);
}

// ---- trace
// ---------------------------------------------------------------------------------------

Task some_operations(Node& n) {
  for (int i = 0; i < 10; ++i) co_await n.barrier();
  Remote remote;
  co_await n.fabric.arena_of(0, &remote);
  static_cast<void>(n.fabric.put(remote, remote.bytes, nullptr, 1, nullptr, nullptr));
  co_await n.barrier();
  co_return Status::success();
}

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++count;
  return count;
}

TEST(Trace, EveryOperationIsInTheFile) {
  const TemporaryPath path;
  Settings settings = small_arenas();
  settings.trace = path.path();
  const auto outcomes = make_thread_world(settings, decorated(settings))->run(2, some_operations);
  for (const Outcome& outcome : outcomes) EXPECT_TRUE(outcome.status.ok());
  for (int rank = 0; rank < 2; ++rank) {
    std::ifstream file(path.path() + "." + std::to_string(rank));
    std::stringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    EXPECT_EQ(all.substr(0, 2), "[\n");
    EXPECT_EQ(all.substr(all.size() - 3), "\n]\n");
    EXPECT_EQ(occurrences(all, "\"name\":\"put+tail\""), 11u) << all;
    EXPECT_EQ(occurrences(all, "\"name\":\"put\""), 1u);
    EXPECT_EQ(occurrences(all, "\"status\":\"truncated\""), 1u);
    EXPECT_EQ(occurrences(all, "\"name\":\"reserve\""), 1u);
    EXPECT_EQ(occurrences(all, "{"), occurrences(all, "}"));
    EXPECT_EQ(occurrences(all, ",\n{") + 1, occurrences(all, "\n{"));
  }
}

TEST(Trace, AFileThatCannotBeMadeIsSaid) {
  std::vector<std::unique_ptr<shm::ShmFabric>> fabrics;
  ASSERT_TRUE(shm::ShmFabric::create_threads(2, small_arenas(), &fabrics).ok());
  Settings settings = small_arenas();
  settings.trace = "/no/such/folder/trace";
  std::string message;
  EXPECT_EQ(wrap::decorate(std::move(fabrics[0]), settings, &message), nullptr);
  EXPECT_NE(message.find("TUTTI_TRACE: cannot write /no/such/folder/trace.0"), std::string::npos)
      << message;
}

TEST(Decorate, NothingAskedNothingAdded) {
  std::vector<std::unique_ptr<shm::ShmFabric>> fabrics;
  ASSERT_TRUE(shm::ShmFabric::create_threads(2, small_arenas(), &fabrics).ok());
  Fabric* const inner = fabrics[0].get();
  std::string message;
  EXPECT_EQ(wrap::decorate(std::move(fabrics[0]), small_arenas(), &message).get(), inner);
}

}  // namespace
}  // namespace tutti::test
