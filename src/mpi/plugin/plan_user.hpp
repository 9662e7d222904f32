// Plans of reductions with user-defined operators.
#pragma once

#include "mpi/plugin/plan_sides.hpp"

namespace tutti::mpi {

/// The arguments of a reduction, understood.
struct Operands {
  Data block, recv;       // what is sent (one block of it), and where the result goes
  int blocks = 1;         // that are sent
  bool in_place = false;  // the operand lies in the receive buffer, if MPI_IN_PLACE says so
  bool result = false;  // is wanted on this rank; the receive buffer means nothing where it is not
};

/// What a rank gathers at most in a call that does not block, in bytes: longer ones are the MPI's.
inline constexpr std::size_t kMostGathered = std::size_t{1} << 20;

/// Of a blocking call, in which the core calls the operator. Listed blocks are in the staging.
Reason plan_user(MPI_Op op, const Comm& comm, const Operands& operands, Plan* plan);
/// Of a call that does not block: the core moves the operands, and the thread of the program that
/// completes the request folds them (fold_gathered). So no rank ever waits for another one's
/// operator, which only a thread of the program may call. `user_operator` where a rank would gather
/// more than kMostGathered, which all ranks know.
Reason plan_user_gathered(MPI_Op op, const Comm& comm, const Operands& operands, Plan* plan);

}  // namespace tutti::mpi
