#include "base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace tutti {
namespace {

// Written by log_setup before any other thread of tutti exists, read by all; nothing else is
// published through them, so relaxed is enough.
std::atomic<LogLevel> level_{LogLevel::warn};
std::atomic<int> rank_{-1};

// Atomic with respect to the lines of other processes when standard error is a pipe (PIPE_BUF).
constexpr std::size_t kLineBytes = 2048;

// snprintf returns what it would have written: the bytes that are in `room` bytes of buffer.
std::size_t written(int wanted, std::size_t room) {
  return wanted < 0 ? 0 : std::min(static_cast<std::size_t>(wanted), room - 1);
}

}  // namespace

void log_setup(LogLevel level, int rank) noexcept {
  level_.store(level, std::memory_order_relaxed);
  rank_.store(rank, std::memory_order_relaxed);
}

LogLevel log_level() noexcept { return level_.load(std::memory_order_relaxed); }

void log(LogLevel level, const char* format, ...) noexcept {
  if (level == LogLevel::quiet || level > log_level()) return;
  const int saved_errno = errno;
  std::array<char, kLineBytes> line;
  const int rank = rank_.load(std::memory_order_relaxed);
  const int prefix = rank < 0 ? std::snprintf(line.data(), line.size(), "tutti: ")
                              : std::snprintf(line.data(), line.size(), "tutti: [rank %d] ", rank);
  const std::size_t start = written(prefix, line.size());

  std::va_list arguments;
  va_start(arguments, format);
  const int wanted = std::vsnprintf(line.data() + start, line.size() - start, format, arguments);
  va_end(arguments);

  std::size_t end = start + written(wanted, line.size() - start);
  const bool cut = wanted >= 0 && static_cast<std::size_t>(wanted) >= line.size() - start;
  if (cut) std::fill_n(line.data() + end - 3, 3, '.');
  // One line per event, whatever a peer or a file name put into it.
  std::replace_if(
      line.data() + start, line.data() + end,
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  line[end++] = '\n';  // over the terminating zero
  while (::write(STDERR_FILENO, line.data(), end) < 0 && errno == EINTR) {
  }
  errno = saved_errno;
}

}  // namespace tutti
