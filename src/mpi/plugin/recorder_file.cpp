// Writes a recorder to a file with nothing but calls of the system, since a signal may have come in
// the midst of anything.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "mpi/plugin/recorder.hpp"
#include "mpi/record/events.hpp"

namespace tutti::mpi {
namespace {

std::atomic<bool> busy{false};  // with the buffers
alignas(tutti_record) std::byte head[TUTTI_RECORD_HEAD];
tutti_event events[64];
char text[4096];

bool write_all(int file, const void* data, std::size_t bytes) noexcept {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes != 0) {
    const ssize_t done = write(file, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}

/// By the head that was written: the lane may have gone on.
bool write_lane(int file, const tutti_record& record, int index) noexcept {
  const std::uint32_t used =
      roll::used_events(reinterpret_cast<const tutti_record*>(head)->lanes[index]);
  for (std::uint32_t first = 0; first < used; first += std::size(events)) {
    std::uint32_t count = 0;
    for (; count < std::size(events) && first + count < used; ++count)
      roll::copy_event(record.lanes[index], first + count, &events[count]);
    if (!write_all(file, events, count * sizeof *events)) return false;
  }
  return true;
}

/// What cannot be read is left out: the process may have ended.
bool write_maps(int file, const char* path) noexcept {
  const int maps = open(path, O_RDONLY | O_CLOEXEC);
  if (maps < 0) return true;
  ssize_t bytes = 0;
  bool written = true;
  while (written && (bytes = read(maps, text, sizeof text)) > 0)
    written = write_all(file, text, static_cast<std::size_t>(bytes));
  close(maps);
  return written;
}

bool write_parts(int file, const tutti_record& record, const char* maps) noexcept {
  const roll::FileHead file_head;
  std::memcpy(head, &record, sizeof head);
  bool written =
      write_all(file, &file_head, sizeof file_head) && write_all(file, head, sizeof head);
  for (int lane = 0; written && lane < TUTTI_RECORD_LANES; ++lane)
    written = write_lane(file, record, lane);
  return written && write_maps(file, maps);
}

}  // namespace

void name_recorder_file(const tutti_record& record, const char* folder, char (&path)[kRecorderPath],
                        char (&part)[kRecorderPart]) noexcept {
  std::snprintf(path, sizeof path, "%s/tutti-%08llx-%d.calls", folder,
                static_cast<unsigned long long>(record.job >> 32), record.rank);
  std::snprintf(part, sizeof part, "%s.%d", path, getpid());
}

bool write_recorder_file(const tutti_record& record, const char* maps, const char* part,
                         const char* path) noexcept {
  if (busy.exchange(true, std::memory_order_acquire)) return false;
  const int file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool written = file >= 0 && write_parts(file, record, maps);
  if (file >= 0) written = close(file) == 0 && written;
  if (file >= 0) written = written && rename(part, path) == 0;
  if (file >= 0 && !written) unlink(part);
  busy.store(false, std::memory_order_release);
  return written;
}

}  // namespace tutti::mpi
