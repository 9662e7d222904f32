/* Calls every collective of the standard (MPI 4.1, chapters 6 and 8) in every form that the MPI
 * has, once each: on the world, on MPI_COMM_SELF, on a communicator of one rank, on one with a
 * topology, and on an intercommunicator. What a report must then name is in
 * tests/mpi/test_report.py. */
#include "check.h"

enum { kMost = 64 };

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define PERSISTENT 1
#else
#define PERSISTENT 0
#endif

/* Large counts, as bindings look for them: a library may lack them and tutti then has them. */
#if defined OMPI_MAJOR_VERSION
#define WEAK(name, ...) extern int MPI_##name(__VA_ARGS__) __attribute__((weak));
#define FORMS(name, iname, ...)              \
  WEAK(name##_c, __VA_ARGS__)                \
  WEAK(iname##_c, __VA_ARGS__, MPI_Request*) \
  WEAK(name##_init_c, __VA_ARGS__, MPI_Info, MPI_Request*)
#define BLOCK MPI_Count, MPI_Datatype
#define LIST const MPI_Count[], const MPI_Aint[], MPI_Datatype
#define TYPED const MPI_Count[], const MPI_Aint[], const MPI_Datatype[]
FORMS(Bcast, Ibcast, void*, BLOCK, int, MPI_Comm)
FORMS(Reduce, Ireduce, const void*, void*, BLOCK, MPI_Op, int, MPI_Comm)
FORMS(Allreduce, Iallreduce, const void*, void*, BLOCK, MPI_Op, MPI_Comm)
FORMS(Reduce_scatter_block, Ireduce_scatter_block, const void*, void*, BLOCK, MPI_Op, MPI_Comm)
FORMS(Reduce_scatter, Ireduce_scatter, const void*, void*, const MPI_Count[], MPI_Datatype, MPI_Op,
      MPI_Comm)
FORMS(Scan, Iscan, const void*, void*, BLOCK, MPI_Op, MPI_Comm)
FORMS(Exscan, Iexscan, const void*, void*, BLOCK, MPI_Op, MPI_Comm)
FORMS(Gather, Igather, const void*, BLOCK, void*, BLOCK, int, MPI_Comm)
FORMS(Gatherv, Igatherv, const void*, BLOCK, void*, LIST, int, MPI_Comm)
FORMS(Scatter, Iscatter, const void*, BLOCK, void*, BLOCK, int, MPI_Comm)
FORMS(Scatterv, Iscatterv, const void*, LIST, void*, BLOCK, int, MPI_Comm)
FORMS(Allgather, Iallgather, const void*, BLOCK, void*, BLOCK, MPI_Comm)
FORMS(Allgatherv, Iallgatherv, const void*, BLOCK, void*, LIST, MPI_Comm)
FORMS(Alltoall, Ialltoall, const void*, BLOCK, void*, BLOCK, MPI_Comm)
FORMS(Alltoallv, Ialltoallv, const void*, LIST, void*, LIST, MPI_Comm)
FORMS(Alltoallw, Ialltoallw, const void*, TYPED, void*, TYPED, MPI_Comm)
FORMS(Neighbor_allgather, Ineighbor_allgather, const void*, BLOCK, void*, BLOCK, MPI_Comm)
FORMS(Neighbor_allgatherv, Ineighbor_allgatherv, const void*, BLOCK, void*, LIST, MPI_Comm)
FORMS(Neighbor_alltoall, Ineighbor_alltoall, const void*, BLOCK, void*, BLOCK, MPI_Comm)
FORMS(Neighbor_alltoallv, Ineighbor_alltoallv, const void*, LIST, void*, LIST, MPI_Comm)
FORMS(Neighbor_alltoallw, Ineighbor_alltoallw, const void*, TYPED, void*, TYPED, MPI_Comm)
WEAK(Win_create_c, void*, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, MPI_Win*)
WEAK(Win_allocate_c, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*)
WEAK(Win_allocate_shared_c, MPI_Aint, MPI_Aint, MPI_Info, MPI_Comm, void*, MPI_Win*)
#define HAS_LARGE(name) (MPI_##name##_c != NULL)
#define ALL_BETWEEN_GROUPS 0 /* not all persistent ones */
#else
#define HAS_LARGE(name) 1
#define ALL_BETWEEN_GROUPS 1
#endif

static int rank, size;
static int out[kMost], in[kMost]; /* `out[i]` goes to partner i, whose answer comes to `in[i]` */
static int ones[kMost], places[kMost], bytes[kMost];
static MPI_Count large_ones[kMost];
static MPI_Aint large_places[kMost], large_bytes[kMost];
static MPI_Datatype types[kMost];
static MPI_Request request;
static int partners; /* blocks that a call brings here; 0: nothing to be compared */

static void begin(void) {
  for (int i = 0; i < kMost; i++) {
    out[i] = 7;
    in[i] = -1;
  }
}

static void arrived(const char* what) {
  for (int i = 0; i < partners; i++) CHECK(in[i] == 7, "%s: block %d is %d", what, i, in[i]);
}

static void complete(const char* what, int persistent) {
  if (persistent) MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (persistent) MPI_Request_free(&request);
  arrived(what);
}

/* Arguments as in the blocking form. `persistent` may be 0 where an MPI lacks that. */
#define PLAIN(name, iname, persistent, ...)         \
  do {                                              \
    begin();                                        \
    MPI_##name(__VA_ARGS__);                        \
    arrived(#name);                                 \
    begin();                                        \
    MPI_##iname(__VA_ARGS__, &request);             \
    complete(#iname, 0);                            \
    WHERE_PERSISTENT(persistent, name, __VA_ARGS__) \
  } while (0)
#if PERSISTENT
#define WHERE_PERSISTENT(persistent, name, ...)              \
  if (persistent) {                                          \
    begin();                                                 \
    MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request); \
    complete(#name "_init", 1);                              \
  }
#else
#define WHERE_PERSISTENT(persistent, name, ...)
#endif

#define LARGE(name, iname, persistent, ...)               \
  do {                                                    \
    if (!HAS_LARGE(name)) break;                          \
    begin();                                              \
    MPI_##name##_c(__VA_ARGS__);                          \
    arrived(#name "_c");                                  \
    begin();                                              \
    MPI_##iname##_c(__VA_ARGS__, &request);               \
    complete(#iname "_c", 0);                             \
    WHERE_PERSISTENT_LARGE(persistent, name, __VA_ARGS__) \
  } while (0)
#if PERSISTENT
#define WHERE_PERSISTENT_LARGE(persistent, name, ...)          \
  if (persistent) {                                            \
    begin();                                                   \
    MPI_##name##_init_c(__VA_ARGS__, MPI_INFO_NULL, &request); \
    complete(#name "_init_c", 1);                              \
  }
#else
#define WHERE_PERSISTENT_LARGE(persistent, name, ...)
#endif

/* `root`: as the call wants it on this rank; `at_root`: blocks that come to it; `inter`: what has
 * no meaning between two groups is left out. */
static void every(MPI_Comm comm, int root, int at_root, int blocks, int inter) {
  int all = !inter || ALL_BETWEEN_GROUPS;
  partners = 0;
  PLAIN(Barrier, Ibarrier, all, comm);
  PLAIN(Bcast, Ibcast, all, in, 1, MPI_INT, root, comm);
  LARGE(Bcast, Ibcast, all, in, 1, MPI_INT, root, comm);
  PLAIN(Reduce, Ireduce, all, out, in, 1, MPI_INT, MPI_MAX, root, comm);
  LARGE(Reduce, Ireduce, all, out, in, 1, MPI_INT, MPI_MAX, root, comm);
  PLAIN(Allreduce, Iallreduce, all, out, in, 1, MPI_INT, MPI_MAX, comm);
  LARGE(Allreduce, Iallreduce, all, out, in, 1, MPI_INT, MPI_MAX, comm);
  PLAIN(Reduce_scatter_block, Ireduce_scatter_block, all, out, in, 1, MPI_INT, MPI_MAX, comm);
  LARGE(Reduce_scatter_block, Ireduce_scatter_block, all, out, in, 1, MPI_INT, MPI_MAX, comm);
  partners = at_root;
  PLAIN(Gather, Igather, all, out, 1, MPI_INT, in, 1, MPI_INT, root, comm);
  LARGE(Gather, Igather, all, out, 1, MPI_INT, in, 1, MPI_INT, root, comm);
  PLAIN(Gatherv, Igatherv, all, out, 1, MPI_INT, in, ones, places, MPI_INT, root, comm);
  LARGE(Gatherv, Igatherv, all, out, 1, MPI_INT, in, large_ones, large_places, MPI_INT, root, comm);
  partners = 0;
  PLAIN(Scatter, Iscatter, all, out, 1, MPI_INT, in, 1, MPI_INT, root, comm);
  LARGE(Scatter, Iscatter, all, out, 1, MPI_INT, in, 1, MPI_INT, root, comm);
  PLAIN(Scatterv, Iscatterv, all, out, ones, places, MPI_INT, in, 1, MPI_INT, root, comm);
  LARGE(Scatterv, Iscatterv, all, out, large_ones, large_places, MPI_INT, in, 1, MPI_INT, root,
        comm);
  partners = blocks;
  PLAIN(Allgather, Iallgather, all, out, 1, MPI_INT, in, 1, MPI_INT, comm);
  LARGE(Allgather, Iallgather, all, out, 1, MPI_INT, in, 1, MPI_INT, comm);
  PLAIN(Allgatherv, Iallgatherv, all, out, 1, MPI_INT, in, ones, places, MPI_INT, comm);
  LARGE(Allgatherv, Iallgatherv, all, out, 1, MPI_INT, in, large_ones, large_places, MPI_INT, comm);
  PLAIN(Alltoall, Ialltoall, all, out, 1, MPI_INT, in, 1, MPI_INT, comm);
  LARGE(Alltoall, Ialltoall, all, out, 1, MPI_INT, in, 1, MPI_INT, comm);
  PLAIN(Alltoallv, Ialltoallv, all, out, ones, places, MPI_INT, in, ones, places, MPI_INT, comm);
  LARGE(Alltoallv, Ialltoallv, all, out, large_ones, large_places, MPI_INT, in, large_ones,
        large_places, MPI_INT, comm);
  PLAIN(Alltoallw, Ialltoallw, all, out, ones, bytes, types, in, ones, bytes, types, comm);
  LARGE(Alltoallw, Ialltoallw, all, out, large_ones, large_bytes, types, in, large_ones,
        large_bytes, types, comm);
  partners = inter ? 0 : 1;
  PLAIN(Reduce_scatter, Ireduce_scatter, all, out, in, ones, MPI_INT, MPI_MAX, comm);
  LARGE(Reduce_scatter, Ireduce_scatter, all, out, in, large_ones, MPI_INT, MPI_MAX, comm);
  if (inter) return;
  PLAIN(Scan, Iscan, all, out, in, 1, MPI_INT, MPI_MAX, comm);
  LARGE(Scan, Iscan, all, out, in, 1, MPI_INT, MPI_MAX, comm);
  partners = rank == 0 || blocks == 1 ? 0 : 1;
  PLAIN(Exscan, Iexscan, all, out, in, 1, MPI_INT, MPI_MAX, comm);
  LARGE(Exscan, Iexscan, all, out, in, 1, MPI_INT, MPI_MAX, comm);
}

static void neighbours(MPI_Comm comm, int sources) {
  partners = sources;
  PLAIN(Neighbor_allgather, Ineighbor_allgather, 1, out, 1, MPI_INT, in, 1, MPI_INT, comm);
  LARGE(Neighbor_allgather, Ineighbor_allgather, 1, out, 1, MPI_INT, in, 1, MPI_INT, comm);
  PLAIN(Neighbor_allgatherv, Ineighbor_allgatherv, 1, out, 1, MPI_INT, in, ones, places, MPI_INT,
        comm);
  LARGE(Neighbor_allgatherv, Ineighbor_allgatherv, 1, out, 1, MPI_INT, in, large_ones, large_places,
        MPI_INT, comm);
  PLAIN(Neighbor_alltoall, Ineighbor_alltoall, 1, out, 1, MPI_INT, in, 1, MPI_INT, comm);
  LARGE(Neighbor_alltoall, Ineighbor_alltoall, 1, out, 1, MPI_INT, in, 1, MPI_INT, comm);
  PLAIN(Neighbor_alltoallv, Ineighbor_alltoallv, 1, out, ones, places, MPI_INT, in, ones, places,
        MPI_INT, comm);
  LARGE(Neighbor_alltoallv, Ineighbor_alltoallv, 1, out, large_ones, large_places, MPI_INT, in,
        large_ones, large_places, MPI_INT, comm);
  PLAIN(Neighbor_alltoallw, Ineighbor_alltoallw, 1, out, ones, large_bytes, types, in, ones,
        large_bytes, types, comm);
  LARGE(Neighbor_alltoallw, Ineighbor_alltoallw, 1, out, large_ones, large_bytes, types, in,
        large_ones, large_bytes, types, comm);
}

static void topologies(void) {
  int dims[1] = {size}, periods[1] = {1}, next = (rank + 1) % size,
      previous = (rank + size - 1) % size;
  MPI_Comm cart, graph;
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &cart);
  neighbours(cart, 2);
  MPI_Comm_free(&cart);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, MPI_UNWEIGHTED, 1, &next,
                                 MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
  neighbours(graph, 1);
  MPI_Comm_free(&graph);
  dims[0] = 1;
  MPI_Cart_create(MPI_COMM_SELF, 1, dims, periods, 0, &cart);
  neighbours(cart, 2);
  MPI_Comm_free(&cart);
}

static void between_groups(void) {
  MPI_Comm half, inter;
  int mine = rank % 2, remote;
  MPI_Comm_split(MPI_COMM_WORLD, mine, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - mine, 5, &inter);
  MPI_Comm_remote_size(inter, &remote);
  int root = mine == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
  every(inter, root, root == MPI_ROOT ? remote : 0, remote, 1);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < kMost; i++) {
    ones[i] = 1;
    large_ones[i] = 1;
    places[i] = i;
    large_places[i] = i;
    bytes[i] = i * (int)sizeof(int);
    large_bytes[i] = bytes[i];
    types[i] = MPI_INT;
  }
  MPI_Comm one;
  every(MPI_COMM_WORLD, 0, rank == 0 ? size : 0, size, 0);
  every(MPI_COMM_SELF, 0, 1, 1, 0);
  MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &one);
  every(one, 0, 1, 1, 0);
  MPI_Comm_free(&one);
  topologies();
  between_groups();
  MPI_Win window;
  void* allocated;
  MPI_Win_create(in, sizeof in, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  MPI_Win_fence(0, window);
  MPI_Win_free(&window);
  if (HAS_LARGE(Win_create)) {
    MPI_Win_create_c(in, sizeof in, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_free(&window);
    MPI_Win_allocate_c(sizeof in, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &window);
    MPI_Win_free(&window);
    MPI_Win_allocate_shared_c(sizeof in, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &allocated, &window);
    MPI_Win_free(&window);
  }
  return finish("everything");
}
