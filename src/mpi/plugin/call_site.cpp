#include "mpi/plugin/call_site.hpp"

#include <dlfcn.h>
#include <unwind.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace tutti::mpi {
namespace {

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// Looking an address up takes longer than the walk. Programs have few places that wait. Guarded by
// `mutex`.
struct Known {
  std::uintptr_t address;
  bool the_programs;
};
std::vector<Known> known;
std::mutex mutex;

bool look_up(std::uintptr_t address) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr)
    return true;
  const char* const name = file_name(info.dli_fname);
  return std::strncmp(name, "libtutti-", 9) != 0 && std::strncmp(name, "libmpi", 6) != 0;
}

bool is_the_programs(std::uintptr_t address) {
  std::lock_guard lock(mutex);
  for (const Known& place : known) {
    if (place.address == address) return place.the_programs;
  }
  known.push_back({address, look_up(address)});
  return known.back().the_programs;
}

_Unwind_Reason_Code look(_Unwind_Context* frame, void* found) {
  const auto address = static_cast<std::uintptr_t>(_Unwind_GetIP(frame));
  if (!is_the_programs(address)) return _URC_NO_REASON;
  *static_cast<std::uintptr_t*>(found) = address;
  return _URC_END_OF_STACK;
}

}  // namespace

const void* call_site() noexcept {
  std::uintptr_t found = 0;
  try {
    _Unwind_Backtrace(&look, &found);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return reinterpret_cast<const void*>(found);
}

std::string describe_site(const void* site) {
  Dl_info info;
  // The instruction before the one that is returned to belongs to the call.
  const char* const place = static_cast<const char*>(site) - 1;
  if (site == nullptr || dladdr(place, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  char text[400];
  const auto offset = static_cast<std::size_t>(place - static_cast<const char*>(info.dli_fbase));
  std::snprintf(text, sizeof text, "%.100s+%#zx%s%.200s%s", file_name(info.dli_fname), offset,
                info.dli_sname != nullptr ? " (" : "",
                info.dli_sname != nullptr ? info.dli_sname : "",
                info.dli_sname != nullptr ? ")" : "");
  return text;
}

}  // namespace tutti::mpi
