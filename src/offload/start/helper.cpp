#include "offload/start/helper.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace tutti::offload {
namespace {

/// The launcher waits until nobody holds its pipes any more.
void let_go_of_descriptors() noexcept {
  const int null = open("/dev/null", O_RDWR);
  for (int descriptor = 0; descriptor < kHelperDescriptor && null >= 0; ++descriptor)
    dup2(null, descriptor);
  fcntl(kHelperDescriptor, F_SETFD, FD_CLOEXEC);
  if (syscall(SYS_close_range, kHelperDescriptor + 1, ~0u, 0) == 0) return;
  const long most = sysconf(_SC_OPEN_MAX);
  for (int descriptor = kHelperDescriptor + 1; descriptor < most; ++descriptor) close(descriptor);
}

}  // namespace

int start_helper(const std::string& program, char* const* arguments, int descriptor,
                 char* const* environment) noexcept {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // The helper closes whatever else it has inherited. Where the descriptors are equal, dup2 only
  // clears close-on-exec.
  posix_spawn_file_actions_adddup2(&actions, descriptor, kHelperDescriptor);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments, environment);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  // The program does not find a child that it has not made.
  while (error == 0 && waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return error;
}

void begin_helper() noexcept {
  if (fork() != 0) _exit(0);
  let_go_of_descriptors();
  for (const int ignored : {SIGINT, SIGHUP, SIGPIPE}) signal(ignored, SIG_IGN);
}

}  // namespace tutti::offload
