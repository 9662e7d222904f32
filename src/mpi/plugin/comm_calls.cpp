// The calls that make and free communicators: what is made of one of the world's belongs to it.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "mpi/plugin/comm.hpp"
#include "mpi/plugin/request.hpp"
#include "mpi/plugin/state.hpp"

namespace tutti::mpi {
namespace {

// Calls that are collective over the parent and return one communicator.
template <class Create>
int create(MPI_Comm parent, MPI_Comm* newcomm, Create&& native_create) {
  const NativeCall inside;
  std::uint64_t birth[2];
  Comm* comm = find_or_adopt(parent);
  const bool ours = comm != nullptr && !comm->foreign;
  if (ours) next_birth(*comm, birth);
  const int code = native_create();
  if (ours && code == MPI_SUCCESS && *newcomm != MPI_COMM_NULL) adopt(*newcomm, birth);
  return code;
}

// The same for what does not communicate until its request is waited for.
template <class Copy>
int copy(MPI_Comm parent, Copy&& native_copy) {
  std::uint64_t birth[2];
  Comm* comm = find_or_adopt(parent);
  if (comm == nullptr || comm->foreign) return native_copy();
  next_birth(*comm, birth);
  begin_copy(birth);
  const int code = native_copy();
  end_copy();
  return code;
}

int handle_Comm_dup(MPI_Comm comm, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] { return native.Comm_dup(comm, newcomm); });
}

int handle_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  return create(comm, newcomm, [&] { return native.Comm_dup_with_info(comm, info, newcomm); });
}

int handle_Comm_idup(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  return copy(comm, [&] { return native.Comm_idup(comm, newcomm, request); });
}

int handle_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm,
                               MPI_Request* request) {
  return copy(comm, [&] { return native.Comm_idup_with_info(comm, info, newcomm, request); });
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

// Only the group's members call this, so the count of the parent's children does not serve: they
// count what they have made with this tag.
void next_group_birth(Comm& parent, MPI_Comm newcomm, int tag, std::uint64_t birth[2]) {
  int size = 0;
  native.Comm_size(newcomm, &size);
  std::vector<std::int32_t> members;
  static_cast<void>(world_ranks(newcomm, size, &members));  // they are of the parent's
  std::uint64_t which = mix(static_cast<std::uint64_t>(tag) + 0x67726f7570);
  for (const std::int32_t member : members)
    which = mix(which ^ static_cast<std::uint64_t>(member)) + 1;
  static std::mutex mutex;  // with another tag another thread may do the same
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex);
    number = parent.groups[which]++;
  }
  birth[0] = mix(parent.birth[0] ^ mix(which + number));
  birth[1] = mix(parent.birth[1] + which) ^ number;
}

int handle_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm) {
  const NativeCall inside;
  const int code = native.Comm_create_group(comm, group, tag, newcomm);
  if (code != MPI_SUCCESS || *newcomm == MPI_COMM_NULL) return code;
  Comm* parent = find_or_adopt(comm);
  if (parent == nullptr || parent->foreign) return code;
  std::uint64_t birth[2];
  next_group_birth(*parent, *newcomm, tag, birth);
  adopt(*newcomm, birth);
  return code;
}

// What comes of two groups, or of none of the communicators: its first member gives it a number. A
// member of another world (spawned, or connected) may be without tutti, and all members see it.
int create_between(MPI_Comm* newcomm, int code) {
  if (code != MPI_SUCCESS || *newcomm == MPI_COMM_NULL) return code;
  static std::atomic<std::uint64_t> made{0};
  int size = 0;
  std::vector<std::int32_t> members;
  native.Comm_size(*newcomm, &size);
  if (!world_ranks(*newcomm, size, &members)) return code;
  const auto first = static_cast<std::uint64_t>(members.front());
  const std::uint64_t number = made.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t birth[2] = {mix(first + 0x6265747765656e), mix(number + 1)};
  if (const int told = native.Bcast(birth, sizeof birth, MPI_BYTE, 0, *newcomm);
      told != MPI_SUCCESS)
    return told;
  adopt(*newcomm, birth);
  return MPI_SUCCESS;
}

int handle_Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm* newcomm) {
  const NativeCall inside;
  return create_between(newcomm, native.Intercomm_merge(intercomm, high, newcomm));
}

int handle_Comm_create_from_group(MPI_Group group, const char* tag, MPI_Info info,
                                  MPI_Errhandler handler, MPI_Comm* newcomm) {
  const NativeCall inside;
  return create_between(newcomm, native.Comm_create_from_group(group, tag, info, handler, newcomm));
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

int handle_Comm_free(MPI_Comm* handle) {
  const NativeCall inside;
  if (handle == nullptr) return native.Comm_free(handle);
  const Freeing freeing(*handle);
  return native.Comm_free(handle);
}

// Waits for pending communication, so tutti's must be over first.
int handle_Comm_disconnect(MPI_Comm* handle) {
  if (handle == nullptr) return native.Comm_disconnect(handle);
  if (Comm* comm = *handle == MPI_COMM_NULL ? nullptr : find_comm(*handle)) drain(comm);
  const NativeCall inside;
  const Freeing freeing(*handle);
  return native.Comm_disconnect(handle);
}

}  // namespace

void install_comms(void** handlers) noexcept {
#define TUTTI_INSTALL(name) handlers[TUTTI_MPI_##name] = reinterpret_cast<void*>(&handle_##name)
  TUTTI_INSTALL(Comm_dup);
  TUTTI_INSTALL(Comm_dup_with_info);
  TUTTI_INSTALL(Comm_idup);
  TUTTI_INSTALL(Comm_idup_with_info);
  TUTTI_INSTALL(Comm_split);
  TUTTI_INSTALL(Comm_split_type);
  TUTTI_INSTALL(Comm_create);
  TUTTI_INSTALL(Comm_create_group);
  TUTTI_INSTALL(Intercomm_merge);
  TUTTI_INSTALL(Comm_create_from_group);
  TUTTI_INSTALL(Cart_create);
  TUTTI_INSTALL(Cart_sub);
  TUTTI_INSTALL(Graph_create);
  TUTTI_INSTALL(Dist_graph_create);
  TUTTI_INSTALL(Dist_graph_create_adjacent);
  TUTTI_INSTALL(Comm_free);
  TUTTI_INSTALL(Comm_disconnect);
#undef TUTTI_INSTALL
}

}  // namespace tutti::mpi
