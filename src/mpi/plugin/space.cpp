#include "mpi/plugin/space.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

namespace tutti::mpi {
namespace {

link_map never{};   // no object is newer
link_map always{};  // watch_spaces() makes it its own successor

constexpr const Driver* kDrivers[] = {&cuda_driver, &hip_driver, &level_zero_driver};
constexpr int kMost = static_cast<int>(std::size(kDrivers));

std::timed_mutex mutex;
// The last object that was looked at, and what keeps it loaded. Written under `mutex`.
std::atomic<const link_map*> watched{&never};
void* pinned = nullptr;
void* outgoing = nullptr;  // what was pinned before
int failures = 0;          // in a row, to have it; guarded by `mutex`
// Libraries that are there. An entry is written under `mutex` before `driver_count` says so.
const Driver* drivers[kMost];
void* libraries[kMost];
std::atomic<int> driver_count{0};

struct Range {
  const char* begin = nullptr;
  const char* end = nullptr;
  bool has(const void* address) const noexcept {
    return static_cast<const char*>(address) >= begin && static_cast<const char*>(address) < end;
  }
};

// Memory that is the processor's for ever, so that no library need be asked: the program's own
// variables, the heap below its break, and this thread's stack. Written before `driver_count` is.
Range variables;
const char* heap_begin = nullptr;
thread_local Range stack;

int read_program(dl_phdr_info* info, std::size_t, void* out) {
  auto* range = static_cast<Range*>(out);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) == 0) continue;
    range->begin = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    range->end = range->begin + header.p_memsz;
  }
  return 1;  // the program itself comes first
}

const char* find_heap() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return nullptr;
  char line[512];
  const char* begin = nullptr;
  while (begin == nullptr && std::fgets(line, sizeof line, maps) != nullptr) {
    std::uintptr_t first = 0;
    if (std::strstr(line, "[heap]") != nullptr && std::sscanf(line, "%lx-", &first) == 1)
      begin = reinterpret_cast<const char*>(first);
  }
  std::fclose(maps);
  return begin;
}

void find_stack() noexcept {
  pthread_attr_t attributes;
  stack.begin = stack.end = reinterpret_cast<const char*>(&stack);  // asked for, and unknown
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* begin = nullptr;
  std::size_t bytes = 0;
  if (pthread_attr_getstack(&attributes, &begin, &bytes) == 0)
    stack = {static_cast<const char*>(begin), static_cast<const char*>(begin) + bytes};
  pthread_attr_destroy(&attributes);
}

bool is_ordinary(const void* address) noexcept {
  if (heap_begin != nullptr && static_cast<const char*>(address) >= heap_begin && address < sbrk(0))
    return true;
  if (variables.has(address)) return true;
  if (stack.begin == nullptr) find_stack();
  // Only what is in use of it: below, and where the program made its own stack, lies other memory.
  const void* const here = __builtin_frame_address(0);
  return stack.has(here) && address >= here && address < stack.end;
}

struct Name {
  char text[PATH_MAX];
  void set(const char* from) noexcept { std::snprintf(text, sizeof text, "%s", from); }
};
// What the list of objects held when it was read. Guarded by `mutex`.
struct {
  Name last;
  Name of_driver[kMost];  // empty where it is not loaded
} seen;

int read_name(dl_phdr_info* info, std::size_t, void*) {
  seen.last.set(info->dlpi_name);
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const char* const file = slash != nullptr ? slash + 1 : info->dlpi_name;
  for (int i = 0; i < kMost; ++i) {
    if (std::strncmp(file, kDrivers[i]->file, std::strlen(kDrivers[i]->file)) == 0)
      seen.of_driver[i].set(info->dlpi_name);
  }
  return 0;
}

// Reads the list, and keeps its last object from being unloaded: nullptr where it cannot be had.
const link_map* pin_last() noexcept {
  for (int attempt = 0; attempt < 4; ++attempt) {
    seen = {};
    dl_iterate_phdr(&read_name, nullptr);
    void* const object = dlopen(seen.last.text, RTLD_LAZY | RTLD_NOLOAD);
    link_map* map = nullptr;
    if (object == nullptr || dlinfo(object, RTLD_DI_LINKMAP, &map) != 0) continue;
    // Readers may still look at the one that is watched now, so it goes with the next.
    if (void* const before = std::exchange(outgoing, std::exchange(pinned, object)))
      dlclose(before);
    return map;
  }
  return nullptr;  // somebody loads and unloads at the same time, or it cannot be had by its name
}

