/* Sums under TUTTI_FIXED_ORDER=exact, bit by bit: `exact FILE`.
 *
 * FILE (made by test_exact.py for this number of ranks) has, as native doubles, what each rank
 * contributes to each element, and then for each rank the sum of the ranks up to it, rounded once;
 * and the same again as floats. Every reduction in every form must give those bits. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

typedef struct {
  MPI_Datatype type;
  size_t bytes;       /* of a number */
  int parts;          /* numbers of an element */
  int count;          /* elements, a multiple of the number of ranks */
  char *terms, *sums; /* of each rank, one after the other */
} Data;

static int rank, size;
static char *send, *recv;
static int* counts;

static size_t vector_bytes(const Data* d) { return d->bytes * d->parts * d->count; }

static const char* sums_of(const Data* d, int ranks) {
  return d->sums + (ranks - 1) * vector_bytes(d);
}

/* What the call must have left in recv: `bytes` of the sums of so many ranks, from `begin` on. */
static void compare(const Data* d, const char* what, int ranks, size_t begin, size_t bytes) {
  CHECK(memcmp(recv, sums_of(d, ranks) + begin, bytes) == 0, "%s of %d elements: other bits", what,
        d->count);
  memset(recv, 0x5a, vector_bytes(d));
}

/* The call that `form` asks for: 0 blocking, 1 non-blocking, 2 persistent, 3 blocking with large
 * counts. `args` without its last two: what forms 1 and 2 add. */
#if MPI_VERSION >= 4
#define LARGE(name, ...) MPI_##name##_c(__VA_ARGS__)
#define FORMS 4
#else
#define LARGE(name, ...) (void)0
#define FORMS 3
#endif
#ifdef HAVE_PERSISTENT_COLLECTIVES
#define PERSISTENT(name, ...) MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request)
enum { kPersistent = 1 };
#else
#define PERSISTENT(name, ...) (void)0
enum { kPersistent = 0 };
#endif

#define CALL(name, ...)                      \
  do {                                       \
    MPI_Request request = MPI_REQUEST_NULL;  \
    if (form == 0) {                         \
      MPI_##name(__VA_ARGS__);               \
    } else if (form == 1) {                  \
      MPI_I##name(__VA_ARGS__, &request);    \
      MPI_Wait(&request, MPI_STATUS_IGNORE); \
    } else if (form == 2) {                  \
      PERSISTENT(name, __VA_ARGS__);         \
      MPI_Start(&request);                   \
      MPI_Wait(&request, MPI_STATUS_IGNORE); \
      MPI_Request_free(&request);            \
    } else {                                 \
      LARGE(name, __VA_ARGS__);              \
    }                                        \
  } while (0)
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_IReduce MPI_Ireduce
#define MPI_IScan MPI_Iscan
#define MPI_IExscan MPI_Iexscan
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block

static void sum_all(const Data* d, int form, const void* from, MPI_Comm comm) {
  CALL(Allreduce, from, recv, d->count, d->type, MPI_SUM, comm);
  compare(d, "allreduce", size, 0, vector_bytes(d));
}

static void sum_to_root(const Data* d, int form, int root, MPI_Comm comm) {
  CALL(Reduce, send, recv, d->count, d->type, MPI_SUM, root, comm);
  if (rank == root) compare(d, "reduce", size, 0, vector_bytes(d));
}

static void scan(const Data* d, int form, MPI_Comm comm) {
  CALL(Scan, send, recv, d->count, d->type, MPI_SUM, comm);
  compare(d, "scan", rank + 1, 0, vector_bytes(d));
  CALL(Exscan, send, recv, d->count, d->type, MPI_SUM, comm);
  if (rank > 0) compare(d, "exscan", rank, 0, vector_bytes(d));
}

static void scatter(const Data* d, int form, MPI_Comm comm) {
  const size_t block = vector_bytes(d) / size;
  CALL(Reduce_scatter_block, send, recv, d->count / size, d->type, MPI_SUM, comm);
  compare(d, "reduce_scatter_block", size, rank * block, block);
  /* With listed counts, of which one is 0 where there are two or more. */
  for (int r = 0; r < size; ++r) counts[r] = d->count / size;
  if (size > 1) {
    counts[0] += counts[1];
    counts[1] = 0;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  if (form == 0) {
    MPI_Reduce_scatter(send, recv, counts, d->type, MPI_SUM, comm);
  } else {
    MPI_Ireduce_scatter(send, recv, counts, d->type, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  const int two = size > 1 && rank < 2;
  if (!two) compare(d, "reduce_scatter", size, rank * block, block);
  if (two && rank == 0) compare(d, "reduce_scatter", size, 0, 2 * block);
}

static void check_data(const Data* d, int persistent, MPI_Comm comm) {
  memcpy(send, d->terms + rank * vector_bytes(d), vector_bytes(d));
  for (int form = 0; form < FORMS; ++form) {
    if (form == 2 && !persistent) continue;
    sum_all(d, form, send, comm);
    memcpy(recv, send, vector_bytes(d));
    sum_all(d, form, MPI_IN_PLACE, comm);
    sum_to_root(d, form, size - 1, comm);
    sum_to_root(d, form, 0, comm);
    scan(d, form, comm);
    scatter(d, form, comm);
  }
}

static void read_data(FILE* file, Data* d) {
  const size_t bytes = vector_bytes(d) * size;
  d->terms = malloc(bytes);
  d->sums = malloc(bytes);
  if (fread(d->terms, 1, bytes, file) != bytes || fread(d->sums, 1, bytes, file) != bytes) {
    fprintf(stderr, "the file is too short\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  FILE* file = argc > 1 ? fopen(argv[1], "rb") : NULL;
  int64_t count = 0;
  if (file == NULL || fread(&count, sizeof count, 1, file) != 1) {
    fprintf(stderr, "exact FILE [not persistent]\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  const int persistent = kPersistent && argc < 3;
  Data doubles = {MPI_DOUBLE, sizeof(double), 1, (int)count, NULL, NULL};
  Data floats = {MPI_FLOAT, sizeof(float), 1, (int)count, NULL, NULL};
  read_data(file, &doubles);
  read_data(file, &floats);
  fclose(file);
  send = malloc(vector_bytes(&doubles));
  recv = malloc(vector_bytes(&doubles));
  counts = malloc(size * sizeof *counts);
  check_data(&doubles, persistent, MPI_COMM_WORLD);
  check_data(&floats, persistent, MPI_COMM_WORLD);
  if (count % (2 * size) == 0) { /* two numbers are one complex one */
    Data complexes = doubles;
    complexes.type = MPI_C_DOUBLE_COMPLEX;
    complexes.parts = 2;
    complexes.count /= 2;
    check_data(&complexes, persistent, MPI_COMM_WORLD);
    complexes = floats;
    complexes.type = MPI_C_FLOAT_COMPLEX;
    complexes.parts = 2;
    complexes.count /= 2;
    check_data(&complexes, persistent, MPI_COMM_WORLD);
  }
  return finish("exact");
}
