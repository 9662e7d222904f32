#include "mpi/plugin/comm.hpp"

#include <climits>
#include <mutex>
#include <new>
#include <vector>

#include "base/log.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {

HandleMap<Comm> comms;
std::atomic<Comm*> world{nullptr};
MPI_Comm world_handle{};

namespace {

int keyval = MPI_KEYVAL_INVALID;

// The value of tutti's attribute on a communicator. MPI hands it on to duplicates (on_copy) without
// the state: such a duplicate belongs to the world, and is taken up in its first blocking
// collective. That is how MPI_Comm_idup is served, inside of which nothing may communicate.
struct Attachment {
  Comm* comm = nullptr;
};

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Members of a new communicator know its parent and how many children that had before;
// communicators that come out of one call have disjoint members, so the first member tells them
// apart.
void derive(const std::uint64_t parent[2], std::uint64_t child, std::uint64_t id[2]) {
  id[0] = mix(parent[0] + mix(child + 1));
  id[1] = mix(parent[1] ^ mix(id[0] + child));
}

int on_copy(MPI_Comm, int, void*, void* in, void* out, int* flag) {
  const auto* source = static_cast<const Attachment*>(in);
  *flag = 0;
  if (source->comm != nullptr && source->comm->foreign) return MPI_SUCCESS;
  auto* copy = new (std::nothrow) Attachment;
  if (copy == nullptr) return MPI_SUCCESS;
  *static_cast<void**>(out) = copy;
  *flag = 1;
  return MPI_SUCCESS;
}

// Runs before MPI reuses the handle.
int on_delete(MPI_Comm comm, int, void* value, void*) {
  auto* attachment = static_cast<Attachment*>(value);
  if (attachment->comm != nullptr) {
    comms.erase(key(comm));
    attachment->comm->handle = world_handle;  // who raises errors of what is still under way
    release(attachment->comm);
  }
  delete attachment;
  return MPI_SUCCESS;
}

bool world_ranks(MPI_Comm comm, int size, std::vector<std::int32_t>* members) {
  MPI_Group group{};
  if (native.Comm_group(comm, &group) != MPI_SUCCESS) return false;
  std::vector<int> all(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) all[static_cast<std::size_t>(i)] = i;
  members->resize(static_cast<std::size_t>(size));
  const int code =
      native.Group_translate_ranks(group, size, all.data(), state.world_group, members->data());
  native.Group_free(&group);
  if (code != MPI_SUCCESS) return false;
  for (const std::int32_t member : *members) {
    if (member < 0) return false;  // MPI_UNDEFINED: not of this world
  }
  return true;
}

bool all_reachable(const std::vector<std::int32_t>& members) {
  for (const std::int32_t member : members) {
    if (!state.job->reachable(member)) return false;
  }
  return true;
}

// What one rank brings to the agreement on a new communicator: the minimum of each over all
// members.
struct Proposal {
  long long known = 0;               // 1: all members belong to the world and the state is in place
  long long served = 0;              // how many of its teams exist here
  long long id = 0, complement = 0;  // equal ids have minima that are complements
};

Proposal agree(MPI_Comm comm, const Proposal& mine) {
  Proposal all;
  if (native.Allreduce(&mine, &all, 4, MPI_LONG_LONG, MPI_MIN, comm) != MPI_SUCCESS) return {};
  if (all.id != ~all.complement) all.known = all.served = 0;
  return all;
}

// `without`: what becomes of the communicator where there can be no such team.
Team* create_team(const Comm& comm, const std::uint64_t id[2],
                  const std::vector<std::int32_t>& members, const char* without) {
  TeamSpec spec;
  spec.id[0] = id[0];
  spec.id[1] = id[1];
  spec.rank = comm.rank;
  spec.size = comm.size;
  spec.members = members.data();
  Team* team = nullptr;
  const Status status = state.job->create_team(spec, &team);
  if (status.ok()) return team;
  log(LogLevel::info, "a communicator of %d ranks %s: %s", comm.size, without,
      status.detail != nullptr ? status.detail : name(status.code));
  return nullptr;
}

// The teams of `comm`, as far as this rank can have them. Returns how many that are.
int create_teams(Comm* comm, const std::vector<std::int32_t>& members) {
  if (!state.job || !all_reachable(members)) return 0;
  comm->team = create_team(*comm, comm->id, members, "stays with the MPI");
  if (comm->team == nullptr) return 0;
  const std::uint64_t other[2] = {comm->id[0] ^ 0x6e6f6e626c6f636bu, mix(comm->id[1])};
  comm->nonblocking =
      create_team(*comm, other, members, "has one order of blocking and non-blocking collectives");
  return comm->nonblocking == nullptr ? 1 : 2;
}

// Gives back what not all members have: one team then does for all collectives, or none.
void keep_teams(Comm* comm, long long served) {
  if (served < 2) {
    if (comm->nonblocking != nullptr && comm->nonblocking != comm->team)
      state.job->release_team(comm->nonblocking);
    if (served < 1 && comm->team != nullptr) {
      state.job->release_team(comm->team);
      comm->team = nullptr;
    }
    comm->nonblocking = comm->team;
  }
}

// Keeps the state until the communicator is freed.
bool attach(Comm* comm) {
  auto* attachment = new (std::nothrow) Attachment;
  if (attachment == nullptr) return false;
  attachment->comm = comm;
  if (native.Comm_set_attr(comm->handle, keyval, attachment) != MPI_SUCCESS) {
    delete attachment;
    return false;
  }
  return true;
}

// Takes up a communicator. Collective over it; all members come to the same result. `fresh`: inside
// the call that makes it.
Comm* adopt(MPI_Comm handle, const std::uint64_t birth[2], bool fresh) {
  int inter = 0, size = 0, rank = 0;
  native.Comm_test_inter(handle, &inter);
  native.Comm_size(handle, &size);
  native.Comm_rank(handle, &rank);
  if (inter || size < 2) return nullptr;
  Proposal mine;
  auto* comm = new (std::nothrow) Comm;
  std::vector<std::int32_t> members;
  if (comm != nullptr && world_ranks(handle, size, &members)) {
    comm->handle = handle;
    comm->rank = rank;
    comm->size = size;
    comm->id[0] = birth[0];
    comm->id[1] = mix(birth[1] + static_cast<std::uint64_t>(members.front()) + 1);
    mine.served = create_teams(comm, members);
    mine.known = attach(comm);
    mine.id = static_cast<long long>(comm->id[0] ^ comm->id[1]);
  }
  mine.complement = ~mine.id;
  const Proposal all = agree(handle, mine);
  if (comm != nullptr) keep_teams(comm, all.served);
  if (comm != nullptr) comm->messages = fresh && comm->team != nullptr && state.messages != nullptr;
  if (all.known) {
    comms.insert(key(handle), comm);
    return comm;
  }
  log(LogLevel::info,
      "a communicator of %d ranks stays with the MPI: its members do not agree on it", size);
  if (mine.known) {
    native.Comm_delete_attr(handle, keyval);  // releases
  } else if (comm != nullptr) {
    release(comm);
  }
  return nullptr;
}

// Remembers a communicator that is none of tutti's business. Local.
Comm* mark_foreign(MPI_Comm handle) {
  auto* comm = new (std::nothrow) Comm;
  if (comm == nullptr) return nullptr;
  comm->handle = handle;
  comm->foreign = true;
  if (!attach(comm)) {
    delete comm;
    return nullptr;
  }
  comms.insert(key(handle), comm);
  return comm;
}

Attachment* attachment_of(MPI_Comm comm) {
  void* value = nullptr;
  int found = 0;
  if (native.Comm_get_attr(comm, keyval, &value, &found) != MPI_SUCCESS || !found) return nullptr;
  return static_cast<Attachment*>(value);
}

// States of revoked communicators: another thread may be in a call on one, so they live on.
struct Revoked {
  std::mutex mutex;
  std::vector<Comm*> comms;  // guarded by mutex
};
Revoked revoked;

// The identity of the next communicator made from `parent`, when that belongs to the world. Called
// by all members of `parent`.
bool next_birth(MPI_Comm parent, std::uint64_t birth[2]) {
  Comm* comm = find_or_adopt(parent);
  if (comm == nullptr || comm->foreign) return false;
  derive(comm->id, comm->children++, birth);
  return true;
}

// Calls that are collective over the parent and return one communicator.
template <class Create>
int create(MPI_Comm parent, MPI_Comm* newcomm, Create&& native_create) {
  const NativeCall inside;
  std::uint64_t birth[2];
  const bool ours = next_birth(parent, birth);
  const int code = native_create();
  if (ours && code == MPI_SUCCESS && *newcomm != MPI_COMM_NULL) adopt(*newcomm, birth, true);
  return code;
}

// An identity for members that share no count of their parent's children: the first member gives
// it.
bool ask_for_birth(MPI_Comm newcomm, std::uint64_t birth[2]) {
  static std::atomic<long long> given{0};
  int rank = 0;
  native.Comm_rank(newcomm, &rank);
  long long mine = LLONG_MAX, ticket = 0;
  if (rank == 0) mine = (static_cast<long long>(state.rank) << 32) | given.fetch_add(1);
  if (native.Allreduce(&mine, &ticket, 1, MPI_LONG_LONG, MPI_MIN, newcomm) != MPI_SUCCESS)
    return false;
  birth[0] = mix(static_cast<std::uint64_t>(ticket));
  birth[1] = 0x7469636b6574u;
  return true;
}

int handle_Comm_dup(MPI_Comm comm, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] { return native.Comm_dup(comm, newcomm); });
}

