#include "fabric/ofi/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <mutex>

namespace tutti::ofi {
namespace {

constexpr const char* kName = "libfabric.so.1";

/// The function in the version that the headers describe; else the library's own choice.
template <class Function>
bool load(void* handle, const char* name, const char* version, Function* out) {
  void* symbol = dlvsym(handle, name, version);
  if (symbol == nullptr) symbol = dlsym(handle, name);
  *out = reinterpret_cast<Function>(symbol);
  return symbol != nullptr;
}

bool load_all(void* handle, Library* library) {
  return load(handle, "fi_getinfo", "FABRIC_1.3", &library->getinfo) &&
         load(handle, "fi_freeinfo", "FABRIC_1.3", &library->freeinfo) &&
         load(handle, "fi_dupinfo", "FABRIC_1.3", &library->dupinfo) &&
         load(handle, "fi_fabric", "FABRIC_1.1", &library->fabric) &&
         load(handle, "fi_strerror", "FABRIC_1.0", &library->strerror) &&
         load(handle, "fi_version", "FABRIC_1.0", &library->version);
}

}  // namespace

Status open_library(const std::string& path, const Library** out, std::string* message) {
  static std::mutex mutex;
  static Library library;
  static bool loaded = false;
  const std::lock_guard lock(mutex);
  if (!loaded) {
    // A copy that is there already has this name, wherever its file is.
    void* handle = dlopen(kName, RTLD_NOW | RTLD_NOLOAD);
    const std::string& wanted = path.empty() ? kName : path;
    if (handle == nullptr) handle = dlopen(wanted.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = dlerror();
      *message = wanted + " cannot be opened (" + (why != nullptr ? why : "no reason given") +
                 "): install libfabric, or name the file with TUTTI_LIBFABRIC";
      return Status::error(Code::unsupported, "libfabric cannot be opened");
    }
    Library found;
    if (!load_all(handle, &found)) {
      *message = wanted + " lacks a function of libfabric 1.17";
      return Status::error(Code::unsupported, "not a libfabric");
    }
    library = found;
    loaded = true;
  }
  *out = &library;
  return Status::success();
}

std::string loaded_library() {
  void* const handle = dlopen(kName, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return {};
  const link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr;
  std::string path = known ? map->l_name : "";
  dlclose(handle);
  return path;
}

}  // namespace tutti::ofi
