// Messages that go back and forth between two ranks, where tutti tries how (answers.hpp,
// small_answers.hpp), and what looks like that and is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "p2p/a_few_ranks.hpp"

namespace tutti {
namespace {

using p2p::Messages;
using p2p::Transfer;
using test::counts;
using test::pattern;
using test::Rank;
using test::settings_of;

/// Of ranks that have a processor each, and have talked to each other before.
template <class Body>
void run_answers(Body body, const char* fault = "", bool processes = false) {
  Settings settings = settings_of(Rendezvous::automatic);
  settings.wait = WaitMode::spin;
  settings.fault = fault;
  settings.deadline_s = 0;  // with one, nothing is written to a receive
  const auto talk_first = [&body](Rank& r) {
    ASSERT_NO_FATAL_FAILURE(test::greet(r));
    body(r);
  };
  if (!processes) return test::run_threads(2, settings, talk_first);
  for (const int status : test::run_processes(2, settings, talk_first)) EXPECT_EQ(status, 0);
}

// Both ways are tried, by the rank that measures, and answered alike.
TEST(LargeAnswers, GoBothWays) {
  run_answers([](Rank& r) {
    Messages& messages = r.job.messages();
    const std::size_t bytes = 100'000;
    const auto before = counts(r);
    constexpr int kTrips = 400;
    for (int trip = 0; trip < kTrips; ++trip) {
      const std::vector<std::byte> data = pattern(bytes, trip);
      std::vector<std::byte> got(bytes);
      if (r.rank == 0) {
        ASSERT_TRUE(messages.send(r.team, data.data(), bytes, 1, trip).ok());
      }
      ASSERT_TRUE(messages.receive(r.team, got.data(), bytes, 1 - r.rank, trip).status.ok());
      ASSERT_EQ(got, data);
      if (r.rank == 1) {
        ASSERT_TRUE(messages.send(r.team, got.data(), bytes, 0, trip).ok());
      }
    }
    const std::uint64_t read = counts(r).read - before.read;
    const std::uint64_t eager = counts(r).eager - before.eager;
    EXPECT_GE(read, 8U);
    EXPECT_GE(eager, 8U);
    EXPECT_EQ(read + eager, std::uint64_t{kTrips});
  });
}

/// Messages of `bytes` to and fro, each from another place, and looked at. Rank 1 has room for a
/// part of every tenth only.
void go_and_look(Rank& r, std::size_t trips, std::size_t bytes) {
  Messages& messages = r.job.messages();
  for (std::size_t trip = 0; trip < trips; ++trip) {
    const int tag = static_cast<int>(trip);
    const std::vector<std::byte> data = pattern(bytes + trip, tag);
    const auto send = [&] {
      ASSERT_TRUE(messages.send(r.team, data.data() + trip, bytes, 1 - r.rank, tag).ok());
    };
    if (r.rank == 0) send();
    const std::size_t room = r.rank == 1 && trip % 10 == 9 ? bytes - 3000 : bytes;
    std::vector<std::byte> got(room + 1, std::byte{1});
    const Receipt receipt = messages.receive(r.team, got.data(), room, 1 - r.rank, tag);
    ASSERT_EQ(receipt.status.code, room < bytes ? Code::truncated : Code::ok);
    ASSERT_TRUE(std::equal(got.begin(), got.end() - 1, data.begin() + tag));
    ASSERT_EQ(got.back(), std::byte{1});
    if (r.rank == 1) send();
  }
}

// Once the kernel has been seen to reach the other side, each end copies one half: also where only
// a part is wanted, where the halves have several parts, and at any place in memory.
TEST(LargeAnswers, OfTheKernelAreCopiedInHalves) {
  const auto all_sizes = [](Rank& r) {
    for (const std::size_t bytes :
         {std::size_t{20'000}, std::size_t{100'001}, std::size_t{5} << 20}) {
      const auto before = counts(r);
      go_and_look(r, 100, bytes);
      EXPECT_GE(counts(r).halved - before.halved, 4U);
    }
  };
  run_answers(all_sizes);
  run_answers(all_sizes, "", true);
}

// What the kernel has permitted it may refuse later, to one of them or to both.
TEST(LargeAnswers, ArriveWhereTheKernelRefusesAHalf) {
  for (const char* const fault : {"fail:op=get:code=not_permitted:at=5:count=3",
                                  "fail:op=put:code=not_permitted:at=5:count=3",
                                  "fail:op=get:code=not_permitted:at=5:count=0:rank=1",
                                  "fail:op=put:code=not_permitted:at=5:count=0:rank=1",
                                  "fail:op=get:code=not_permitted:at=5:count=3,"
                                  "fail:op=put:code=not_permitted:at=5:count=3",
                                  "fail:op=put:code=invalid_argument:at=5:count=3"}) {
    SCOPED_TRACE(fault);
    run_answers(
        [](Rank& r) {
          const auto before = counts(r);
          go_and_look(r, 400, 100'001);
          EXPECT_GE(counts(r).halved - before.halved, 4U);
        },
        fault);
  }
}

// One half cannot be read, and the other one not be written, for want of memory: both hear of it.
TEST(LargeAnswers, EndWhereNeitherHalfCanBeCopied) {
  run_answers(
      [](Rank& r) {
        Messages& messages = r.job.messages();
        std::vector<std::byte> data(100'000);
        Status status;
        for (int trip = 0; trip < 400 && status.ok(); ++trip) {
          if (r.rank == 0) status = messages.send(r.team, data.data(), data.size(), 1, 0);
          if (status.ok())
            status = messages.receive(r.team, data.data(), data.size(), 1 - r.rank, 0).status;
          if (status.ok() && r.rank == 1)
            status = messages.send(r.team, data.data(), data.size(), 0, 0);
        }
        EXPECT_EQ(status.code, Code::no_memory);
      },
      "fail:op=get:code=not_permitted:at=5:count=0:rank=1,fail:op=put:code=no_memory:at=5:count=0:"
      "rank=0");
}

// What is no answer leaves at once, whatever the ways of answers.
TEST(LargeAnswers, OneAfterTheOtherLeavesAtOnce) {
  run_answers([](Rank& r) {
    Messages& messages = r.job.messages();
    std::vector<std::byte> data(50'000);
    const auto send = [&] {
      ASSERT_TRUE(messages.send(r.team, data.data(), data.size(), 1 - r.rank, 0).ok());
    };
    const auto receive = [&] {
      const Receipt receipt =
          messages.receive(r.team, data.data(), data.size(), 1 - r.rank, 0);
      ASSERT_TRUE(receipt.status.ok());
    };
    for (int trip = 0; trip < 20; ++trip) {  // then the kernel is tried
      if (r.rank == 0) send();
      receive();
      if (r.rank == 1) send();
    }
    const auto before = counts(r);
    for (int i = 0; i < 10; ++i) r.rank == 0 ? send() : receive();
    if (r.rank == 0) {
      EXPECT_GE(counts(r).eager, before.eager + 9);
    }
  });
}

// Among more than two, too: each sends to all others before it receives.
TEST(LargeAnswers, NobodyWaitsWhereAllSendFirst) {
  Settings settings = settings_of(Rendezvous::automatic);
  settings.wait = WaitMode::spin;
  test::run_threads(3, settings, [](Rank& r) {
    Messages& messages = r.job.messages();
    std::vector<std::byte> data(50'000);
    for (const std::size_t bytes : {std::size_t{1}, data.size()}) {
      for (int i = 0; i < 30; ++i) {
        for (int to = 0; to < r.size; ++to) {
          if (to == r.rank) continue;
          ASSERT_TRUE(messages.send(r.team, data.data(), bytes, to, i).ok());
        }
        for (int from = 0; from < r.size; ++from) {
          if (from == r.rank) continue;
          ASSERT_TRUE(messages.receive(r.team, data.data(), bytes, from, i).status.ok());
        }
      }
    }
  });
}

TEST(LargeAnswers, NobodyWaitsWhereBothSendFirst) {
  run_answers([](Rank& r) {
    Messages& messages = r.job.messages();
    const std::vector<std::byte> out = pattern(100'000, r.rank);
    std::vector<std::byte> in(out.size());
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(messages.send(r.team, out.data(), out.size(), 1 - r.rank, i).ok());
      ASSERT_TRUE(messages.receive(r.team, in.data(), in.size(), 1 - r.rank, i).status.ok());
    }
    EXPECT_EQ(in, pattern(in.size(), 1 - r.rank));
  });
}

/// Rank 0 sends `count` messages of different sizes one after the other; rank 1 takes them late.
void one_after_the_other(Rank& r, int count, int salt) {
  Messages& messages = r.job.messages();
  if (r.rank == 1) std::this_thread::sleep_for(std::chrono::microseconds(300));
  for (int i = 0; i < count; ++i) {
    const std::size_t bytes = 3000 + static_cast<std::size_t>(i * 7919 % 60'000);
    const std::vector<std::byte> data = pattern(bytes, salt + i);
    if (r.rank == 0) {
      ASSERT_TRUE(messages.send(r.team, data.data(), bytes, 1, 1).ok());
    } else {
      std::vector<std::byte> got(bytes);
      ASSERT_TRUE(messages.receive(r.team, got.data(), bytes, 0, 1).status.ok());
      ASSERT_EQ(got, data);
    }
  }
}

/// The same without waiting for any of them, and an answer behind them.
void answer_behind_others(Rank& r, int count) {
  Messages& messages = r.job.messages();
  constexpr std::size_t kBytes = 16'000;
  const std::vector<std::byte> question = pattern(kBytes, count);
  std::vector<std::byte> got(kBytes);
  if (r.rank == 1) {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    ASSERT_TRUE(messages.send(r.team, question.data(), kBytes, 0, 2).ok());
    for (int i = 0; i <= count; ++i) {
      ASSERT_TRUE(messages.receive(r.team, got.data(), kBytes, 0, 1).status.ok());
      ASSERT_EQ(got, i < count ? pattern(kBytes, count + 1 + i) : question);
    }
    return;
  }
  std::vector<Transfer*> sends(static_cast<std::size_t>(count));
  std::vector<std::vector<std::byte>> before;
  for (int i = 0; i < count; ++i) before.push_back(pattern(kBytes, count + 1 + i));
  for (std::size_t i = 0; i < sends.size(); ++i) {
    ASSERT_TRUE(messages
                    .start_send(r.team, before[i].data(), kBytes, 1, 1, SendMode::standard,
                                &sends[i])
                    .ok());
  }
  ASSERT_TRUE(messages.receive(r.team, got.data(), got.size(), 1, 2).status.ok());
  const SendMode mode = count % 2 == 0 ? SendMode::synchronous : SendMode::standard;
  ASSERT_TRUE(messages.send(r.team, got.data(), got.size(), 1, 1, mode).ok());
  for (Transfer* send : sends) {
    EXPECT_TRUE(messages.wait(*send).status.ok());
    messages.release(send);
  }
}

/// Rank 0 sends `there` bytes to rank 1, which answers with `back`, so many times.
void go_back_and_forth(Rank& r, int trips, std::size_t there, std::size_t back) {
  Messages& messages = r.job.messages();
  const std::vector<std::byte> data(std::max(there, back));
  std::vector<std::byte> got(data.size());
  for (int trip = 0; trip < trips; ++trip) {
    if (r.rank == 0) {
      ASSERT_TRUE(messages.send(r.team, data.data(), there, 1, 0).ok());
    }
    ASSERT_TRUE(messages.receive(r.team, got.data(), got.size(), 1 - r.rank, 0).status.ok());
    if (r.rank == 1) {
      ASSERT_TRUE(messages.send(r.team, data.data(), back, 0, 0).ok());
    }
  }
}

// Of all suitable sizes, also those that go in several packets; and a trial that cannot measure
// leaves the stores to their writer.
TEST(SmallAnswers, AreMeasuredWhereTheyAreAsLargeAsTheQuestion) {
  run_answers([](Rank& r) {
    constexpr std::uint64_t kTrials = 2 * (1024 + 512 + 256);
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{9001}, std::size_t{16384}})
      go_back_and_forth(r, 3000, bytes, bytes);
    EXPECT_GE(counts(r).tried, 3U * 3000 - 3);
    const std::uint64_t before = counts(r).tried;
    go_back_and_forth(r, 3000, 4000, 16384);
    EXPECT_LE(counts(r).tried - before, kTrials);
    go_back_and_forth(r, 3000, 4096, 16384);
    EXPECT_LE(counts(r).tried - before, kTrials);
  });
}

// Both kinds of stores are tried: nothing is written over that has not been read, whatever else
// goes through the ring in between.
TEST(SmallAnswers, NothingIsWrittenOverUnread) {
  run_answers([](Rank& r) {
    Messages& messages = r.job.messages();
    constexpr int kTrips = 2200, kOften = 37;
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{9001}, std::size_t{16384}}) {
      std::vector<std::byte> data = pattern(bytes, static_cast<int>(bytes)), got(bytes);
      for (int trip = 0; trip < kTrips; ++trip) {
        data[static_cast<std::size_t>(trip)] ^= std::byte{0xff};
        if (r.rank == 0) {
          ASSERT_TRUE(messages.send(r.team, data.data(), bytes, 1, 0).ok());
        }
        ASSERT_TRUE(messages.receive(r.team, got.data(), bytes, 1 - r.rank, 0).status.ok());
        ASSERT_EQ(got, data);
        if (r.rank == 1) {
          ASSERT_TRUE(messages.send(r.team, got.data(), bytes, 0, 0).ok());
        }
        if (trip % kOften != 0) continue;
        one_after_the_other(r, trip % 100, trip);
        answer_behind_others(r, trip % 100);
      }
    }
  });
}

}  // namespace
}  // namespace tutti
