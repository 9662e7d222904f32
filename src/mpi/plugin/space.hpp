// Memory spaces. A buffer may lie in the memory of a GPU, which the processor cannot read; then it
// is copied to and from the processor's memory where the program gives it to tutti and gets it
// back. Which ranks do so is nobody else's affair.
//
// A GPU's library is asked only where the program has loaded one. Whether it has costs two loads
// and a branch for each call: the loader appends what it loads to a list, and the last object of it
// is watched.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstring>

#include "base/status.hpp"

namespace tutti::mpi {

/// Memory that must be copied. Thread-safe.
class Space {
 public:
  /// `rows` times `bytes`, the beginnings so far apart in either place. One of the two is this
  /// memory, the other the processor's. On threads of the program only; when it returns all is
  /// there, for everybody.
  struct Block {
    void* to;
    std::ptrdiff_t to_stride;
    const void* from;
    std::ptrdiff_t from_stride;
    std::size_t bytes, rows;

    bool consecutive() const noexcept {
      const auto stride = static_cast<std::ptrdiff_t>(bytes);
      return rows == 1 || (to_stride == stride && from_stride == stride);
    }
    /// One row of it.
    Block row(std::size_t i) const noexcept {
      const auto n = static_cast<std::ptrdiff_t>(i);
      return {static_cast<char*>(to) + n * to_stride,
              0,
              static_cast<const char*>(from) + n * from_stride,
              0,
              bytes,
              1};
    }
  };
  virtual Status copy(const Block& block) const noexcept = 0;

 protected:
  ~Space() = default;
};

/// Memory that the processor may read and write too, but the kernel (cross-memory attach) and
/// network cards perhaps not: small blocks are copied by the processor, which costs less.
class ManagedSpace final : public Space {
 public:
  explicit ManagedSpace(const Space& driver) noexcept : driver_(driver) {}
  Status copy(const Block& block) const noexcept override;

 private:
  const Space& driver_;  // copies large ones
};

/// The object that was loaded last; one that has a successor for ever once a GPU's library is
/// there, one that never has before MPI_Init and after MPI_Finalize. Written under a lock by
/// whoever finds that there is a newer one, read by all; what it points to lives as long as it is
/// watched.
extern std::atomic<const link_map*> newest_object;

/// False: all memory is the processor's. True: ask find_space.
inline bool may_have_spaces() noexcept {
  const link_map* const newest = newest_object.load(std::memory_order_acquire);
  return __atomic_load_n(&newest->l_next, __ATOMIC_RELAXED) != nullptr;
}

/// Where `address` lies; nullptr: the processor reads it. Thread-safe.
const Space* find_space(const void* address) noexcept;

/// Whether this process may ever have a GPU's memory: the machine has one, or a library for one is
/// loaded.
bool may_get_spaces() noexcept;

/// Inside MPI_Init and MPI_Finalize.
void watch_spaces() noexcept;
void forget_spaces() noexcept;

/// A GPU's library.
struct Driver {
  const char* file;  // the library's name up to its version
  /// Finds its functions; false when it lacks one. Once.
  bool (*load)(void* library) noexcept;
  const Space* (*find)(const void* address) noexcept;
};
extern const Driver cuda_driver, hip_driver, level_zero_driver;

/// For Driver::load.
template <class Function>
bool find_function(void* library, const char* name, Function* out) noexcept {
  void* const found = dlsym(library, name);
  std::memcpy(out, &found, sizeof found);
  return found != nullptr;
}

}  // namespace tutti::mpi
