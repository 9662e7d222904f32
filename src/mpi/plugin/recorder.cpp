#include "mpi/plugin/recorder.hpp"

#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "mpi/keep/keep.hpp"
#include "mpi/plugin/record.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/record/roll.hpp"

namespace tutti::mpi {
namespace {

// Taken where the program has left them as they are, and only with a folder. After SIGUSR2, which
// batch systems send some time before they end a job, the program goes on.
constexpr int kSignals[] = {SIGUSR2, SIGTERM, SIGINT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr std::uint64_t kSecond = 1'000'000'000;

/// Written by begin_recorder() and end_recorder(), constant in between.
struct Files {
  Records node;
  char folder[PATH_MAX] = "";  // "": nothing is written
  char path[kRecorderPath], part[kRecorderPart];
  bool taken[std::size(kSignals)] = {};
};
Files recorder;

tutti_record& own() noexcept { return record_of(recorder.node, recorder.node.own); }

// ---- what the times and addresses of a rank mean

std::uint64_t text_hash(const char* path) noexcept {
  char text[256];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t bytes = read(file, text, sizeof text);
  close(file);
  return hash_of(text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
}

/// Equal where the kernel is the same, and the offset that it gives a container's clocks.
std::uint64_t clock_number() noexcept {
  struct stat space;
  const std::uint64_t number = stat("/proc/self/ns/time", &space) == 0 ? space.st_ino : 0;
  return text_hash("/proc/sys/kernel/random/boot_id") ^ mix(number);
}

int find_program(dl_phdr_info* info, std::size_t, void* out) noexcept {
  auto& origin = *static_cast<tutti_origin*>(out);
  std::uint64_t begin = UINT64_MAX, end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const std::uint64_t first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    begin = std::min(begin, first);
    end = std::max(end, first + info->dlpi_phdr[i].p_memsz);
  }
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  origin.program_begin = begin / page * page;
  origin.program_end = end;
  return 1;  // the first is the executable
}

void note_origin(tutti_origin* origin) noexcept {
  origin->clock = clock_number();
  origin->monotonic_ns = tutti_clock(CLOCK_MONOTONIC);
  origin->realtime_ns = tutti_clock(CLOCK_REALTIME);
  gethostname(origin->node, sizeof origin->node - 1);
  dl_iterate_phdr(&find_program, origin);
}

// ---- where events go

void give_rings(tutti_record* record) noexcept {
  std::size_t at = TUTTI_RECORD_HEAD;
  for (tutti_lane& lane : record->lanes) {
    const bool first = &lane == record->lanes;
    const std::size_t events = first ? TUTTI_EVENTS_FIRST : TUTTI_EVENTS_OTHER;
    lane.mask = static_cast<std::uint16_t>(events - 1);
    lane.exact = state.settings.recorder == tutti::Recorder::exact || state.report;
    lane.events = static_cast<std::uint32_t>(at - offsetof(tutti_record, lanes) -
                                             sizeof(tutti_lane) * (&lane - record->lanes));
    at += events * sizeof(tutti_event);
  }
#ifdef MADV_POPULATE_WRITE
  // At once, instead of by a fault every 64 calls; of the thread that makes most calls.
  auto* const ring = reinterpret_cast<std::byte*>(record) + TUTTI_RECORD_HEAD;
  madvise(ring, TUTTI_EVENTS_FIRST * sizeof(tutti_event), MADV_POPULATE_WRITE);
#endif
}

// ---- files

/// `last`: the rank ends; what it may call from now on is not worth another file.
void write_own(bool last) noexcept {
  const std::uint64_t calls = last ? TUTTI_WRITTEN_AT_END : tutti_calls(&own());
  if (write_recorder_file(own(), "/proc/self/maps", recorder.part, recorder.path))
    TUTTI_SET(own().origin.written_calls, calls);
}

void on_signal(int number) noexcept {
  const int error = errno;
  if (getpid() == state.process && recorder.folder[0] != '\0') write_own(number != SIGUSR2);
  errno = error;
  if (number != SIGUSR2) raise(number);  // by default, once this has returned
}

void take_signals() noexcept {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action = {}, before;
    if (sigaction(kSignals[i], nullptr, &before) != 0 || (before.sa_flags & SA_SIGINFO) != 0 ||
        before.sa_handler != SIG_DFL)
      continue;
    action.sa_handler = &on_signal;
    sigfillset(&action.sa_mask);
    action.sa_flags = SA_ONSTACK | (kSignals[i] == SIGUSR2 ? SA_RESTART : SA_RESETHAND);
    recorder.taken[i] = sigaction(kSignals[i], &action, nullptr) == 0;
  }
}

void give_signals_back() noexcept {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction now;
    const bool own_still = recorder.taken[i] && sigaction(kSignals[i], nullptr, &now) == 0 &&
                           (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == &on_signal;
    if (own_still) signal(kSignals[i], SIG_DFL);
    recorder.taken[i] = false;
  }
}

/// The folder that the files go to; it is made where only its last part is missing.
void open_folder() noexcept {
  const char* const wanted = state.settings.recorder_dir.c_str();
  if (wanted[0] == '\0') return;
  const bool there = mkdir(wanted, 0777) == 0 || errno == EEXIST;
  struct stat info;
  const int error = !there ? errno
                    : realpath(wanted, recorder.folder) == nullptr || access(wanted, W_OK) != 0 ||
                            stat(wanted, &info) != 0
                        ? errno
                    : S_ISDIR(info.st_mode) ? 0
                                            : ENOTDIR;
  if (error == 0) return;
  recorder.folder[0] = '\0';
  log(LogLevel::warn, "no recorder is written: TUTTI_RECORDER_DIR=%s: %s", wanted,
      std::strerror(error));
}

/// Of several that want to write a record at the same time one does.
bool is_first_to_write(tutti_record& record) noexcept {
  const std::uint64_t now = tutti_clock(CLOCK_MONOTONIC);
  std::uint64_t before = __atomic_load_n(&record.origin.begun_ns, __ATOMIC_RELAXED);
  return (before == 0 || now > before + kSecond) &&
         __atomic_compare_exchange_n(&record.origin.begun_ns, &before, now, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED);
}

void write_one(tutti_record& record) noexcept {
  char path[kRecorderPath], part[kRecorderPart], maps[64];
  const std::uint64_t calls = tutti_calls(&record);
  name_recorder_file(record, recorder.folder, path, part);
  std::snprintf(maps, sizeof maps, "/proc/%d/maps",
                roll::process_here(record.processes, record.pid));
  if (write_recorder_file(record, maps, part, path)) TUTTI_SET(record.origin.written_calls, calls);
}

/// What others are writing: who goes on may end the job, and them with it. They may have ended.
void wait_for_others(const tutti_record& record) noexcept {
  const std::uint64_t end = tutti_clock(CLOCK_MONOTONIC) + kSecond;
  const std::uint64_t begun = __atomic_load_n(&record.origin.begun_ns, __ATOMIC_RELAXED);
  while (__atomic_load_n(&record.origin.written_ns, __ATOMIC_ACQUIRE) < begun &&
         tutti_clock(CLOCK_MONOTONIC) < end)
    usleep(1000);
}

}  // namespace

void begin_recorder(const Records& node, const std::string& programs) noexcept {
  recorder.node = node;
  note_origin(&own().origin);
  if (state.settings.recorder == tutti::Recorder::off) return;
  constexpr std::size_t kEvents =
      TUTTI_EVENTS_FIRST + (TUTTI_RECORD_LANES - 1) * TUTTI_EVENTS_OTHER;
  if (!node.whole || node.head != TUTTI_RECORD_HEAD ||
      node.bytes < node.head + kEvents * sizeof(tutti_event)) {
    log(LogLevel::warn, "the last calls are not recorded: no shared memory is left on this node");
    return;
  }
  give_rings(&own());
  open_folder();
  if (recorder.folder[0] == '\0') return;
  name_recorder_file(own(), recorder.folder, recorder.path, recorder.part);
  take_signals();
  if (node.own == 0) start_keeper(programs + "/tutti-keep", node.descriptor, recorder.folder);
}

void end_recorder() noexcept {
  if (recorder.folder[0] == '\0') return;
  give_signals_back();
  write_own(true);
  recorder.folder[0] = '\0';
}

void write_recorders() noexcept {
  if (recorder.folder[0] == '\0') return;
  for (std::int32_t local = 0; local < recorder.node.ranks; ++local) {
    tutti_record& record = record_of(recorder.node, local);
    if (__atomic_load_n(&record.magic, __ATOMIC_ACQUIRE) != TUTTI_RECORD_MAGIC) continue;
    if (!is_first_to_write(record)) continue;
    const std::uint64_t begun = __atomic_load_n(&record.origin.begun_ns, __ATOMIC_RELAXED);
    write_one(record);
    __atomic_store_n(&record.origin.written_ns, begun, __ATOMIC_RELEASE);
  }
  for (std::int32_t local = 0; local < recorder.node.ranks; ++local)
    wait_for_others(record_of(recorder.node, local));
}

}  // namespace tutti::mpi
