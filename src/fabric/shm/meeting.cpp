#include "fabric/shm/meeting.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/log.hpp"

namespace tutti::shm {
namespace {

constexpr int kPatienceMs = 30'000;
constexpr std::size_t kMostCallers = 256;  // whose proofs are awaited at once

void address_of(const Meeting::Name& name, sockaddr_un* address, socklen_t* length) noexcept {
  std::memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  std::memcpy(address->sun_path + 1, name.bytes, sizeof name.bytes);  // a leading zero: abstract
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + sizeof name.bytes);
}

/// The number that stands for users whom this process's user namespace does not know.
uid_t nobody() noexcept {
  unsigned number = 65534;
  if (std::FILE* file = std::fopen("/proc/sys/kernel/overflowuid", "re")) {
    if (std::fscanf(file, "%u", &number) != 1) number = 65534;
    std::fclose(file);
  }
  return number;
}

/// The other end is a process of another user. Where a user namespace hides who it is, only the
/// proof can tell.
bool is_of_another_user(int socket) noexcept {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return true;
  return peer.uid != geteuid() && peer.uid != nobody();
}

void note_stranger(const char* what) noexcept {
  log(LogLevel::debug, "a stranger on the socket of this node's ranks is dropped: %s", what);
}

std::int64_t now_ms() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

bool send_with(int socket, const Proof& proof, int descriptor) noexcept {
  Proof shown = proof;
  iovec data{&shown, sizeof shown};
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
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof shown);
}

int receive_with(int socket, Proof* proof) noexcept {
  iovec data{proof, sizeof *proof};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t came = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* header = came < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  if (came == static_cast<ssize_t>(sizeof *proof)) return descriptor;
  close(descriptor);
  return -1;
}

}  // namespace

Meeting::~Meeting() {
  if (listener_ >= 0) close(listener_);
  if (caller_ >= 0) close(caller_);
}

Proof Meeting::proof_of(const char* role, std::int32_t follower) const noexcept {
  return prove(secret_, role, &follower, sizeof follower);
}

Status Meeting::open(Name* name) noexcept {
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  caller_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener_ < 0 || caller_ < 0)
    return Status::error(Code::no_memory, "no descriptor for a unix socket");
  if (getrandom(own_.bytes, sizeof own_.bytes, 0) != static_cast<ssize_t>(sizeof own_.bytes))
    return Status::error(Code::internal, "no random bytes");
  sockaddr_un address;
  socklen_t length;
  address_of(own_, &address, &length);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener_, 4096) != 0)
    return Status::error(Code::not_permitted, "cannot listen on a unix socket");
  *name = own_;
  return Status::success();
}

// ---- the follower

bool Meeting::show() noexcept {
  const Call call{rank_, proof_of("follower", rank_)};
  shown_ = send(caller_, &call, sizeof call, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof call);
  return shown_;
}

bool Meeting::call(const Name& leader) noexcept {
  leader_ = leader;
  sockaddr_un address;
  socklen_t length;
  address_of(leader, &address, &length);
  if (connect(caller_, reinterpret_cast<sockaddr*>(&address), length) != 0)
    return errno == EAGAIN;  // it is there, and has many callers: receive() tries again
  if (!is_of_another_user(caller_) && show()) return true;
  close(caller_);
  caller_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  return false;
}

Status Meeting::receive(int* descriptor) noexcept {
  const Status late = Status::error(Code::timeout, "the shared segment did not arrive");
  const timeval patience{kPatienceMs / 1000, 0};
  setsockopt(caller_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  setsockopt(caller_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  fcntl(caller_, F_SETFL, fcntl(caller_, F_GETFL) & ~O_NONBLOCK);
  if (!shown_) {
    sockaddr_un address;
    socklen_t length;
    address_of(leader_, &address, &length);
    if (connect(caller_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        is_of_another_user(caller_) || !show())
      return late;
  }
  Proof proof;
  const int received = receive_with(caller_, &proof);
  if (received < 0) return late;
  if (!equal(proof, proof_of("leader", rank_))) {
    close(received);
    return Status::error(Code::not_permitted, "a stranger offers a shared segment");
  }
  *descriptor = received;
  return Status::success();
}

// ---- the leader

void Meeting::refuse() noexcept {
  if (listener_ >= 0) close(listener_);
  listener_ = -1;
}

/// Takes who has called in. Whoever belongs here has shown its proof by the time that it is looked
/// at again: where all places are taken, the one that has been silent for longest goes.
void Meeting::admit(std::vector<int>* callers) noexcept {
  const auto dismiss_one = [callers] {
    note_stranger("silent, and there are too many");
    close(callers->front());
    callers->erase(callers->begin());
  };
  if (callers->size() >= kMostCallers) dismiss_one();
  while (callers->size() < kMostCallers) {
    const int caller = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (caller < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        if (!callers->empty()) dismiss_one();
        poll(nullptr, 0, 1);
      }
      return;  // the next poll comes back to it
    }
    if (is_of_another_user(caller)) {
      note_stranger("a process of another user");
      close(caller);
    } else {
      callers->push_back(caller);
    }
  }
}

/// Hands the descriptor over where the caller shows that it is one of `followers`, which it then is
/// no more. False when it could not be written to.
bool Meeting::answer(int caller, int descriptor, std::vector<std::int32_t>* followers) noexcept {
  Call call{-1, {}};
  const ssize_t came = recv(caller, &call, sizeof call, MSG_DONTWAIT);
  const auto place = std::find(followers->begin(), followers->end(), call.rank);
  if (came != static_cast<ssize_t>(sizeof call) || place == followers->end() ||
      !equal(call.proof, proof_of("follower", call.rank))) {
    note_stranger("it does not know the job's secret");
    return true;
  }
  followers->erase(place);
  return send_with(caller, proof_of("leader", call.rank), descriptor);
}

Status Meeting::serve(int descriptor, const std::vector<std::int32_t>& followers) noexcept {
  const std::int64_t until = now_ms() + kPatienceMs;
  std::vector<std::int32_t> missing = followers;
  std::vector<int> callers;
  bool written = true;
  while (!missing.empty() && written) {
    std::vector<pollfd> watched{{listener_, POLLIN, 0}};
    for (const int caller : callers) watched.push_back({caller, POLLIN, 0});
    const std::int64_t left = until - now_ms();
    if (left <= 0) break;
    if (poll(watched.data(), watched.size(), static_cast<int>(left)) < 0 && errno != EINTR) break;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      written = answer(watched[i].fd, descriptor, &missing) && written;
      close(watched[i].fd);
      std::erase(callers, watched[i].fd);
    }
    if (watched[0].revents != 0) admit(&callers);
  }
  for (const int caller : callers) close(caller);
  return missing.empty() && written
             ? Status::success()
             : Status::error(Code::timeout, "a rank of this node did not fetch the segment");
}

}  // namespace tutti::shm
