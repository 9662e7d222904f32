// Communicators: their states, from the call that makes one to the one that frees it. Nothing here
// communicates.
#include "mpi/plugin/comm.hpp"

#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "mpi/plugin/record.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

HandleMap<Comm> comms;
std::atomic<Comm*> world{nullptr};
MPI_Comm world_handle{};

namespace {

int keyval = MPI_KEYVAL_INVALID;

// The communicator that this thread is freeing, and its state once the MPI has let go of it.
thread_local MPI_Comm freed_handle{};
thread_local Comm* freed = nullptr;
thread_local Freeing* freeing = nullptr;
// The state of the copy that this thread is making.
thread_local Comm* copied = nullptr;

Comm* new_comm(const std::uint64_t birth[2]) noexcept {
  auto* comm = new (std::nothrow) Comm;
  if (comm == nullptr) return nullptr;
  comm->birth[0] = birth[0];
  comm->birth[1] = birth[1];
  return comm;
}

// MPI hands the attribute on where it copies a communicator: only MPI_Comm_idup wants that, whose
// communicator is not there yet when it returns. (Open MPI copies in other calls too, and inside
// MPI_Comm_create_group on some members of the parent only.)
int on_copy(MPI_Comm, int, void*, void*, void* out, int* flag) {
  *flag = 0;
  if (copied == nullptr) return MPI_SUCCESS;
  *static_cast<void**>(out) = std::exchange(copied, nullptr);
  *flag = 1;
  return MPI_SUCCESS;
}

void let_go(MPI_Comm handle, Comm* comm) noexcept {
  comms.erase(key(handle), comm);
  if (comm->stranger != nullptr) comms.erase(key(handle), comm->stranger.get());
  comm->handle = world_handle;  // who raises errors of what is still under way
  release(comm);
}

// Runs before MPI reuses the handle.
int on_delete(MPI_Comm handle, int, void* value, void*) {
  auto* comm = static_cast<Comm*>(value);
  if (freeing != nullptr && handle == freed_handle) {
    freed = comm;
  } else {
    let_go(handle, comm);
  }
  return MPI_SUCCESS;
}

// False: there is no such communicator. `*out` is nullptr where nothing is known of it.
bool state_of(MPI_Comm comm, Comm** out) noexcept {
  void* value = nullptr;
  int found = 0;
  *out = nullptr;
  if (native.Comm_get_attr(comm, keyval, &value, &found) != MPI_SUCCESS) return false;
  if (found) *out = static_cast<Comm*>(value);
  return true;
}

// Two threads may meet a communicator at the same time, by messages, or one revoke it meanwhile.
// The MPI's callbacks do not take it.
std::mutex meeting_mutex;

// From now on find_comm() knows it. Under the mutex, where other threads can have the handle.
void enter(MPI_Comm handle, Comm* comm) noexcept {
  if (comm->handle != handle) {
    native.Comm_size(handle, &comm->size);
    native.Comm_rank(handle, &comm->rank);
    comm->handle = handle;
    settle_messages(*comm);
  }
  comms.insert(key(handle), comm->stranger != nullptr ? comm->stranger.get() : comm);
}

bool keep(MPI_Comm handle, Comm* comm) noexcept {
  if (comm == nullptr) return false;
  if (native.Comm_set_attr(handle, keyval, comm) == MPI_SUCCESS) return true;
  delete comm;
  return false;
}

// Remembers a communicator that is none of tutti's business.
Comm* mark_foreign(MPI_Comm handle) noexcept {
  const std::uint64_t none[2] = {0, 0};
  Comm* comm = new_comm(none);
  if (comm != nullptr) comm->foreign = true;
  if (!keep(handle, comm)) return nullptr;
  enter(handle, comm);
  return comm;
}

}  // namespace

std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

void next_birth(Comm& parent, std::uint64_t birth[2]) noexcept {
  const std::uint64_t child = parent.children++;
  birth[0] = mix(parent.birth[0] + mix(child + 1));
  birth[1] = mix(parent.birth[1] ^ mix(birth[0] + child));
}

void adopt(MPI_Comm handle, const std::uint64_t birth[2]) noexcept {
  Comm* comm = new_comm(birth);
  if (!keep(handle, comm)) return;
  enter(handle, comm);
}

void begin_copy(const std::uint64_t birth[2]) noexcept { copied = new_comm(birth); }

void end_copy() noexcept { delete std::exchange(copied, nullptr); }

Comm* find_or_adopt(MPI_Comm handle) noexcept {
  if (Comm* found = find_comm(handle)) return found;
  if (handle == MPI_COMM_NULL) return nullptr;  // the MPI says what it thinks of that
  const std::lock_guard lock(meeting_mutex);
  if (Comm* found = find_comm(handle)) return found;
  Comm* comm = nullptr;
  if (!state_of(handle, &comm)) return nullptr;
  if (comm == nullptr) return mark_foreign(handle);
  enter(handle, comm);
  return comm->stranger != nullptr ? comm->stranger.get() : comm;
}

Freeing::Freeing(MPI_Comm handle) noexcept : outer_(freeing) {
  // Not where the callback of an attribute frees another one.
  if (outer_ != nullptr) return;
  freeing = this;
  freed_handle = handle;
  freed = nullptr;
}

Freeing::~Freeing() {
  if (outer_ != nullptr) return;
  freeing = nullptr;
  if (freed != nullptr) let_go(freed_handle, freed);
}

void destroy(Comm* comm) noexcept {
  close_teams(*comm);
  remove_row(*comm);
  delete comm;
}

// Another thread may be in a call on it, so its state lives on; calls from now on find a stranger.
void forget(MPI_Comm handle) noexcept {
  if (handle == MPI_COMM_NULL) return;
  const std::lock_guard lock(meeting_mutex);
  Comm* comm = nullptr;
  if (!state_of(handle, &comm) || comm == nullptr || comm->foreign || comm->stranger != nullptr)
    return;
  comm->stranger.reset(new (std::nothrow) Comm);
  Comm* stranger = comm->stranger.get();
  if (stranger == nullptr) return;
  stranger->handle = handle;
  stranger->foreign = true;
  comms.insert(key(handle), stranger);
  if (handle == world_handle) world.store(stranger, std::memory_order_relaxed);
}

void create_world() noexcept {
  native.Comm_create_keyval(&on_copy, &on_delete, &keyval, nullptr);
  const std::uint64_t birth[2] = {0x776f726c64u, 0};
  adopt(world_handle, birth);
  world.store(find_or_adopt(world_handle), std::memory_order_relaxed);
}

void destroy_comms() noexcept {
  std::vector<MPI_Comm> handles;
  comms.for_each([&](std::uintptr_t, Comm* comm) { handles.push_back(comm->handle); });
  for (const MPI_Comm handle : handles) {
    native.Comm_delete_attr(handle, keyval);
    comms.erase(key(handle));
  }
  world.store(nullptr, std::memory_order_relaxed);
  native.Comm_free_keyval(&keyval);
}

}  // namespace tutti::mpi
