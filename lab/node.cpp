#include "lab/node.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lab/message.hpp"
#include "lab/node_network.hpp"

namespace tutti::lab {

namespace {

constexpr int kNamespaces = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNS;
constexpr std::uint64_t kSliceNs = 100'000;
constexpr int kNotStarted = 127;

// ---- the node's view of the file system
// ------------------------------------------------------------

void mount_or_throw(const char* source, const char* target, const char* type, unsigned long flags,
                    const char* data, const char* what) {
  if (mount(source, target, type, flags, data) != 0)
    throw system_problem(std::string("cannot mount a node's ") + what);
}

/// /dev/shm serves as scaffold: what is bound from there stays when the scaffold goes.
void bind_from_scaffold(const Addresses& addresses) {
  mount_or_throw("tutti-lab", "/dev/shm", "tmpfs", 0, "mode=0755", "scaffold");
  const int file = open("/dev/shm/hosts", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0) throw system_problem("cannot write a node's /etc/hosts");
  std::string hosts = "127.0.0.1 localhost\n";
  for (int port = 0; port < addresses.ports; ++port)
    hosts += Addresses::address(port) + " " + Addresses::name(port) + "\n";
  if (write(file, hosts.data(), hosts.size()) < 0)
    throw system_problem("cannot write a node's /etc/hosts");
  close(file);
  mount_or_throw("/dev/shm/hosts", "/etc/hosts", nullptr, MS_BIND, nullptr, "/etc/hosts");
  // The network devices of /sys are those of the namespace that it was mounted in; the rest of /sys
  // stays.
  if (mkdir("/dev/shm/sys", 0755) == 0 &&
      mount("sysfs", "/dev/shm/sys", "sysfs", 0, nullptr) == 0) {
    for (const char* folder : {"class/net", "devices/virtual/net"}) {
      mount_or_throw((std::string("/dev/shm/sys/") + folder).c_str(),
                     (std::string("/sys/") + folder).c_str(), nullptr, MS_BIND, nullptr, "/sys");
    }
  }
  if (umount2("/dev/shm", MNT_DETACH) != 0)
    throw system_problem("cannot take a node's scaffold down");
}

void make_mounts(const Addresses& addresses) {
  mount_or_throw(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr, "file system");
  mount_or_throw("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr, "/proc");
  bind_from_scaffold(addresses);
  mount_or_throw("tutti-lab", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777", "/dev/shm");
}

int listen_for_agents() {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, kAgentAddress.data(), kAgentAddress.size());
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kAgentAddress.size());
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    throw system_problem("cannot listen in a node");
  }
  return listener;
}

// By number: the C library has a name for it since glibc 2.34 only.
void close_from(int first) { syscall(SYS_close_range, first, ~0U, 0); }

// ---- the node's init
// -------------------------------------------------------------------------------

/// A command that runs, and the connection of who asked for it.
struct Child {
  pid_t pid;
  int client;
};

[[noreturn]] void become(const Request& request, const std::vector<int>& descriptors) {
  setsid();
  for (int i = 0; i < 3; ++i) dup2(descriptors[static_cast<std::size_t>(i)], i);
  close_from(3);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  std::vector<char*> words, variables;
  for (const std::string& word : request.words) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : request.variables)
    variables.push_back(const_cast<char*>(variable.c_str()));
  words.push_back(nullptr);
  variables.push_back(nullptr);
  clearenv();
  for (const std::string& variable : request.variables) putenv(const_cast<char*>(variable.c_str()));
  if (chdir(request.folder.c_str()) != 0) {
    std::fprintf(stderr, "tutti lab: no folder '%s' on the node\n", request.folder.c_str());
    _exit(kNotStarted);
  }
  execvpe(words[0], words.data(), variables.data());
  std::fprintf(stderr, "tutti lab: cannot start '%s': %s\n", words[0], std::strerror(errno));
  _exit(kNotStarted);
}