int handle_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] { return native.Comm_dup_with_info(comm, info, newcomm); });
}

int handle_Comm_split(MPI_Comm comm, int color, int order, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] { return native.Comm_split(comm, color, order, newcomm); });
}

int handle_Comm_split_type(MPI_Comm comm, int type, int order, MPI_Info info, MPI_Comm* newcomm) {
  return create(comm, newcomm,
                [&] { return native.Comm_split_type(comm, type, order, info, newcomm); });
}

int handle_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] { return native.Comm_create(comm, group, newcomm); });
}

// Only the group's members call this, so the count of the parent's children does not serve.
int handle_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm) {
  const NativeCall inside;
  const int code = native.Comm_create_group(comm, group, tag, newcomm);
  if (code != MPI_SUCCESS || *newcomm == MPI_COMM_NULL) return code;
  const Attachment* parent = attachment_of(comm);
  if (parent == nullptr || (parent->comm != nullptr && parent->comm->foreign)) return code;
  std::uint64_t birth[2];
  if (ask_for_birth(*newcomm, birth)) adopt(*newcomm, birth, true);
  return code;
}

int handle_Cart_create(MPI_Comm comm, int ndims, const int* dims, const int* periods, int reorder,
                       MPI_Comm* newcomm) {
  return create(comm, newcomm,
                [&] { return native.Cart_create(comm, ndims, dims, periods, reorder, newcomm); });
}

