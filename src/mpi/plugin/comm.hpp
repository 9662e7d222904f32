// Communicators: which of the program's communicators tutti handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "coll/parcels.hpp"
#include "core/core.hpp"
#include "mpi/plugin/handle_map.hpp"
#include "mpi/plugin/known.hpp"
#include "mpi/plugin/native.hpp"
#include "mpi/plugin/neighbours.hpp"
#include "mpi/plugin/state.hpp"
#include "mpi/record/record.h"

namespace tutti::mpi {

/// A communicator inside the world of which all members run tutti. Nothing is exchanged when it is
/// made: its messages need nothing of the others, and its teams come with the first collectives
/// (comm_teams.cpp). It is the value of tutti's
/// attribute on the communicator, and destroyed when that has been freed and its last operation is
/// over.
struct Comm {
  enum class Served : std::uint8_t { unknown, yes, no };

  // Of its blocking collectives; nullptr until the first one, and where the MPI serves them.
  // Collectives of one communicator are never started by two threads at a time.
  Team* team = nullptr;
  KnownCalls known;  // of that
  // Of those of which each rank knows but its own counts, by read_plain(): memory to be used again.
  std::unique_ptr<Parcels> parcels;
  // Of its non-blocking and persistent collectives: MPIs keep these apart from the blocking ones,
  // and programs rely on that (mpi4py's MPI_Comm_iagree starts an MPI_Iallreduce before a barrier
  // on one rank and after it on another).
  Team* nonblocking = nullptr;
  Served serves_blocking = Served::unknown, serves_nonblocking = Served::unknown;
  bool spans = false;  // with a team: its members do not all share memory. The same on all of them
  MPI_Comm handle{};   // null while it is a copy that nobody has used
  int rank = 0;
  int size = 0;
  // Of its topology; read with the first collective between neighbours (neighbours_of).
  mutable std::unique_ptr<const Neighbours> neighbours;
  // How it was made. Members of a communicator have the same, and so have those of others that came
  // out of the same call; the first member tells them apart.
  std::uint64_t birth[2] = {0, 0};
  // Of its messages; nullptr where they are the MPI's. The same on all members, who do not agree on
  // it: messages may come before anything that all of them do.
  std::unique_ptr<Group> group;
  // With messages: ranks of the world. Else only while a team is made, which has its own copy.
  std::vector<std::int32_t> members;
  bool foreign = false;        // not of the world: only remembered, so as not to ask again
  std::uint64_t children = 0;  // communicators made from it by all its members; the same on all
  // Communicators made from it by MPI_Comm_create_group, by tag and members.
  std::unordered_map<std::uint64_t, std::uint64_t> groups;
  // Its row in this rank's record, or where there is none its own.
  tutti_comm_row own_row{};
  tutti_comm_row* row = &own_row;
  bool has_asked_for_row = false;
  std::atomic<bool> complained{false};  // an error on it has been explained
  // Operations in flight or persistent, plus one while the communicator exists. Changed by any
  // thread.
  std::atomic<int> references{1};
  // What find_comm() finds in its place once the program has revoked it (forget).
  std::unique_ptr<Comm> stranger;
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

/// The same, but a communicator that is met for the first time is looked at: a copy of one of the
/// world's is taken up, any other marked as the MPI's own. Local. Thread-safe.
Comm* find_or_adopt(MPI_Comm comm) noexcept;

/// The communicator if its messages are tutti's, else nullptr. Thread-safe.
inline Comm* find_messages(MPI_Comm handle) noexcept {
  Comm* comm = find_comm(handle);
  if (comm == nullptr) [[unlikely]]
    comm = find_or_adopt(handle);
  return comm != nullptr && comm->group ? comm : nullptr;
}

/// Decides whose the messages of a communicator are that has just been met. Local.
void settle_messages(Comm& comm) noexcept;
/// Makes `comm.team` at the first blocking collective, where all members are: afterwards it is
/// there on all of them, or on none and the MPI serves them. An error is one on all members.
Status open_blocking(Comm& comm) noexcept;
/// Makes `comm.nonblocking` at the first non-blocking or persistent one. Local: where a member has
/// no memory for it, it fails there, and on the others the first operation does.
Status open_nonblocking(Comm& comm) noexcept;
/// Gives its teams back, and what its messages have left behind.
void close_teams(Comm& comm) noexcept;

/// Takes a reference. Only threads of the program change their number: where it promises that one
/// at a time is in here, no locked instruction is needed.
inline void retain(Comm* comm) noexcept {
  if (state.threads) {
    comm->references.fetch_add(1, std::memory_order_relaxed);
  } else {
    comm->references.store(comm->references.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
  }
}
void destroy(Comm* comm) noexcept;
/// Drops a reference; destroys the state with the last one.
inline void release(Comm* comm) noexcept {
  if (state.threads) {
    if (comm->references.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(comm);
  } else {
    const int left = comm->references.load(std::memory_order_relaxed) - 1;
    comm->references.store(left, std::memory_order_relaxed);
    if (left == 0) [[unlikely]]
      destroy(comm);
  }
}

/// The program revokes `comm` (MPIX_Comm_revoke): on this rank its collectives and messages are the
/// MPI's from now on, which refuses them. What is under way goes on. Local. Thread-safe.
void forget(MPI_Comm comm) noexcept;

/// Takes up a communicator that the program has just made of `birth`, by all its members. Local.
void adopt(MPI_Comm handle, const std::uint64_t birth[2]) noexcept;
/// Around the call that makes a copy of which the handle is not known yet (MPI_Comm_idup): it is
/// taken up when it is first used.
void begin_copy(const std::uint64_t birth[2]) noexcept;
void end_copy() noexcept;
/// A number for the next communicator made from `parent`, equal on all its members. They call it
/// in the same order.
void next_birth(Comm& parent, std::uint64_t birth[2]) noexcept;
/// Whoever frees `handle` keeps its state until the MPI has freed it: callbacks of the program's
/// attributes may still use it.
class Freeing {
 public:
  explicit Freeing(MPI_Comm handle) noexcept;
  ~Freeing();
  Freeing(const Freeing&) = delete;
  Freeing& operator=(const Freeing&) = delete;

 private:
  Freeing* outer_;
};

/// Takes up the program's world. Collective over it.
void create_world() noexcept;
/// Lets go of all communicators; the last step before the job is destroyed.
void destroy_comms() noexcept;

/// mix() spreads the bits of a number over a word.
std::uint64_t mix(std::uint64_t value) noexcept;
/// The members of `comm` as ranks of the world; false where one is none.
bool world_ranks(MPI_Comm comm, int size, std::vector<std::int32_t>* members);

void install_comms(void** handlers) noexcept;

}  // namespace tutti::mpi
