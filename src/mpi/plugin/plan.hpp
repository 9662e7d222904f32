// From the arguments of an MPI collective to a Call of the core.
#pragma once

#include <memory>

#include "core/core.hpp"
#include "mpi/plugin/args.hpp"
#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/staging.hpp"

namespace tutti::mpi {

struct Plan {
  Call call;
  std::unique_ptr<Staging> staging;  // null for dense types, the common case

  /// What a report counts of the call: where each rank knows but its own counts, what it sends.
  std::size_t bytes() const noexcept {
    return call.parcels != nullptr ? call.parcels->bytes_sent() : call.bytes;
  }
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

/// Why the core leaves a call on `team` to the MPI, or `none`. Uniform.
Reason left(const Team& team, const Call& call) noexcept;
inline Team* team_of(const Comm& comm, bool blocking) noexcept {
  return blocking ? comm.team : comm.nonblocking;
}

/// Of collectives that move data, and of those that reduce them.
template <class Args>
Reason plan_move(const Args& args, const Comm& comm, bool blocking, Plan* plan);
template <class Args>
Reason plan_reduction(const Args& args, const Comm& comm, bool blocking, Plan* plan);
/// Of those of which each rank knows but its own counts.
template <class Args>
Reason plan_parcels(const Args& args, const Comm& comm, bool blocking, Plan* plan);
template <class Args>
Reason plan_neighbours(const Args& args, const Comm& comm, bool blocking, Plan* plan);

/// Parcels of a blocking call whose blocks the core takes as they are, in comm->parcels: dense
/// predefined types, two buffers, lists without a fault. False where make_plan() is to look closer.
template <class Args>
bool read_plain_parcels(const Args& args, Comm* comm) noexcept;
template <class Args>
bool read_plain_neighbours(const Args& args, Comm* comm) noexcept;
template <class Args>
bool read_plain(const Args& args, Comm* comm) noexcept {
  if constexpr (has_neighbours(Args::kColl)) {
    return read_plain_neighbours(args, comm);
  } else {
    return read_plain_parcels(args, comm);
  }
}

/// Fills `*plan`. The answer is the same on all ranks of a correct program: it depends only on the
/// communicator, the operation, the class of the operator and the signature of the data. What else
/// it may be (`arguments`) is for programs that MPI calls wrong on this rank, `no_memory` for calls
/// that fail. A call that the core leaves to the MPI may have a plan; what has to be packed has
/// none. `blocking`: the core may call user-defined operators.
template <class Args>
Reason make_plan(const Args& args, const Comm& comm, bool blocking, Plan* plan) {
  plan->call.coll = Args::kColl;
  if constexpr (requires { args.root; }) {
    if (args.root < 0 || args.root >= comm.size) return Reason::arguments;
    plan->call.root = args.root;
  }
  if constexpr (Args::kColl == Coll::barrier) {
    return Reason::none;
  } else if constexpr (requires { args.op; }) {
    return plan_reduction(args, comm, blocking, plan);
  } else if constexpr (has_neighbours(Args::kColl)) {
    return plan_neighbours(args, comm, blocking, plan);
  } else if constexpr (has_parcels(Args::kColl)) {
    return plan_parcels(args, comm, blocking, plan);
  } else {
    return plan_move(args, comm, blocking, plan);
  }
}

}  // namespace tutti::mpi
