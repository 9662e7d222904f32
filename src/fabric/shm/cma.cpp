#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fabric/shm/shm.hpp"

namespace tutti::shm {
namespace {

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                             unsigned long);

Status cma_transfer(Transfer transfer, std::int32_t pid, void* local, void* remote,
                    std::size_t bytes) noexcept {
  auto* here = static_cast<char*>(local);
  auto* there = static_cast<char*>(remote);
  while (bytes != 0) {
    iovec local_vector{here, bytes};
    iovec remote_vector{there, bytes};
    const ssize_t moved = transfer(pid, &local_vector, 1, &remote_vector, 1, 0);
    if (moved < 0) {
      if (errno == EINTR) continue;
      if (errno == ESRCH) return Status::error(Code::peer_lost, "the process has ended");
      if (errno == EPERM) return Status::error(Code::not_permitted, "cross-memory attach refused");
      if (errno == ENOMEM) return Status::error(Code::no_memory, "cross-memory attach");
      return Status::error(Code::invalid_argument, "a buffer is not readable or writable");
    }
    if (moved == 0) return Status::error(Code::invalid_argument, "a buffer ends too early");
    here += moved;
    there += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return Status::success();
}

}  // namespace

Status cma_read(std::int32_t pid, const void* remote, void* local, std::size_t bytes) noexcept {
  return cma_transfer(&process_vm_readv, pid, local, const_cast<void*>(remote), bytes);
}

Status cma_write(std::int32_t pid, void* remote, const void* local, std::size_t bytes) noexcept {
  return cma_transfer(&process_vm_writev, pid, const_cast<void*>(local), remote, bytes);
}

std::uint64_t process_start_time(std::int32_t pid) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  char text[1024];
  const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[length] = '\0';
  // The command name (field 2) may contain anything, so fields are counted from its closing
  // bracket.
  const char* field = std::strrchr(text, ')');
  for (int number = 2; field != nullptr && number < 22; ++number) {
    field = std::strchr(field + 1, ' ');
  }
  return field == nullptr ? 0 : std::strtoull(field + 1, nullptr, 10);
}

}  // namespace tutti::shm