int handle_Cart_sub(MPI_Comm comm, const int* remain, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] { return native.Cart_sub(comm, remain, newcomm); });
}

int handle_Graph_create(MPI_Comm comm, int nodes, const int* index, const int* edges, int reorder,
                        MPI_Comm* newcomm) {
  return create(comm, newcomm,
                [&] { return native.Graph_create(comm, nodes, index, edges, reorder, newcomm); });
}

int handle_Dist_graph_create(MPI_Comm comm, int n, const int* sources, const int* degrees,
                             const int* destinations, const int* weights, MPI_Info info,
                             int reorder, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] {
    return native.Dist_graph_create(comm, n, sources, degrees, destinations, weights, info, reorder,
                                    newcomm);
  });
}

int handle_Dist_graph_create_adjacent(MPI_Comm comm, int indegree, const int* sources,
                                      const int* source_weights, int outdegree,
                                      const int* destinations, const int* destination_weights,
                                      MPI_Info info, int reorder, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] {
    return native.Dist_graph_create_adjacent(comm, indegree, sources, source_weights, outdegree,
                                             destinations, destination_weights, info, reorder,
                                             newcomm);
  });
}

// Waits for pending communication, so tutti's must be over first.
int handle_Comm_disconnect(MPI_Comm* handle) {
  if (Comm* comm = *handle == MPI_COMM_NULL ? nullptr : find_comm(*handle)) drain(comm);
  const NativeCall inside;
  return native.Comm_disconnect(handle);
}

}  // namespace

