#include "mpi/plugin/roll_call.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "mpi/record/record.h"

namespace tutti::mpi {
namespace {

constexpr std::uint64_t kPatience = 1'000'000'000;  // ns for all that is said on one connection
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

socklen_t length_of(const sockaddr_in6& address) noexcept {
  return address.sin6_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

/// A connection that neither waits for ever nor ends the program.
class Line {
 public:
  explicit Line(int socket) noexcept
      : socket_(socket), until_(tutti_clock(CLOCK_MONOTONIC) + kPatience) {}
  ~Line() {
    if (socket_ >= 0) ::close(socket_);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  bool is_open() const noexcept { return socket_ >= 0; }
  bool send(const void* data, std::size_t bytes) noexcept {
    const auto* at = static_cast<const char*>(data);
    while (bytes != 0) {
      const ssize_t sent = ::send(socket_, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (!goes_on(sent, POLLOUT)) return false;
      if (sent <= 0) continue;
      at += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
    return true;
  }
  bool receive(void* data, std::size_t bytes) noexcept {
    auto* at = static_cast<char*>(data);
    while (bytes != 0) {
      const ssize_t got = ::recv(socket_, at, bytes, MSG_DONTWAIT);
      if (got == 0 || !goes_on(got, POLLIN)) return false;
      if (got < 0) continue;
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  /// After a call that gave `result`: waits where it must, as long as it may.
  bool goes_on(ssize_t result, short events) noexcept {
    if (result >= 0 || errno == EINTR) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    const std::uint64_t now = tutti_clock(CLOCK_MONOTONIC);
    if (now >= until_) return false;
    pollfd entry{socket_, events, 0};
    return poll(&entry, 1, static_cast<int>((until_ - now) / 1'000'000) + 1) >= 0 || errno == EINTR;
  }

  const int socket_;
  const std::uint64_t until_;
};

}  // namespace

/// What the asked node has drawn, and what comes back.
struct RollCall::Challenge {
  std::uint8_t bytes[16];
};
struct RollCall::Request {
  std::uint64_t age_ns;  // of the call that has lasted longest there
  Wish wish;
  Proof proof;
};

RollCall::~RollCall() { close(); }

void RollCall::close() noexcept {
  if (listener_ >= 0) ::close(listener_);
  listener_ = -1;
}

void RollCall::open(const std::vector<std::byte>& network) noexcept {
  sockaddr_in6 address{};
  if (network.size() < sizeof(sockaddr_in)) return;
  std::memcpy(&address, network.data(), std::min(network.size(), sizeof address));
  if (address.sin6_family != AF_INET && address.sin6_family != AF_INET6) return;
  address.sin6_port = 0;  // both families have it in the same place
  const int made = ::socket(address.sin6_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  socklen_t length = length_of(address);
  if (made >= 0 && ::bind(made, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
      ::listen(made, SOMAXCONN) == 0 &&
      ::getsockname(made, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    listener_ = made;
    own_.address = address;
  } else if (made >= 0) {
    ::close(made);
  }
}

void RollCall::meet(std::vector<Listener> all, const Secret& secret) {
  all_ = std::move(all);
  secret_ = secret;
  constexpr Secret kNone;
  if (std::memcmp(&secret, &kNone, sizeof secret) != 0) return;
  close();
  all_.clear();
}

bool RollCall::is_first() const noexcept {
  return listener_ >= 0 && !all_.empty() &&
         std::memcmp(&all_.front(), &own_, sizeof(Listener)) == 0;
}

Proof RollCall::proof_of(const Challenge& challenge, Wish wish) const noexcept {
  struct {
    Challenge challenge;
    Wish wish;
  } about{challenge, wish};
  return prove(secret_, "roll call", &about, sizeof about);
}

int RollCall::connect_to(const Listener& other) const noexcept {
  const int made =
      ::socket(other.address.sin6_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return -1;
  const auto* const address = reinterpret_cast<const sockaddr*>(&other.address);
  if (::connect(made, address, length_of(other.address)) == 0) return made;
  int error = errno;
  if (error == EINPROGRESS) {
    pollfd entry{made, POLLOUT, 0};
    socklen_t bytes = sizeof error;
    if (poll(&entry, 1, kPatience / 1'000'000) == 1)
      static_cast<void>(getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &bytes));
  }
  if (error == 0) return made;
  ::close(made);
  return -1;
}

/// Waits for no answer: that node may be asking this one, which is all the answer. So the proof is
/// always the same; whoever repeats it makes a report come.
bool RollCall::tell_first(std::uint64_t age_ns) noexcept {
  if (all_.empty()) return false;
  Line line(connect_to(all_.front()));
  const Request request{age_ns, Wish::told, proof_of({}, Wish::told)};
  return line.is_open() && line.send(&request, sizeof request);
}

bool RollCall::answer(const std::function<std::vector<std::byte>()>& pack, std::uint64_t* age_ns) {
  *age_ns = 0;
  Line line(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  Challenge challenge;
  Request request;
  if (!line.is_open()) return errno == ECONNABORTED || errno == EAGAIN;
  if (getrandom(&challenge, sizeof challenge, 0) != static_cast<ssize_t>(sizeof challenge) ||
      !line.send(&challenge, sizeof challenge) || !line.receive(&request, sizeof request))
    return true;
  if (request.wish == Wish::told) {
    if (equal(request.proof, proof_of({}, Wish::told))) *age_ns = request.age_ns;
    return true;
  }
  if (!equal(request.proof, proof_of(challenge, Wish::rolls))) return true;
  const std::vector<std::byte> packed = pack();
  const std::uint64_t bytes = packed.size();
  if (line.send(&bytes, sizeof bytes)) static_cast<void>(line.send(packed.data(), bytes));
  return true;
}

std::vector<std::byte> RollCall::ask(const Listener& other) {
  Line line(connect_to(other));
  Challenge challenge;
  Request request{0, Wish::rolls, {}};
  std::uint64_t bytes = 0;
  if (!line.is_open() || !line.receive(&challenge, sizeof challenge)) return {};
  request.proof = proof_of(challenge, request.wish);
  if (!line.send(&request, sizeof request) || !line.receive(&bytes, sizeof bytes) ||
      bytes > kMostBytes)
    return {};
  std::vector<std::byte> packed(bytes);
  if (!line.receive(packed.data(), bytes)) return {};
  return packed;
}

void RollCall::ask_others(const std::function<void(const std::vector<std::byte>&)>& take) {
  for (const Listener& other : all_) {
    if (std::memcmp(&other, &own_, sizeof other) == 0) continue;
    const std::vector<std::byte> packed = ask(other);
    if (!packed.empty()) take(packed);
  }
}

}  // namespace tutti::mpi
