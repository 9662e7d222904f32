#include "lab/switch.hpp"

#include <linux/if_ether.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>

#include "lab/message.hpp"
#include "lab/node_network.hpp"

namespace tutti::lab {

namespace {

constexpr int kShapedFrom = 1;     // port 0 is the launchers' node
constexpr int kFramesAtOnce = 64;  // of one port, before the others have their turn
constexpr std::size_t kLargestFrame = 80 << 10;
// To set a timer and to be woken by it may take 20 us of a processor that the ranks need. So nearer
// deliveries than this are waited for awake, and sleep lasts so much longer, so that deliveries
// that follow each other closely cost one timer.
constexpr Nanoseconds kAwake = 8'000;
constexpr Nanoseconds kTogether = 15'000;

Nanoseconds now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Switch::Switch(int control, std::vector<NodeHandle> nodes, const Conditions& conditions)
    : control_(control),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      nodes_(std::move(nodes)),
      network_(static_cast<int>(nodes_.size()), kShapedFrom, conditions) {
  if (epoll_ < 0) throw system_problem("cannot make the switch");
  watch(control_, Source::control, 0);
  for (int port = 0; port < static_cast<int>(nodes_.size()); ++port) {
    const NodeHandle& node = nodes_[static_cast<std::size_t>(port)];
    watch(node.tap, Source::tap, port);
    watch(node.socket, Source::node, port);
    watch(node.agents, Source::agents, port);
  }
}

Switch::~Switch() {
  for (int port = 0; port < static_cast<int>(nodes_.size()); ++port) bury(port);
  close(epoll_);
}

void Switch::watch(int descriptor, Source source, int value) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = static_cast<std::uint64_t>(source) << 32 | static_cast<std::uint32_t>(value);
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0)
    throw system_problem("cannot watch a connection");
}

void Switch::serve() {
  while (!over_) {
    wait_for_events();
    deliver_due();
  }
}

void Switch::wait_for_events() {
  const Nanoseconds due = network_.next_due();
  timespec limit{};
  if (due >= 0) {
    const Nanoseconds rest = due - now_ns();
    const Nanoseconds asleep = rest > kAwake ? rest + kTogether : 0;
    limit = {asleep / 1'000'000'000, asleep % 1'000'000'000};
  }
  epoll_event events[64];
  // By its number: glibc has the function since 2.35 only.
  const long count =
      syscall(SYS_epoll_pwait2, epoll_, events, 64, due >= 0 ? &limit : nullptr, nullptr, 0);
  for (long i = 0; i < count && !over_; ++i) {
    const auto source = static_cast<Source>(events[i].data.u64 >> 32);
    over_ = !handle(source, static_cast<int>(events[i].data.u64 & 0xffffffff));
  }
}

bool Switch::handle(Source source, int value) {
  switch (source) {
    case Source::control:
      return obey();
    case Source::tap:
      read_frames(value);
      break;
    case Source::node:
      bury(value);
      break;  // a node says nothing after its start: it has ended
    case Source::agents:
      accept_agents(value);
      break;
    case Source::newcomer:
      introduce(value);
      break;
  }
  return true;
}

// ---- frames
// ----------------------------------------------------------------------------------------

/// IP multicast, of either version.
static bool is_to_group(const std::uint8_t* address) noexcept {
  return (address[0] == 0x01 && address[1] == 0x00 && address[2] == 0x5e) ||
         (address[0] == 0x33 && address[1] == 0x33);
}

void Switch::read_frames(int port) {
  static std::uint8_t buffer[kLargestFrame];
  const int tap = nodes_[static_cast<std::size_t>(port)].tap;
  for (int i = 0; i < kFramesAtOnce; ++i) {
    const ssize_t count = read(tap, buffer, sizeof buffer);
    if (count < static_cast<ssize_t>(kTapHeaderBytes + ETH_HLEN)) return;
    const auto bytes = static_cast<std::size_t>(count);
    const auto frame = std::make_shared<const Frame>(
        Frame{std::vector<std::uint8_t>(buffer, buffer + bytes), bytes - kTapHeaderBytes});
    const std::uint8_t* to = buffer + kTapHeaderBytes;
    const Nanoseconds now = now_ns();
    if (!carries_groups_ && is_to_group(to)) continue;
    // Broadcast and multicast go to everybody, as in a switch without snooping.
    if ((to[0] & 1) != 0) {
      for (int other = 0; other < network_.ports(); ++other) {
        if (other != port) network_.submit(port, other, frame, now);
      }
      continue;
    }
    unsigned char expected[6];
    const int target = to[4] << 8 | to[5];
    Addresses::hardware(target, expected);
    if (target < network_.ports() && target != port &&
        std::memcmp(expected, to, sizeof expected) == 0) {
      network_.submit(port, target, frame, now);
    } else {
      ++unknown_;
    }
  }
}

void Switch::deliver_due() {
  Delivery delivery;
  Nanoseconds now = now_ns();
  for (int count = 1; network_.next(now, &delivery); ++count) {
    const int tap = nodes_[static_cast<std::size_t>(delivery.to)].tap;
    const std::vector<std::uint8_t>& bytes = delivery.frame->bytes;
    if (tap < 0 || write(tap, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      ++refused_;
    if (delivery.from >= kShapedFrom && delivery.to >= kShapedFrom) {
      const Nanoseconds late = now_ns() - delivery.due;
      ++lateness_.frames;
      lateness_.frames_late += late > Lateness::kLate;
      lateness_.sum += late;
      lateness_.most = std::max(lateness_.most, late);
    }
    if (count % kFramesAtOnce == 0) return;  // new frames may be due before the next old ones
    now = now_ns();
  }
}

// ---- clients
// ---------------------------------------------------------------------------------------

void Switch::accept_agents(int port) {
  const int agent =
      accept4(nodes_[static_cast<std::size_t>(port)].agents, nullptr, nullptr, SOCK_CLOEXEC);
  if (agent >= 0) watch(agent, Source::newcomer, agent);
}

/// The first thing that an agent sends is the name of the node that it wants.
void Switch::introduce(int newcomer) {
  char name[kNodeNameBytes] = {};
  const ssize_t count = recv(newcomer, name, sizeof name, MSG_DONTWAIT);
  if (count < 0 && errno == EAGAIN) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, newcomer, nullptr);
  if (count == static_cast<ssize_t>(sizeof name)) {
    name[sizeof name - 1] = 0;
    const int port = port_of(name);
    if (port >= 0) pass_on(port, newcomer);
  }
  close(newcomer);
}

bool Switch::pass_on(int port, int connection) {
  const int node = nodes_[static_cast<std::size_t>(port)].socket;
  return node >= 0 && send_with(node, "client", {connection});
}

int Switch::port_of(const std::string& name) const {
  for (int port = 0; port < network_.ports(); ++port) {
    if (name == Addresses::name(port) || name == Addresses::address(port)) return port;
  }
  return -1;
}

/// Ends a node and everything on it.
void Switch::bury(int port) {
  NodeHandle& node = nodes_[static_cast<std::size_t>(port)];
  if (node.pid <= 0) return;
  kill(node.pid, SIGKILL);
  for (int* descriptor : {&node.tap, &node.socket, &node.agents}) {
    close(*descriptor);  // epoll forgets it
    *descriptor = -1;
  }
  waitpid(node.pid, nullptr, 0);
  node.pid = -1;
  network_.cut(port, true);
}

}  // namespace tutti::lab
