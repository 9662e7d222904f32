#include <poll.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "base/cores.hpp"
#include "base/log.hpp"
#include "fabric/shm/shm.hpp"

namespace tutti::shm {
namespace {

constexpr std::size_t kNameBytes = 32;
constexpr int kConnectTimeoutMs = 30'000;

std::uint64_t fnv1a(const void* data, std::size_t bytes, std::uint64_t hash = 0xcbf29ce484222325) {
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3;
  return hash;
}

void address_of(const std::uint8_t* name, sockaddr_un* address, socklen_t* length) {
  std::memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name, kNameBytes);  // a leading zero: abstract
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kNameBytes);
}

/// The other end must be a process of this user: abstract names have no permissions of their own.
bool same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

bool wait_for(int socket, short events) {
  pollfd entry{socket, events, 0};
  int ready;
  do {
    ready = poll(&entry, 1, kConnectTimeoutMs);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

bool send_descriptor(int socket, int descriptor) {
  char byte = 't';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || byte != 't') return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

}  // namespace

std::uint64_t machine_identity() noexcept {
  std::uint64_t hash = fnv1a("tutti", 5);
  char text[128];
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re")) {
    const std::size_t length = std::fread(text, 1, sizeof text, file);
    std::fclose(file);
    hash = fnv1a(text, length, hash);
  }
  return hash;
}

std::uint64_t node_identity(const std::string& name) noexcept {
  std::uint64_t hash = fnv1a(name.data(), name.size(), machine_identity());
  // The network namespace holds abstract sockets; uts and ipc tell "machines in a box" apart; pid
  // is what cross-memory attach and liveness checks speak of.
  for (const char* space : {"net", "uts", "ipc", "pid", "user"}) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/ns/%s", space);
    struct stat info;
    if (stat(path, &info) == 0) hash = fnv1a(&info.st_ino, sizeof info.st_ino, hash);
  }
  const uid_t user = geteuid();
  return fnv1a(&user, sizeof user, hash);
}

DescriptorExchange::~DescriptorExchange() {
  if (socket_ >= 0) close(socket_);
}

Status DescriptorExchange::open() noexcept {
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return socket_ >= 0 ? Status::success()
                      : Status::error(Code::no_memory, "no descriptor for a unix socket");
}

Status DescriptorExchange::listen(std::uint8_t* name) noexcept {
  if (getrandom(name, kNameBytes, 0) != static_cast<ssize_t>(kNameBytes)) {
    return Status::error(Code::internal, "no random bytes");
  }
  sockaddr_un address;
  socklen_t length;
  address_of(name, &address, &length);
  if (bind(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(socket_, 4096) != 0) {
    return Status::error(Code::not_permitted, "cannot listen on a unix socket");
  }
  return Status::success();
}

Status DescriptorExchange::serve(int descriptor, int followers) noexcept {
  while (followers > 0) {
    if (!wait_for(socket_, POLLIN)) {
      return Status::error(Code::timeout, "a rank of this node did not fetch the shared segment");
    }
    const int connection = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN) continue;
      return Status::error(Code::no_memory, "no descriptor for a unix socket");
    }
    if (same_user(connection) && send_descriptor(connection, descriptor)) --followers;
    close(connection);
  }
  return Status::success();
}

Status DescriptorExchange::receive(const std::uint8_t* name, int* descriptor) noexcept {
  sockaddr_un address;
  socklen_t length;
  address_of(name, &address, &length);
  int received = -1;
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), length) == 0 && same_user(socket_) &&
      wait_for(socket_, POLLIN)) {
    received = receive_descriptor(socket_);
  }
  if (received < 0) return Status::error(Code::timeout, "the shared segment did not arrive");
  *descriptor = received;
  return Status::success();
}

namespace {

std::uint64_t layout_version() {
  const std::size_t shape[] = {sizeof(NodeHeader), sizeof(NodeSlot), sizeof(Key)};
  return fnv1a(shape, sizeof shape, fnv1a(TUTTI_VERSION, sizeof TUTTI_VERSION));
}

Introduction introduce(const Settings& settings, int core_limit) {
  Introduction me{};
  me.version = layout_version();
  me.node = node_identity(settings.node);
  me.machine = machine_identity();
  me.arena_bytes = settings.arena;
  me.pid = getpid();
  me.core_limit = static_cast<std::uint32_t>(core_limit);
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    std::memcpy(me.cpus, &set, std::min(sizeof me.cpus, sizeof set));
  }
  return me;
}

/// Cores that the ranks of a node may use together: the union of their affinity masks, within the
/// quota of the cgroup.
int cores_of(const std::vector<Introduction>& all, const std::vector<std::int32_t>& ranks) {
  std::uint64_t together[16] = {};
  int quota = 0;
  for (const std::int32_t rank : ranks) {
    const auto& one = all[static_cast<std::size_t>(rank)];
    for (int i = 0; i < 16; ++i) together[i] |= one.cpus[i];
    int own = 0;
    for (const std::uint64_t word : one.cpus) own += __builtin_popcountll(word);
    // A limit below the own mask comes from the quota, which the ranks share.
    if (static_cast<int>(one.core_limit) < own) quota = static_cast<int>(one.core_limit);
  }
  int cores = 0;
  for (const std::uint64_t word : together) cores += __builtin_popcountll(word);
  if (quota > 0) cores = std::min(cores, quota);
  return std::max(1, cores);
}

