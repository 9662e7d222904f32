#include "fabric/nodes/lifelines.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tutti::nodes {
namespace {

constexpr std::uint64_t kPause = 20'000'000;  // ns between looks at a connection

void set(int socket, int level, int option, int value) noexcept {
  static_cast<void>(setsockopt(socket, level, option, &value, sizeof value));
}

}  // namespace

Lifelines::~Lifelines() {
  for (auto& [peer, line] : lines_) close(line);
}

void Lifelines::know(std::int32_t peer, const sockaddr_storage& address) {
  const std::lock_guard lock(mutex_);
  lines_[peer].address = address;
}

Lifelines::Verdict Lifelines::ask(std::int32_t peer, std::uint64_t now_ns) noexcept {
  const std::lock_guard lock(mutex_);
  const auto place = lines_.find(peer);
  if (place == lines_.end()) return Verdict::unknown;
  Line& line = place->second;
  if (line.verdict == Verdict::gone || now_ns - line.asked_ns < kPause) return line.verdict;
  line.asked_ns = now_ns;
  if (line.socket < 0) open(line);
  if (line.socket >= 0) look(line);
  return line.verdict;
}

void Lifelines::release(std::int32_t peer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto place = lines_.find(peer);
  if (place == lines_.end() || place->second.socket < 0) return;
  close(place->second);
  place->second.verdict = Verdict::unknown;
}

void Lifelines::open(Line& line) noexcept {
  line.socket = ::socket(line.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (line.socket < 0) return;  // as if nothing were known
  const int seconds =
      static_cast<int>(std::clamp<std::uint64_t>(timeout_ns_ / 1'000'000'000, 1, 1'000'000));
  set(line.socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(line.socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(line.socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(line.socket, IPPROTO_TCP, TCP_KEEPCNT, std::min(seconds, 127));
  const socklen_t bytes =
      line.address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (connect(line.socket, reinterpret_cast<const sockaddr*>(&line.address), bytes) == 0 ||
      errno == EINPROGRESS)
    return;
  const bool refused = errno == ECONNREFUSED;
  close(line);
  if (refused) line.verdict = Verdict::gone;
}

void Lifelines::look(Line& line) noexcept {
  pollfd entry{line.socket, static_cast<short>(line.connected ? POLLIN : POLLOUT), 0};
  if (poll(&entry, 1, 0) <= 0) return;  // on its way, or standing
  if (!line.connected) {
    int error = 0;
    socklen_t bytes = sizeof error;
    static_cast<void>(getsockopt(line.socket, SOL_SOCKET, SO_ERROR, &error, &bytes));
    line.connected = error == 0;
    line.verdict = error == 0              ? Verdict::stands
                   : error == ECONNREFUSED ? Verdict::gone
                                           : Verdict::unknown;
    if (error != 0) close(line);
    return;
  }
  // It was closed, by a process that lives or by its end, or nothing is heard of its machine: the
  // next attempt says which.
  close(line);
  line.verdict = Verdict::unknown;
  line.asked_ns = 0;
}

void Lifelines::close(Line& line) noexcept {
  if (line.socket >= 0) ::close(line.socket);
  line.socket = -1;
  line.connected = false;
}

}  // namespace tutti::nodes
