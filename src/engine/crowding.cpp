#include "engine/crowding.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>

namespace tutti {
namespace {

/// The number at `*at`, behind spaces; false where there is none.
bool read_number(const char** at, const char* end, std::uint64_t* out) noexcept {
  while (*at != end && **at == ' ') ++*at;
  const auto [rest, error] = std::from_chars(*at, end, *out);
  *at = rest;
  return error == std::errc{};
}

}  // namespace

Crowding::Crowding(const char* path) noexcept : file_(open(path, O_RDONLY | O_CLOEXEC)) {}

Crowding::~Crowding() {
  if (file_ >= 0) close(file_);
}

bool Crowding::crowded(std::uint64_t now_ns) noexcept {
  if (file_ >= 0 && now_ns >= next_look_ns_) {
    next_look_ns_ = now_ns + kWindow;
    look();
  }
  return crowded_;
}

/// Linux says how long a thread has run and how long it has waited for a processor, in ns, and how
/// often it ran (Documentation/scheduler/sched-stats).
void Crowding::look() noexcept {
  char text[80];
  const ssize_t length = pread(file_, text, sizeof text, 0);
  const char* at = text;
  const char* const end = text + (length > 0 ? length : 0);
  std::uint64_t ran = 0, waited = 0;
  if (!read_number(&at, end, &ran) || !read_number(&at, end, &waited)) {
    crowded_ = true;
    return;
  }
  // Before the first look all processes started at once, which says nothing of what follows; and who
  // has slept all the time says nothing about others.
  if (!looked_) {
    crowded_ = false;
  } else if (ran != ran_ns_ || waited != waited_ns_) {
    crowded_ = waited - waited_ns_ >= ran - ran_ns_;
  }
  looked_ = true;
  ran_ns_ = ran;
  waited_ns_ = waited;
}

}  // namespace tutti
