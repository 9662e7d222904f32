#include "mpi/plugin/native.hpp"

namespace tutti::mpi {

Native native;

namespace {

struct Entry {
  const char* name;
  void* place;
  bool optional;
};

}  // namespace

const char* load_native(const tutti_preload& preload) noexcept {
  static const Entry entries[] = {
#define TUTTI_ENTRY(function, optional) \
  {"PMPI_" #function, static_cast<void*>(&native.function), optional},
      TUTTI_NATIVE_FUNCTIONS(TUTTI_ENTRY)
#undef TUTTI_ENTRY
  };
  const char* missing = nullptr;
  for (const Entry& entry : entries) {
    void* function = preload.find(entry.name);
    if (function == nullptr && !entry.optional) missing = entry.name;
    __builtin_memcpy(entry.place, &function, sizeof function);
  }
  Abi::find_objects([&preload](const char* name) { return preload.find(name); });
  return missing;
}

}  // namespace tutti::mpi
