// What other libraries of tutti's, preloaded beside this plugin, offer to it.
#pragma once

#include <dlfcn.h>

#include <cstring>

namespace tutti::mpi {

/// The function that a preloaded library exports under `name`, or nullptr where none is preloaded
/// that does. Thread-safe.
template <class Function>
Function* find_exported(const char* name) noexcept {
  void* const found = dlsym(RTLD_DEFAULT, name);
  Function* function = nullptr;
  std::memcpy(&function, &found, sizeof function);
  return function;
}

}  // namespace tutti::mpi