void add_driver(const Driver& driver, const char* name) noexcept {
  const int count = driver_count.load(std::memory_order_relaxed);
  for (int i = 0; i < count; ++i) {
    if (drivers[i] == &driver) return;
  }
  void* const library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return;
  if (!driver.load(library)) {
    dlclose(library);
    return;
  }
  if (count == 0) {
    dl_iterate_phdr(&read_program, &variables);
    heap_begin = find_heap();
  }
  drivers[count] = &driver;
  libraries[count] = library;
  driver_count.store(count + 1, std::memory_order_release);
}

// After objects were loaded. What is loaded behind the one that is watched from now on will be seen
// by the next call.
void look_again() noexcept {
  // Another thread may load an object whose constructor waits for this lock in a call of MPI.
  const std::unique_lock lock(mutex, std::chrono::milliseconds(100));
  if (!lock.owns_lock()) return;
  if (watched.load(std::memory_order_relaxed)->l_next == nullptr) return;
  // Whoever sees the new object watched relies on the drivers: these first.
  const link_map* const last = pin_last();
  for (int i = 0; i < kMost; ++i) {
    if (seen.of_driver[i].text[0] != '\0') add_driver(*kDrivers[i], seen.of_driver[i].text);
  }
  if (last == nullptr) {
    // The next call looks again; but not for ever, for a look takes as long as many calls.
    constexpr int kMostFailures = 100;
    if (++failures == kMostFailures && driver_count.load(std::memory_order_relaxed) == 0)
      newest_object.store(&never, std::memory_order_release);
    return;
  }
  failures = 0;
  watched.store(last, std::memory_order_release);
  const bool some = driver_count.load(std::memory_order_relaxed) != 0;
  newest_object.store(some ? &always : watched.load(std::memory_order_relaxed),
                      std::memory_order_release);
}

// Up to here the processor copies managed memory.
constexpr std::size_t kByProcessor = std::size_t{64} << 10;

}  // namespace

std::atomic<const link_map*> newest_object{&never};

Status ManagedSpace::copy(const Block& block) const noexcept {
  if (block.bytes * block.rows > kByProcessor) return driver_.copy(block);
  for (std::size_t i = 0; i < block.rows; ++i) {
    const Block row = block.row(i);
    std::memcpy(row.to, row.from, row.bytes);
  }
  return Status::success();
}

const Space* find_space(const void* address) noexcept {
  const link_map* const last = watched.load(std::memory_order_acquire);
  if (__atomic_load_n(&last->l_next, __ATOMIC_RELAXED) != nullptr) [[unlikely]]
    look_again();
  const int count = driver_count.load(std::memory_order_acquire);
  if (count == 0 || is_ordinary(address)) return nullptr;
  for (int i = 0; i < count; ++i) {
    if (const Space* const found = drivers[i]->find(address)) return found;
  }
  return nullptr;
}

bool may_get_spaces() noexcept {
  // Of NVIDIA's driver, AMD's, any that renders (Intel's too), and Windows'.
  for (const char* const file : {"/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128", "/dev/dxg"}) {
    if (access(file, F_OK) == 0) return true;
  }
  const std::lock_guard lock(mutex);
  seen = {};
  dl_iterate_phdr(&read_name, nullptr);
  return std::ranges::any_of(seen.of_driver, [](const Name& name) { return name.text[0] != '\0'; });
}

void watch_spaces() noexcept {
  always.l_next = &always;
  watched.store(&always, std::memory_order_relaxed);
  newest_object.store(&always, std::memory_order_relaxed);  // until a look has succeeded
  look_again();
}

void forget_spaces() noexcept {
  const std::lock_guard lock(mutex);
  newest_object.store(&never, std::memory_order_release);
  watched.store(&never, std::memory_order_release);
  for (void** object : {&pinned, &outgoing}) {
    if (void* const last = std::exchange(*object, nullptr)) dlclose(last);
  }
  for (int i = driver_count.exchange(0, std::memory_order_acq_rel); i-- > 0;) dlclose(libraries[i]);
}

}  // namespace tutti::mpi
