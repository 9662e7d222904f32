/* Blocks of more than 2^31 bytes, and counts of more than 2^31 elements, in collectives with lists:
 * plain with large types, and in the large-count forms. All but the end of a block is one small
 * piece of memory, mapped again and again, so a rank needs little; the end is memory of its own,
 * where a count that was cut short shows.
 *
 *   large [all]      with 2 ranks; "all" takes a minute
 *
 * Where the MPI has no large-count forms (Open MPI), tutti has them. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { kPiece = 16 << 20, kEnd = 1 << 20, kSmall = 1000 };
static const size_t kBlock = ((size_t)1 << 31) + kPiece + kEnd; /* a multiple of kEnd */

static int rank, size;

#if defined OMPI_MAJOR_VERSION
#define WEAK(name, ...) extern int MPI_##name(__VA_ARGS__) __attribute__((weak));
#define LIST const MPI_Count[], const MPI_Aint[]
WEAK(Gatherv_c, const void*, MPI_Count, MPI_Datatype, void*, LIST, MPI_Datatype, int, MPI_Comm)
WEAK(Scatterv_c, const void*, LIST, MPI_Datatype, void*, MPI_Count, MPI_Datatype, int, MPI_Comm)
WEAK(Allgatherv_c, const void*, MPI_Count, MPI_Datatype, void*, LIST, MPI_Datatype, MPI_Comm)
WEAK(Ialltoallv_c, const void*, LIST, MPI_Datatype, void*, LIST, MPI_Datatype, MPI_Comm,
     MPI_Request*)
WEAK(Alltoallw_c, const void*, LIST, const MPI_Datatype[], void*, LIST, const MPI_Datatype[],
     MPI_Comm)
WEAK(Reduce_scatter_c, const void*, void*, const MPI_Count[], MPI_Datatype, MPI_Op, MPI_Comm)
WEAK(Neighbor_alltoallv_c, const void*, LIST, MPI_Datatype, void*, LIST, MPI_Datatype, MPI_Comm)
#endif

/* ---- memory */

