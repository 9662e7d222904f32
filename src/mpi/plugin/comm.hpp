// Communicators: which of the program's communicators tutti handles.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/core.hpp"
#include "mpi/plugin/handle_map.hpp"
#include "mpi/plugin/native.hpp"

namespace tutti::mpi {

/// A communicator inside the world of which all members run tutti. `team` is null when tutti cannot
/// serve it (one rank, ranks of another node, no memory): its collectives are the MPI's, but
/// communicators made from it may be served. Created and agreed on by all members; destroyed when
/// it has been freed and its last operation is over.
struct Comm {
  Team* team = nullptr;
  // Of its non-blocking and persistent collectives: MPIs keep these apart from the blocking ones,
  // and programs rely on that (mpi4py's MPI_Comm_iagree starts an MPI_Iallreduce before a barrier
  // on one rank and after it on another). The same as `team` where there was no memory for two.
  Team* nonblocking = nullptr;
  MPI_Comm handle{};
  int rank = 0;
  int size = 0;
  std::uint64_t id[2] = {0, 0};
  // Its messages are tutti's. Settled inside the call that made it: messages may precede any later
  // agreement.
  bool messages = false;
  bool foreign =
      false;  // not of the world, or of one rank: only remembered, so as not to ask again
  std::uint64_t children = 0;  // communicators made from this one; same count on all members
  std::atomic<bool> complained{false};  // an error on it has been explained
  // Operations in flight or persistent, plus one while the communicator exists. Changed by any
  // thread.
  std::atomic<int> references{1};
};

extern HandleMap<Comm> comms;
/// The state of the program's world. Written inside MPI_Init and MPI_Finalize, and when it is
/// revoked.
extern std::atomic<Comm*> world;
/// What the program means by MPI_COMM_WORLD: that, or where processors were taken from the job
/// (split.hpp) the communicator of the rest. Written inside MPI_Init.
extern MPI_Comm world_handle;

/// The state of a communicator, or nullptr for those that are the MPI's own affair. Thread-safe.
inline Comm* find_comm(MPI_Comm comm) noexcept {
  if (comm == world_handle) return world.load(std::memory_order_relaxed);
  return comms.find(key(comm));
}

/// The communicator if its messages are tutti's, else nullptr. Thread-safe.
inline Comm* find_messages(MPI_Comm handle) noexcept {
  Comm* comm = find_comm(handle);
  return comm != nullptr && comm->messages ? comm : nullptr;
}

/// The same in a blocking collective over `comm`, where all members are: a communicator that
/// MPI_Comm_idup made is taken up now, any other is marked as the MPI's own.
Comm* find_or_adopt(MPI_Comm comm) noexcept;

/// Takes a reference.
void retain(Comm* comm) noexcept;
/// Drops a reference; destroys the state with the last one.
void release(Comm* comm) noexcept;

/// The program revokes `comm` (MPIX_Comm_revoke): on this rank its collectives and messages are the
/// MPI's from now on, which refuses them. What is under way goes on. Local. Thread-safe.
void forget(MPI_Comm comm) noexcept;

/// Takes up the program's world. Collective over it. Returns false, on all ranks, when it cannot.
bool create_world() noexcept;
/// Lets go of all communicators; the last step before the job is destroyed.
void destroy_comms() noexcept;

void install_comms(void** handlers) noexcept;

}  // namespace tutti::mpi
