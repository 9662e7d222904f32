/* Every constructor of derived datatypes: what MPI_Bcast and MPI_Allgather deliver must be what
 * MPI_Pack takes and MPI_Unpack puts back. */
#include "check.h"

enum { kBytes = 1 << 16 };

static int rank, size;

/* Not given: the MPI serves everything, and Intel MPI 2021.18 with 3 ranks delivers wrong blocks
 * from MPI_Allgather when the send type is a vector and the receive type is not. */
static int served;

static int is_intel(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(version, &length);
  return strstr(version, "Intel") != NULL;
}

/* Sends one count of `type` from each rank to all as packed data, receives into `type`, and the
 * reverse. */
static void test_type(const char* name, MPI_Datatype type, int count) {
  MPI_Type_commit(&type);
  int type_size;
  MPI_Aint lb, extent, true_lb, true_extent;
  MPI_Type_size(type, &type_size);
  MPI_Type_get_extent(type, &lb, &extent);
  MPI_Type_get_true_extent(type, &true_lb, &true_extent);
  const int bytes = type_size * count;
  unsigned char* memory = malloc(kBytes);
  unsigned char* expected = malloc(kBytes);
  unsigned char* packed = malloc((size_t)bytes * (size_t)size + 1);
  unsigned char* copy = malloc((size_t)bytes + 1);
  unsigned char* at = memory + kBytes / 4; /* room for negative displacements */
  for (int root = 0; root < size; root++) {
    for (int i = 0; i < kBytes; i++)
      memory[i] = rank == root ? (unsigned char)(i * 7 + i / 256 + root) : 0xee;
    for (int i = 0; i < kBytes; i++) expected[i] = rank == root ? memory[i] : 0xee;
    for (int i = 0; i < bytes; i++) copy[i] = 0;
    int position = 0;
    MPI_Comm world;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (rank == root) MPI_Pack(at, count, type, copy, bytes, &position, MPI_COMM_SELF);
    MPI_Bcast(copy, bytes, MPI_PACKED, root, world); /* the truth, as bytes */
    position = 0;
    if (rank != root)
      MPI_Unpack(copy, bytes, &position, expected + kBytes / 4, count, type, MPI_COMM_SELF);
    MPI_Bcast(at, count, type, root, world);
    CHECK(memcmp(memory, expected, kBytes) == 0, "bcast of %s from %d", name, root);
    /* As a send type only. */
    if (!served && is_intel()) {
      MPI_Comm_free(&world);
      continue;
    }
    MPI_Allgather(at, count, type, packed, bytes, MPI_PACKED, world);
    for (int r = 0; r < size; r++) {
      CHECK(memcmp(packed + r * bytes, copy, (size_t)bytes) == 0, "allgather of %s, block of %d",
            name, r);
    }
    /* As a receive type only. */
    memset(memory, 0xee, kBytes);
    MPI_Scatter(packed, bytes, MPI_PACKED, at, count, type, root, world);
    position = 0;
    memset(copy, 0, (size_t)bytes);
    MPI_Pack(at, count, type, copy, bytes, &position, MPI_COMM_SELF);
    CHECK(memcmp(packed, copy, (size_t)bytes) == 0, "scatter of %s", name);
    MPI_Comm_free(&world);
  }
  free(memory);
  free(expected);
  free(packed);
  free(copy);
  MPI_Type_free(&type);
}

static void test_basic(void) {
  MPI_Datatype type, inner;
  MPI_Type_contiguous(5, MPI_INT, &type);
  test_type("contiguous", type, 3);
  MPI_Type_vector(4, 2, 5, MPI_SHORT, &type);
  test_type("vector", type, 3);
  MPI_Type_vector(3, 1, -2, MPI_INT, &type);
  test_type("vector with negative stride", type, 1);
  MPI_Type_create_hvector(6, 1, 13, MPI_CHAR, &type);
  test_type("hvector", type, 2);
  MPI_Type_vector(3, 2, 4, MPI_DOUBLE, &inner);
  MPI_Type_create_hvector(2, 1, 200, inner, &type);
  MPI_Type_free(&inner);
  test_type("hvector of vectors", type, 2);
  MPI_Type_dup(MPI_DOUBLE, &type);
  test_type("dup", type, 7);
  MPI_Type_create_resized(MPI_INT, -4, 20, &type);
  test_type("resized", type, 6);
  MPI_Type_contiguous(2, MPI_DOUBLE_INT, &type);
  test_type("padded pairs", type, 3);
}