class Init {
 public:
  explicit Init(int socket) : socket_(socket) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, nullptr);
    ended_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ended_ < 0) throw system_problem("cannot watch a node's processes");
  }

  /// Serves until the switch goes away.
  void serve() {
    for (;;) {
      std::vector<pollfd> watched{{socket_, POLLIN, 0}, {ended_, POLLIN, 0}};
      for (const Child& child : children_) watched.push_back({child.client, POLLIN, 0});
      if (poll(watched.data(), watched.size(), -1) < 0) continue;
      for (std::size_t i = 2; i < watched.size(); ++i) {
        if (watched[i].revents != 0) hear(watched[i].fd);
      }
      if (watched[1].revents != 0) reap();
      if (watched[0].revents != 0 && !accept_client()) return;
    }
  }

 private:
  bool accept_client() {
    std::string word;
    std::vector<int> connection;
    if (!receive_with(socket_, 16, &word, &connection)) return false;
    if (word == "clear") kill(-1, SIGKILL);  // everybody on this node but its init
    for (int client : connection) start(client);
    return true;
  }

  void start(int client) {
    const timeval limit{5, 0};  // a client that stops in the middle must not stop the node
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::vector<int> descriptors;
    try {
      const Request request = receive_request(client, &descriptors);
      const pid_t pid = fork();
      if (pid == 0) become(request, descriptors);
      if (pid > 0) {
        children_.push_back({pid, client});
      } else {
        close(client);
      }
    } catch (const Problem&) {
      close(client);
    }
    for (int descriptor : descriptors) close(descriptor);
  }

  static Request receive_request(int client, std::vector<int>* descriptors) {
    std::string bytes, part;
    std::size_t wanted = sizeof(std::uint32_t);
    while (bytes.size() < wanted) {
      if (!receive_with(client, wanted - bytes.size(), &part, descriptors))
        throw Problem("a request that was cut off");
      bytes += part;
      if (bytes.size() == sizeof(std::uint32_t)) {
        std::uint32_t size;
        std::memcpy(&size, bytes.data(), sizeof size);
        if (size > kMostRequestBytes) throw Problem("a request that is too long");
        wanted += size;
      }
    }
    if (descriptors->size() != 3) throw Problem("a request without its descriptors");
    return decode(std::string_view(bytes).substr(sizeof(std::uint32_t)));
  }

  /// Signals for a command, or the end of who asked for it.
  void hear(int client) {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      if (children_[i].client != client) continue;
      unsigned char numbers[16];
      const ssize_t count = recv(client, numbers, sizeof numbers, MSG_DONTWAIT);
      for (ssize_t at = 0; at < count; ++at) kill(children_[i].pid, numbers[at]);
      if (count > 0 || (count < 0 && errno == EAGAIN)) return;
      if (kill(-children_[i].pid, SIGTERM) != 0)
        kill(children_[i].pid, SIGTERM);  // not yet in its session
      close(client);
      children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }

  /// Collects what has ended; as init of its namespace also processes that lost their parents.
  void reap() {
    signalfd_siginfo ignored;
    while (read(ended_, &ignored, sizeof ignored) > 0) {
    }
    int state;
    for (pid_t pid; (pid = waitpid(-1, &state, WNOHANG)) > 0;) {
      for (std::size_t i = 0; i < children_.size(); ++i) {
        if (children_[i].pid != pid) continue;
        const std::int32_t status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
        send(children_[i].client, &status, sizeof status, MSG_NOSIGNAL);
        close(children_[i].client);
        children_.erase(children_.begin() + static_cast<std::ptrdiff_t>(i));
        break;
      }
    }
  }

  int socket_;
  int ended_;
  std::vector<Child> children_;
};

/// Lets what runs on the nodes share the processors in short slices: ranks of several nodes on one
/// core, each polling for messages, would otherwise keep each other waiting for milliseconds. A
/// kernel before 6.12 keeps its own.
void shorten_slices() {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime = kSliceNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/// Gives each node process numbers of its own: programs name files by them in folders that the
/// nodes share.
void separate_process_numbers(const Addresses& addresses, int port) {
  const int file = open("/proc/sys/kernel/pid_max", O_RDONLY | O_CLOEXEC);
  char text[32] = {};
  const bool known = file >= 0 && read(file, text, sizeof text - 1) > 0;
  if (file >= 0) close(file);
  const int last = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
  if (known && last >= 0)
    dprintf(last, "%ld", std::strtol(text, nullptr, 10) / addresses.ports * port + 300);
  if (last >= 0) close(last);
}

[[noreturn]] void live(const Addresses& addresses, int port, int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, ("tutti-" + Addresses::name(port)).c_str());
  try {
    if (dup3(socket, 3, O_CLOEXEC) < 0 && socket != 3) throw system_problem("cannot start a node");
    close_from(4);  // the other nodes' sockets, whose ends must be seen
    const std::string name = Addresses::name(port);
    if (sethostname(name.c_str(), name.size()) != 0) throw system_problem("cannot name a node");
    make_mounts(addresses);
    separate_process_numbers(addresses, port);
    shorten_slices();
    const int tap = make_network(addresses, port);
    const int agents = listen_for_agents();
    if (!send_with(3, "up", {tap, agents})) _exit(1);
    close(tap);
    close(agents);
    Init(3).serve();
    _exit(0);
  } catch (const Problem& problem) {
    send_with(3, std::string("!") + problem.what(), {});
    _exit(1);
  }
}

}  // namespace

NodeHandle start_node(const Addresses& addresses, int port) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    throw system_problem("cannot start a node");
  const auto pid = static_cast<pid_t>(
      syscall(SYS_clone, kNamespaces | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) live(addresses, port, sockets[1]);
  close(sockets[1]);
  if (pid < 0) {
    throw system_problem(
        "cannot make namespaces (needs root with CAP_SYS_ADMIN and CAP_NET_ADMIN)");
  }
  NodeHandle node{pid, sockets[0], -1, -1};
  std::string answer;
  std::vector<int> descriptors;
  if (!receive_with(node.socket, 4096, &answer, &descriptors))
    throw Problem("node " + Addresses::name(port) + " died");
  if (answer.starts_with("!")) throw Problem(answer.substr(1));
  if (descriptors.size() != 2) throw Problem("node " + Addresses::name(port) + " gave no network");
  node.tap = descriptors[0];
  node.agents = descriptors[1];
  return node;
}

}  // namespace tutti::lab
