#include "offload/start/socket.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace tutti::offload {
namespace {

constexpr int kTimeoutMs = 30'000;

bool ready(int socket, short events) noexcept {
  pollfd entry{socket, events, 0};
  int count;
  do {
    count = poll(&entry, 1, kTimeoutMs);
  } while (count < 0 && errno == EINTR);
  return count > 0;
}

}  // namespace

bool read_all(int socket, void* out, std::size_t bytes) noexcept {
  auto* at = static_cast<char*>(out);
  while (bytes != 0) {
    if (!ready(socket, POLLIN)) return false;
    const ssize_t count = recv(socket, at, bytes, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

bool write_all(int socket, const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const char*>(data);
  while (bytes != 0) {
    if (!ready(socket, POLLOUT)) return false;
    const ssize_t count = send(socket, at, bytes, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace tutti::offload