/* A block and room for a small one behind it. */
static unsigned char* map_block(void) {
  const size_t repeated = kBlock - kEnd, own = kEnd + 4096;
  const int piece = memfd_create("piece", 0);
  unsigned char* const block =
      mmap(NULL, kBlock + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(piece >= 0 && ftruncate(piece, kPiece) == 0 && block != MAP_FAILED, "no memory");
  for (size_t at = 0; at < repeated; at += kPiece)
    mmap(block + at, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, piece, 0);
  mmap(block + repeated, own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
       0);
  close(piece);
  return block;
}

static unsigned char value(int of, size_t at) {
  return (unsigned char)((at % kPiece) * 7 + (at % kPiece) / 4096 + (size_t)of * 31);
}

static void fill(unsigned char* block, int of) {
  for (size_t i = 0; i < kPiece; i++) block[i] = value(of, i);
  for (size_t i = kBlock - kEnd; i < kBlock + kSmall; i++) block[i] = value(of, i);
}
static void clear(unsigned char* block) {
  memset(block, 0, kPiece);
  memset(block + kBlock - kEnd, 0, kEnd + kSmall);
}

/* What came from rank `of`; of one, where both operands are combined: of both. */
static void check_block(const unsigned char* block, int of, int both, const char* what) {
  for (size_t i = 0; i < kBlock; i += i == kPiece - 1 ? kBlock - kEnd - kPiece + 1 : 1) {
    const int wanted = both ? value(0, i) | value(1, i) : value(of, i);
    CHECK(block[i] == wanted, "%s: byte %zu is %d, not %d", what, i, block[i], wanted);
    if (block[i] != wanted) break;
  }
}
static void check_small(const unsigned char* small, int of, size_t first, const char* what) {
  for (size_t i = 0; i < kSmall; i++)
    CHECK(small[i] == value(of, first + i), "%s: byte %zu of the small block", what, i);
}

/* ---- calls: rank 0 has the large block for rank 1 or for all */

static unsigned char *out, *in;

static void by_large_types(void) {
  MPI_Datatype mebibyte;
  const int blocks = (int)(kBlock / kEnd), mine = rank == 0 ? blocks : 0;
  const int send[2] = {0, mine}, receive[2] = {rank == 1 ? blocks : 0, 0}, places[2] = {0, 0};
  MPI_Type_contiguous(kEnd, MPI_BYTE, &mebibyte);
  MPI_Type_commit(&mebibyte);
  clear(in);
  MPI_Alltoallv(out, send, places, mebibyte, in, receive, places, mebibyte, MPI_COMM_WORLD);
  if (rank == 1) check_block(in, 0, 0, "alltoallv of a large type");
  MPI_Type_free(&mebibyte);
}

static void gather_large_counts(int all) {
  const MPI_Count counts[2] = {(MPI_Count)kBlock, kSmall};
  const MPI_Aint behind[2] = {0, (MPI_Aint)kBlock};
  clear(in);
  MPI_Gatherv_c(out, counts[rank], MPI_BYTE, in, counts, behind, MPI_BYTE, 1, MPI_COMM_WORLD);
  if (rank == 1) check_block(in, 0, 0, "gatherv");
  if (rank == 1) check_small(in + kBlock, 1, 0, "gatherv");
  if (!all) return;
  clear(in);
  MPI_Allgatherv_c(out, counts[rank], MPI_BYTE, in, counts, behind, MPI_BYTE, MPI_COMM_WORLD);
  check_block(in, 0, 0, "allgatherv");
  check_small(in + kBlock, 1, 0, "allgatherv");
}

static void send_large_counts(void) {
  const MPI_Count large = (MPI_Count)kBlock, small = kSmall;
  const MPI_Count to_next[2] = {rank == 0 ? 0 : small, rank == 0 ? large : 0};
  const MPI_Count from_next[2] = {rank == 0 ? 0 : large, rank == 0 ? small : 0};
  const MPI_Aint here[2] = {0, 0};
  const MPI_Datatype bytes[2] = {MPI_BYTE, MPI_BYTE};
  MPI_Request request;
  clear(in);
  const MPI_Count turned[2] = {small, large};
  const MPI_Aint before[2] = {(MPI_Aint)kBlock, 0};
  MPI_Scatterv_c(out, turned, before, MPI_BYTE, in, turned[rank], MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank == 1) check_block(in, 0, 0, "scatterv");
  if (rank == 0) check_small(in, 0, kBlock, "scatterv");
  clear(in);
  MPI_Ialltoallv_c(out, to_next, here, MPI_BYTE, in, from_next, here, MPI_BYTE, MPI_COMM_WORLD,
                   &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 1) check_block(in, 0, 0, "ialltoallv");
  if (rank == 0) check_small(in, 1, 0, "ialltoallv");
  clear(in);
  MPI_Alltoallw_c(out, to_next, here, bytes, in, from_next, here, bytes, MPI_COMM_WORLD);
  if (rank == 1) check_block(in, 0, 0, "alltoallw");
}

static void reduce_large_counts(void) {
  const MPI_Count counts[2] = {(MPI_Count)kBlock, kSmall};
  clear(in);
  MPI_Reduce_scatter_c(out, in, counts, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
  if (rank == 0) check_block(in, 0, 1, "reduce_scatter");
  for (size_t i = 0; i < kSmall && rank == 1; i++)
    CHECK(in[i] == (value(0, kBlock + i) | value(1, kBlock + i)), "reduce_scatter: byte %zu", i);
}

static void between_neighbours(void) {
  MPI_Comm graph;
  const int other = 1 - rank;
  const MPI_Count to[1] = {rank == 0 ? (MPI_Count)kBlock : kSmall};
  const MPI_Count from[1] = {rank == 0 ? kSmall : (MPI_Count)kBlock};
  const MPI_Aint here[1] = {0};
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &other, MPI_UNWEIGHTED, 1, &other,
                                 MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
  clear(in);
  MPI_Neighbor_alltoallv_c(out, to, here, MPI_BYTE, in, from, here, MPI_BYTE, graph);
  if (rank == 1) check_block(in, 0, 0, "neighbor_alltoallv");
  if (rank == 0) check_small(in, 1, 0, "neighbor_alltoallv");
  MPI_Comm_free(&graph);
}

/* Elements of no size: their number means nothing, and no sum of them may either. */
static void without_bytes(void) {
  MPI_Datatype nothing;
  MPI_Request request;
  const MPI_Count many = (MPI_Count)1 << 33, counts[2] = {many, many};
  const MPI_Aint places[2] = {(MPI_Aint)1 << 34, 0};
  MPI_Type_contiguous(0, MPI_INT, &nothing);
  MPI_Type_commit(&nothing);
  MPI_Ialltoallv_c(out, counts, places, nothing, in, counts, places, nothing, MPI_COMM_WORLD,
                   &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Allgatherv_c(out, many, nothing, in, counts, places, nothing, MPI_COMM_WORLD);
  MPI_Gatherv_c(out, many, nothing, in, counts, places, nothing, 0, MPI_COMM_WORLD);
  MPI_Type_free(&nothing);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(size == 2, "%d ranks", size);
  out = map_block();
  in = map_block();
  fill(out, rank);
  const int all = argc > 1 && strcmp(argv[1], "all") == 0;
  by_large_types();
  gather_large_counts(all);
  if (all) {
    send_large_counts();
    reduce_large_counts();
    between_neighbours();
  }
  without_bytes();
  return finish("large");
}
