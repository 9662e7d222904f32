#include "mpi/plugin/held.hpp"

#include <mutex>
#include <unordered_map>

#include "mpi/generated/function_index.h"

namespace tutti::mpi {
namespace {

/// Of one kind of handles. Thread-safe.
class Held {
 public:
  void hold(std::uintptr_t handle) {
    const std::lock_guard lock(mutex_);
    ++uses_[handle].count;
  }
  /// True when the program has freed it, and this was the last use.
  bool drop(std::uintptr_t handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = uses_.find(handle);
    if (--found->second.count != 0) return false;
    const bool freed = found->second.freed;
    uses_.erase(found);
    return freed;
  }
  /// The program frees it: true when it is in use, and freed later.
  bool defer(std::uintptr_t handle) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = uses_.find(handle);
    if (found == uses_.end()) return false;
    found->second.freed = true;
    return true;
  }

 private:
  struct Use {
    int count = 0;
    bool freed = false;
  };
  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, Use> uses_;  // guarded by mutex_
};

Held ops, types;

int handle_Op_free(MPI_Op* op) {
  if (op == nullptr || !ops.defer(key(*op))) return native.Op_free(op);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

int handle_Type_free(MPI_Datatype* type) {
  if (type == nullptr || !types.defer(key(*type))) return native.Type_free(type);
  *type = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

}  // namespace

void hold_op(MPI_Op op) { ops.hold(key(op)); }

void drop_op(MPI_Op op) noexcept {
  if (ops.drop(key(op))) native.Op_free(&op);
}

void hold_type(const TypeInfo& type) {
  if (!type.predefined) types.hold(key(type.handle));
}

void drop_type(const TypeInfo& type) noexcept {
  MPI_Datatype handle = type.handle;
  if (!type.predefined && types.drop(key(handle))) native.Type_free(&handle);
}

void install_held(void** handlers) noexcept {
  handlers[TUTTI_MPI_Op_free] = reinterpret_cast<void*>(&handle_Op_free);
  handlers[TUTTI_MPI_Type_free] = reinterpret_cast<void*>(&handle_Type_free);
}

}  // namespace tutti::mpi
