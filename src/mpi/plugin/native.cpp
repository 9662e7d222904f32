#include "mpi/plugin/native.hpp"

#if defined(TUTTI_ABI_OPENMPI)
struct tutti_openmpi_symbols tutti_openmpi_symbols;
#endif

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
#if defined(TUTTI_ABI_OPENMPI)
  // An object that this version lacks stays null and equals no handle.
#define TUTTI_FIND(symbol) tutti_openmpi_symbols.symbol = preload.find(#symbol);
  TUTTI_OPENMPI_SYMBOLS(TUTTI_FIND)
#undef TUTTI_FIND
#endif
  return missing;
}

}  // namespace tutti::mpi