Comm* find_or_adopt(MPI_Comm comm) noexcept {
  if (Comm* found = find_comm(comm)) return found;
  if (comm == MPI_COMM_NULL) return nullptr;  // the MPI says what it thinks of that
  const Attachment* attachment = attachment_of(comm);
  if (attachment == nullptr) return mark_foreign(comm);
  if (attachment->comm != nullptr) return nullptr;
  std::uint64_t birth[2];
  return ask_for_birth(comm, birth) ? adopt(comm, birth, false) : nullptr;
}

// Only threads of the program change it: where it promises that one at a time is in here, no locked
// instruction is needed.
void retain(Comm* comm) noexcept {
  if (state.threads) {
    comm->references.fetch_add(1, std::memory_order_relaxed);
  } else {
    comm->references.store(comm->references.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
  }
}

void release(Comm* comm) noexcept {
  if (state.threads) {
    if (comm->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  } else {
    const int left = comm->references.load(std::memory_order_relaxed) - 1;
    comm->references.store(left, std::memory_order_relaxed);
    if (left != 0) return;
  }
  keep_teams(comm, 0);
  delete comm;
}

void forget(MPI_Comm handle) noexcept {
  if (handle == MPI_COMM_NULL) return;
  Attachment* attachment = attachment_of(handle);
  if (attachment == nullptr || (attachment->comm != nullptr && attachment->comm->foreign)) return;
  auto* stranger = new (std::nothrow) Comm;
  if (stranger == nullptr) return;
  stranger->handle = handle;
  stranger->foreign = true;
  const std::lock_guard lock(revoked.mutex);
  if (attachment->comm != nullptr) revoked.comms.push_back(attachment->comm);
  attachment->comm = stranger;
  comms.insert(key(handle), stranger);
  if (handle == world_handle) world.store(stranger, std::memory_order_relaxed);
}

bool create_world() noexcept {
  native.Comm_create_keyval(&on_copy, &on_delete, &keyval, nullptr);
  const std::uint64_t birth[2] = {0x776f726c64u, 0};
  world.store(adopt(world_handle, birth, true), std::memory_order_relaxed);
  return world.load(std::memory_order_relaxed) != nullptr;
}

void destroy_comms() noexcept {
  std::vector<MPI_Comm> handles;
  comms.for_each([&](std::uintptr_t, Comm* comm) { handles.push_back(comm->handle); });
  for (const MPI_Comm handle : handles) native.Comm_delete_attr(handle, keyval);
  for (Comm* comm : revoked.comms) release(comm);
  revoked.comms.clear();
  world.store(nullptr, std::memory_order_relaxed);
  native.Comm_free_keyval(&keyval);
}

void install_comms(void** handlers) noexcept {
#define TUTTI_INSTALL(name) handlers[TUTTI_MPI_##name] = reinterpret_cast<void*>(&handle_##name)
  TUTTI_INSTALL(Comm_dup);
  TUTTI_INSTALL(Comm_dup_with_info);
  TUTTI_INSTALL(Comm_split);
  TUTTI_INSTALL(Comm_split_type);
  TUTTI_INSTALL(Comm_create);
  TUTTI_INSTALL(Comm_create_group);
  TUTTI_INSTALL(Cart_create);
  TUTTI_INSTALL(Cart_sub);
  TUTTI_INSTALL(Graph_create);
  TUTTI_INSTALL(Dist_graph_create);
  TUTTI_INSTALL(Dist_graph_create_adjacent);
  TUTTI_INSTALL(Comm_disconnect);
#undef TUTTI_INSTALL
}

}  // namespace tutti::mpi
