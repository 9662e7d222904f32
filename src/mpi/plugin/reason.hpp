// Why a call goes to the MPI.
#pragma once

namespace tutti::mpi {

/// The order is that of kReasonNames in report.cpp.
enum class Reason : unsigned char {
  none,           // it does not: tutti takes it
  communicator,   // intercommunicator, one rank, several nodes, another world, or of unknown origin
  user_operator,  // of a non-blocking or persistent call, with more than a rank gathers
  no_kernel,      // a predefined operator on a type for which tutti has no kernel
  forced,         // TUTTI_ALG says so
  site,           // TUTTI_CHOICES does
  built_in,       // the built-in choices do, or have no algorithm that can run
  measured,       // it was faster in this program
  on_trial,       // to see whether it is
  nobody,         // a message to or from MPI_PROC_NULL
  arguments,      // something is wrong with them, and the MPI shall say what
  no_memory,      // not passed on, for the other ranks would wait: an error of the call
  // For the report only: of `communicator`, what it is where that can be told; and calls that are
  // the MPI's in any case.
  one_rank,
  intercommunicator,
  other_world,  // a member was spawned or connected
  one_sided,
  files,
  count_
};

/// Returns the reason if there is one.
#define TUTTI_PLAN_TRY(expression)                            \
  if (const ::tutti::mpi::Reason reason_try_ = (expression);  \
      reason_try_ != ::tutti::mpi::Reason::none) [[unlikely]] \
  return reason_try_

}  // namespace tutti::mpi
