// From the arguments of an MPI collective to a Call of the core.
#pragma once

#include <memory>

#include "core/core.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/staging.hpp"

namespace tutti::mpi {

/// The count or displacement array of Allgatherv, plain or large.
class CountList {
 public:
  explicit CountList(const int* narrow) : narrow_(narrow) {}
  explicit CountList(const MPI_Count* wide) : wide_(reinterpret_cast<const long long*>(wide)) {}
#if !defined(TUTTI_ABI_STANDARD)
  explicit CountList(const MPI_Aint* wide) : wide_(reinterpret_cast<const long long*>(wide)) {}
#endif
  bool null() const noexcept { return narrow_ == nullptr && wide_ == nullptr; }
  long long operator[](int i) const noexcept { return narrow_ != nullptr ? narrow_[i] : wide_[i]; }

 private:
  const int* narrow_ = nullptr;
  const long long* wide_ = nullptr;
};

#include "mpi/generated/collective_args.inc"

struct Plan {
  Call call;
  std::unique_ptr<Staging> staging;  // null for dense types, the common case

  /// Before the call starts (each time, when persistent): packs. Fails when a GPU's library does.
  Status begin() const noexcept {
    if (staging) [[unlikely]]
      return staging->pack();
    return Status::success();
  }
  /// After it has completed: unpacks.
  Status finish() const noexcept {
    if (staging) [[unlikely]]
      return staging->unpack();
    return Status::success();
  }
};

/// Fills `*plan`. The answer is the same on all ranks of a correct program: it depends only on the
/// communicator, the operation, the class of the operator and the signature of the data. What else
/// it may be (`arguments`) is for programs that MPI calls wrong on this rank, `no_memory` for calls
/// that fail.
/// `blocking`: user-defined operators are possible.
Reason make_plan(const BarrierArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const BcastArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const ReduceArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const AllreduceArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const Reduce_scatter_blockArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const AllgatherArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const AllgathervArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const GatherArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const ScatterArgs& args, const Comm& comm, bool blocking, Plan* plan);
Reason make_plan(const AlltoallArgs& args, const Comm& comm, bool blocking, Plan* plan);

}  // namespace tutti::mpi