/// Steps of the connection that can fail on one rank only, agreed by all of them.
Status agree(Bootstrap& bootstrap, Status mine) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(bootstrap.size()));
  const auto code = static_cast<std::uint8_t>(mine.code);
  TUTTI_TRY(bootstrap.allgather(&code, codes.data(), 1));
  if (!mine.ok()) return mine;
  for (std::size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] != 0) {
      return {static_cast<Code>(codes[rank]), static_cast<std::int32_t>(rank),
              "another rank failed"};
    }
  }
  return Status::success();
}

}  // namespace

Status ShmFabric::connect(Bootstrap& bootstrap, const Settings& settings,
                          std::unique_ptr<ShmFabric>* out) {
  const int rank = bootstrap.rank();
  const auto size = static_cast<std::size_t>(bootstrap.size());
  std::unique_ptr<ShmFabric> fabric(new (std::nothrow) ShmFabric(rank, bootstrap.size()));
  if (!fabric) return Status::error(Code::no_memory, "out of memory");

  // Who is on this node?
  std::vector<Introduction> all(size);
  const Introduction me = introduce(settings, available_cores());
  TUTTI_TRY(bootstrap.allgather(&me, all.data(), sizeof me));
  fabric->local_of_.assign(size, -1);
  std::vector<std::int32_t> machine;
  for (std::size_t peer = 0; peer < size; ++peer) {
    if (all[peer].version != me.version) {
      return {Code::version_mismatch, static_cast<std::int32_t>(peer),
              "the ranks run different versions of tutti"};
    }
    if (all[peer].machine == me.machine) machine.push_back(static_cast<std::int32_t>(peer));
    if (all[peer].node != me.node) continue;
    fabric->local_of_[peer] = static_cast<std::int32_t>(fabric->neighbours_.size());
    fabric->neighbours_.push_back(static_cast<std::int32_t>(peer));
  }
  const int local = fabric->local_of_[static_cast<std::size_t>(rank)];
  const auto neighbours = static_cast<int>(fabric->neighbours_.size());
  fabric->node_cores_ = cores_of(all, machine);
  fabric->machine_ranks_ = static_cast<int>(machine.size());

  // The leader (lowest rank) creates the segment and listens; then everybody knows its socket.
  struct Offer {
    std::uint8_t name[kNameBytes];
    std::uint8_t code;
  } offer{};
  DescriptorExchange exchange;
  std::unique_ptr<Segment> segment;
  Status status = exchange.open();
  if (local == 0 && status.ok()) {
    std::string message;
    status = Segment::create(settings.segment, neighbours, settings.arena, &segment, &message);
    if (!status.ok() && !message.empty()) log(LogLevel::error, "%s", message.c_str());
    if (status.ok()) status = exchange.listen(offer.name);
  }
  offer.code = static_cast<std::uint8_t>(status.code);
  std::vector<Offer> offers(size);
  TUTTI_TRY(bootstrap.allgather(&offer, offers.data(), sizeof offer));
  const Offer& leaders = offers[static_cast<std::size_t>(fabric->neighbours_[0])];
  for (const std::int32_t peer : fabric->neighbours_) {
    const auto code = static_cast<Code>(offers[static_cast<std::size_t>(peer)].code);
    if (status.ok() && code != Code::ok) status = {code, peer, "no shared segment on this node"};
  }
  if (status.ok()) {
    if (local == 0) {
      status = exchange.serve(segment->descriptor(), neighbours - 1);
    } else {
      int descriptor = -1;
      status = exchange.receive(leaders.name, &descriptor);
      if (status.ok()) status = Segment::adopt(descriptor, &segment);
    }
  }
  if (status.ok()) {
    fabric->attach_segment(std::move(segment), local);
    fabric->slot_->probe = ~static_cast<std::uint64_t>(rank);
  }
  TUTTI_TRY(agree(bootstrap, status));

  // Cross-memory attach is probed once, on the next neighbour's probe word, and used only if all of
  // the node may. The word is mapped at another address there, so its owner tells where.
  const auto own_probe = reinterpret_cast<std::uint64_t>(&fabric->slot_->probe);
  std::vector<std::uint64_t> probes(size);
  TUTTI_TRY(bootstrap.allgather(&own_probe, probes.data(), sizeof own_probe));
  const auto next = static_cast<std::size_t>(
      fabric->neighbours_[static_cast<std::size_t>((local + 1) % neighbours)]);
  std::uint64_t seen = 0;
  const Status probe =
      cma_read(all[next].pid, reinterpret_cast<const void*>(probes[next]), &seen, sizeof seen);
  struct Abilities {
    std::uint8_t cma;
    std::uint8_t
        barrier;  // a sleeper's barrier works only on signallers that are registered for it
  } abilities{};
  abilities.cma =
      settings.cma != Switch::off && probe.ok() && seen == ~static_cast<std::uint64_t>(next);
  abilities.barrier = !fabric->adds_before_ring_;
  std::vector<Abilities> everyones(size);
  TUTTI_TRY(bootstrap.allgather(&abilities, everyones.data(), sizeof abilities));
  bool all_permitted = true, all_registered = true;
  for (const std::int32_t peer : fabric->neighbours_) {
    all_permitted = all_permitted && everyones[static_cast<std::size_t>(peer)].cma != 0;
    all_registered = all_registered && everyones[static_cast<std::size_t>(peer)].barrier != 0;
  }
  fabric->use_barrier(all_registered);
  if (!all_permitted && settings.cma == Switch::on) {
    return Status::error(Code::not_permitted,
                         "TUTTI_CMA=on, but the kernel refuses cross-memory attach");
  }
  fabric->traits_.user_memory = all_permitted;
  *out = std::move(fabric);
  return Status::success();
}

}  // namespace tutti::shm
