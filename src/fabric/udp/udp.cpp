#include "fabric/udp/udp.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

namespace tutti::udp {
namespace {

constexpr int kReceiveBuffer = 4 << 20;  // bytes: 80 messages of 64 KB were measured to fit
constexpr int kFullWait = 20;            // ms for a full send buffer to drain

}  // namespace

UdpDatagrams::UdpDatagrams(Family family, Interface interface, int rank,
                           const groups::Secret& secret) noexcept
    : family_(family),
      interface_(std::move(interface)),
      rank_(static_cast<std::uint32_t>(rank)),
      secret_(secret),
      datagram_bytes_(std::min(interface_.mtu - header_bytes(family), kLongest) -
                      groups::kTrailerBytes) {}

Status UdpDatagrams::open(Family family, const std::string& interface, int rank,
                          const groups::Secret& secret, std::unique_ptr<UdpDatagrams>* out,
                          std::string* message) {
  Interface found;
  TUTTI_TRY(find_interface(family, interface, &found, message));
  if (found.mtu < least_mtu(family)) {
    *message = "the packets of " + found.name + " are too short for multicast";
    return Status::error(Code::unsupported, "short packets");
  }
  std::unique_ptr<UdpDatagrams> datagrams(new (std::nothrow)
                                              UdpDatagrams(family, found, rank, secret));
  if (!datagrams) return Status::error(Code::no_memory, "out of memory");
  datagrams->epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (datagrams->epoll_ < 0) {
    *message = std::string("no epoll for multicast: ") + std::strerror(errno);
    return Status::error(Code::unsupported, "no epoll");
  }
  *out = std::move(datagrams);
  return Status::success();
}

UdpDatagrams::~UdpDatagrams() {
  for (std::size_t i = 0; i < groups_.size(); ++i) leave(static_cast<int>(i));
  if (epoll_ >= 0) close(epoll_);
}

UdpDatagrams::Group* UdpDatagrams::at(int group) const noexcept {
  const auto index = static_cast<std::size_t>(group);
  return group >= 0 && index < groups_.size() ? groups_[index].get() : nullptr;
}

std::size_t UdpDatagrams::buffer_for(int depth) const noexcept {
  return std::min<std::size_t>(
      std::max<std::size_t>(kReceiveBuffer, 2 * static_cast<std::size_t>(depth) * interface_.mtu),
      std::size_t{1} << 30);
}

/// Beyond the system's limit with privileges only; else as much as it gives.
void UdpDatagrams::set_buffer(int socket, int depth) const noexcept {
  const auto wanted = static_cast<int>(buffer_for(depth));
  if (setsockopt(socket, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0)
    setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
}

Status UdpDatagrams::open_socket(Group& group, int depth) noexcept {
  const int fd = group.socket =
      socket(domain_of(family_), SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return Status::error(Code::no_memory, "no socket for multicast");
  set_buffer(fd, depth);
  return enter(family_, fd, group.name, interface_.index) &&
                 send_through(family_, fd, interface_.index)
             ? Status::success()
             : Status::error(Code::unsupported, "the system refuses a multicast group");
}

Status UdpDatagrams::join(const std::uint64_t id[2], int depth, int* out) noexcept {
  if (depth < 1)
    return Status::error(Code::invalid_argument, "a member needs at least one receive");
  const std::lock_guard lock(mutex_);
  for (const auto& other : groups_) {
    if (other && other->id[0] == id[0] && other->id[1] == id[1])
      return Status::error(Code::invalid_argument, "this rank is a member already");
  }
  std::unique_ptr<Group> group(new (std::nothrow) Group);
  if (!group) return Status::error(Code::no_memory, "out of memory");
  group->id[0] = id[0];
  group->id[1] = id[1];
  group->name = groups::name_group(secret_, id);
  Status status = open_socket(*group, depth);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  const auto free = std::find(groups_.begin(), groups_.end(), nullptr);
  event.data.u64 = static_cast<std::uint64_t>(free - groups_.begin());
  if (status.ok() && epoll_ctl(epoll_, EPOLL_CTL_ADD, group->socket, &event) != 0)
    status = Status::error(Code::no_memory, "no epoll for a multicast group");
  if (!status.ok()) {
    if (group->socket >= 0) close(group->socket);
    return status;
  }
  const auto index = static_cast<int>(event.data.u64);
  if (free != groups_.end()) {
    *free = std::move(group);
  } else {
    groups_.push_back(std::move(group));
  }
  joined_.fetch_add(1, std::memory_order_relaxed);
  *out = index;
  return status;
}

void UdpDatagrams::leave(int group) noexcept {
  const std::lock_guard lock(mutex_);
  if (at(group) == nullptr) return;
  close(at(group)->socket);  // which leaves the group and the epoll set
  groups_[static_cast<std::size_t>(group)].reset();
  joined_.fetch_sub(1, std::memory_order_relaxed);
}

Status UdpDatagrams::cast(int group, const void* data, std::size_t bytes) noexcept {
  Group* const its = at(group);
  if (its == nullptr) return Status::error(Code::invalid_argument, "no such group");
  if (bytes > datagram_bytes_) return Status::error(Code::truncated, "larger than a datagram");
  std::byte packet[kLongest];
  if (bytes != 0) std::memcpy(packet, data, bytes);
  const auto number = static_cast<std::uint32_t>(its->counts.sent);
  groups::write_trailer(its->name, {rank_, number}, packet, bytes);
  const GroupAddress address = address_of(family_, its->name);
  for (int attempt = 0;; ++attempt) {
    const ssize_t sent = sendto(its->socket, packet, bytes + groups::kTrailerBytes,
                                MSG_DONTWAIT | MSG_NOSIGNAL, address.get(), address.bytes);
    if (sent >= 0) break;
    if (errno == EINTR) continue;
    if (attempt != 0 || (errno != EAGAIN && errno != ENOBUFS)) return Status::success();  // lost
    pollfd writable{its->socket, POLLOUT, 0};
    poll(&writable, 1, kFullWait);
  }
  ++its->counts.sent;
  return Status::success();
}

std::size_t UdpDatagrams::receive(int group, void* out, std::size_t capacity) noexcept {
  std::size_t bytes = 0;
  while (const std::byte* const data = view(group, &bytes)) {
    if (bytes > capacity) {
      Counts& counts = at(group)->counts;
      ++counts.dropped;
      --counts.received;
      continue;
    }
    std::memcpy(out, data, bytes);
    return bytes;
  }
  return 0;
}

/// As if there were none, but whoever waits for more comes back at once.
const std::byte* UdpDatagrams::pause(Group& group) const noexcept {
  group.at_once = 0;
  group.arrivals.fetch_add(1, std::memory_order_release);
  return nullptr;
}

const std::byte* UdpDatagrams::view(int group, std::size_t* bytes) noexcept {
  Group* const its = at(group);
  if (its == nullptr) return nullptr;
  if (++its->at_once > kMostAtOnce) return pause(*its);
  for (int others = 0;; ++others) {
    if (others > kMostForeign) return pause(*its);
    std::byte* const packet = its->viewed;
    const ssize_t came = recv(its->socket, packet, kLongest, MSG_DONTWAIT | MSG_TRUNC);
    if (came < 0 && errno == EINTR) continue;
    if (came < 0) {
      its->at_once = 0;
      return nullptr;
    }
    const auto length = static_cast<std::size_t>(came);
    groups::Origin origin;
    if (length > kLongest || !groups::read_origin(packet, length, &origin) ||
        !groups::is_sealed(its->name, packet, length)) {
      ++its->counts.foreign;
      continue;
    }
    if (origin.sender == rank_) continue;
    its->losses.note(origin);
    ++its->counts.received;
    *bytes = length - groups::kTrailerBytes;
    return packet;
  }
}

void UdpDatagrams::deepen(int group, int depth) noexcept {
  const Group* const its = at(group);
  if (its != nullptr && buffer_bytes(group) < buffer_for(depth)) set_buffer(its->socket, depth);
}

/// The kernel counts a packet with its own book-keeping, in pieces of a power of two.
std::size_t UdpDatagrams::room(int group) const noexcept {
  constexpr std::size_t kFrame = 512, kBook = 256;
  return buffer_bytes(group) / (std::bit_ceil(interface_.mtu + kFrame) + kBook);
}

const Word& UdpDatagrams::arrivals(int group) const noexcept { return at(group)->arrivals; }

Datagrams::Counts UdpDatagrams::counts(int group) const noexcept {
  const Group* const its = at(group);
  if (its == nullptr) return Counts{};
  Counts counts = its->counts;
  counts.dropped += its->losses.count();
  return counts;
}

std::size_t UdpDatagrams::buffer_bytes(int group) const noexcept {
  const Group* const its = at(group);
  int bytes = 0;
  socklen_t size = sizeof bytes;
  if (its == nullptr || getsockopt(its->socket, SOL_SOCKET, SO_RCVBUF, &bytes, &size) != 0)
    return 0;
  return static_cast<std::size_t>(bytes);
}

bool UdpDatagrams::progress() noexcept {
  if (joined_.load(std::memory_order_relaxed) == 0) return false;
  epoll_event events[16];
  const int count = epoll_wait(epoll_, events, 16, 0);
  if (count <= 0) return false;
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) {
    if (Group* const group = at(static_cast<int>(events[i].data.u64)))
      group->arrivals.fetch_add(1, std::memory_order_release);
  }
  return true;
}

}  // namespace tutti::udp