static void test_indexed(void) {
  MPI_Datatype type, inner;
  int lengths[] = {2, 0, 1, 3}, displs[] = {7, 3, -2, 1};
  MPI_Aint bytes[] = {40, 8, -16, 100};
  MPI_Type_indexed(4, lengths, displs, MPI_INT, &type);
  test_type("indexed", type, 2);
  MPI_Type_create_hindexed(4, lengths, bytes, MPI_FLOAT, &type);
  test_type("hindexed", type, 2);
  MPI_Type_create_indexed_block(4, 2, displs, MPI_LONG, &type);
  test_type("indexed_block", type, 1);
  MPI_Type_create_hindexed_block(4, 2, bytes, MPI_SHORT, &type);
  test_type("hindexed_block", type, 2);
  MPI_Datatype types[4] = {MPI_DOUBLE, MPI_CHAR, MPI_SHORT_INT, MPI_INT};
  MPI_Type_vector(2, 1, 3, MPI_INT, &inner);
  types[3] = inner;
  MPI_Type_create_struct(4, lengths, bytes, types, &type);
  MPI_Type_free(&inner);
  test_type("struct", type, 2);
}

static void test_arrays(void) {
  MPI_Datatype type;
  for (int fortran = 0; fortran < 2; fortran++) {
    int order = fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C;
    int sizes[] = {5, 6, 7}, subsizes[] = {2, 3, 4}, starts[] = {1, 2, 3};
    MPI_Type_create_subarray(3, sizes, subsizes, starts, order, MPI_INT, &type);
    test_type("subarray", type, 2);
    if (is_intel())
      continue; /* its darray takes consecutive rows where the standard has a stride */
    int gsizes[] = {7, 9, 5}, grid[] = {2, 3, 1};
    int distributions[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
    int arguments[] = {2, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    for (int r = 0; r < 6; r++) {
      MPI_Type_create_darray(6, r, 3, gsizes, distributions, arguments, grid, order, MPI_INT,
                             &type);
      test_type("darray", type, 1);
    }
  }
}

/* Types that come and go: a handle that is used again must not be taken for the old type. */
static void test_reuse(void) {
  for (int i = 0; i < 200; i++) {
    MPI_Datatype type;
    int data[16], root = i % size;
    MPI_Type_vector(2, 1, 1 + i % 7, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int k = 0; k < 16; k++) data[k] = rank == root ? k + i : -1;
    MPI_Bcast(data, 1, type, root, MPI_COMM_WORLD);
    CHECK(data[0] == i && data[1 + i % 7] == 1 + i % 7 + i, "type %d of many", i);
    CHECK(rank == root || i % 7 == 0 || data[1] == -1, "type %d of many wrote a gap", i);
    MPI_Type_free(&type);
  }
}

/* A type may be freed while a non-blocking call uses it. */
static void test_freed_while_pending(void) {
  MPI_Datatype type;
  MPI_Request request;
  int data[20];
  for (int i = 0; i < 20; i++) data[i] = rank == 0 ? i : -1;
  MPI_Type_vector(10, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Ibcast(data, 1, type, 0, MPI_COMM_WORLD, &request);
  MPI_Type_free(&type);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < 20; i += 2) CHECK(data[i] == i, "freed type, element %d", i);
}

/* MPI_BOTTOM with absolute addresses. */
static void test_bottom(void) {
  static int numbers[3];
  static double reals[2];
  MPI_Datatype type, types[] = {MPI_INT, MPI_DOUBLE};
  int lengths[] = {3, 2};
  MPI_Aint places[2];
  MPI_Get_address(numbers, &places[0]);
  MPI_Get_address(reals, &places[1]);
  MPI_Type_create_struct(2, lengths, places, types, &type);
  MPI_Type_commit(&type);
  if (rank == 0) numbers[2] = 42, reals[1] = 2.5;
  MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD);
  CHECK(numbers[2] == 42 && reals[1] == 2.5, "MPI_BOTTOM");
  MPI_Type_free(&type);
}

int main(int argc, char** argv) {
  served = argc > 2 && strcmp(argv[2], "served") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  test_basic();
  test_indexed();
  test_arrays();
  test_reuse();
  test_freed_while_pending();
  test_bottom();
  return finish("datatypes");
}
