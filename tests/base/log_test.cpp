// The log sink: one line, one write, the level, the rank, nothing else.
#include "base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

namespace tutti {
namespace {

/// What `function` writes to standard error. Packets of a pipe keep single writes apart.
template <class Function>
std::vector<std::string> writes_of(Function&& function) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_DIRECT | O_NONBLOCK), 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  function();
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  ::close(ends[1]);
  std::vector<std::string> writes;
  std::string packet(8192, '\0');
  for (ssize_t got; (got = ::read(ends[0], packet.data(), packet.size())) > 0;) {
    writes.emplace_back(packet.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  return writes;
}

using Lines = std::vector<std::string>;

TEST(Log, IsOneWriteWithTheRank) {
  log_setup(LogLevel::info, 7);
  EXPECT_EQ(writes_of([] { log(LogLevel::info, "took %d of %s", 3, "four"); }),
            Lines{"tutti: [rank 7] took 3 of four\n"});
}

TEST(Log, HasNoRankBeforeThereIsOne) {
  log_setup(LogLevel::warn, -1);
  EXPECT_EQ(writes_of([] { log(LogLevel::error, "no core library"); }),
            Lines{"tutti: no core library\n"});
}

TEST(Log, SaysWhatIsAtOrAboveTheLevel) {
  for (int level = 0; level <= static_cast<int>(LogLevel::debug); ++level) {
    log_setup(static_cast<LogLevel>(level), 0);
    EXPECT_EQ(log_level(), static_cast<LogLevel>(level));
    for (int of = 1; of <= static_cast<int>(LogLevel::debug); ++of) {
      const auto writes = writes_of([of] { log(static_cast<LogLevel>(of), "x"); });
      EXPECT_EQ(writes.size(), of <= level ? 1U : 0U) << of << " at " << level;
    }
  }
}

TEST(Log, IsSilentForMessagesOfLevelQuiet) {
  log_setup(LogLevel::debug, 0);
  EXPECT_TRUE(writes_of([] { log(LogLevel::quiet, "never"); }).empty());
}

TEST(Log, KeepsAMessageOnOneLine) {
  log_setup(LogLevel::info, 0);
  EXPECT_EQ(writes_of([] { log(LogLevel::info, "a\nb\tc\x1b[31m"); }),
            Lines{"tutti: [rank 0] a b c [31m\n"});
}

TEST(Log, CutsWhatIsTooLong) {
  log_setup(LogLevel::info, 0);
  const auto writes = writes_of([] { log(LogLevel::info, "%s", std::string(5000, 'x').c_str()); });
  ASSERT_EQ(writes.size(), 1U);
  EXPECT_LE(writes[0].size(), 4096U);  // PIPE_BUF: not torn by lines of other processes
  EXPECT_TRUE(writes[0].ends_with("x...\n"));
}

TEST(Log, LeavesErrnoAloneEvenIfItCannotWrite) {
  log_setup(LogLevel::info, 0);
  const int saved = ::dup(STDERR_FILENO);
  ::close(STDERR_FILENO);
  errno = EACCES;
  log(LogLevel::info, "into the void");
  const int after = errno;
  ::dup2(saved, STDERR_FILENO);
  ::close(saved);
  EXPECT_EQ(after, EACCES);
}

TEST(Log, ThreadsDoNotTearLines) {
  log_setup(LogLevel::info, 0);
  const auto writes = writes_of([] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 3; ++i) log(LogLevel::info, "%s", std::string(60, 'a' + t).c_str());
      });
    }
    for (auto& thread : threads) thread.join();
  });
  ASSERT_EQ(writes.size(), 12U);
  for (const auto& line : writes) {
    EXPECT_EQ(line.size(), 16 + 60 + 1U) << line;
    EXPECT_EQ(std::count(line.begin() + 16, line.end(), line[16]), 60) << line;
  }
}

}  // namespace
}  // namespace tutti
