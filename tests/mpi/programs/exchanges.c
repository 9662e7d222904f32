/* Two programs that live on exchanges: a matrix, distributed by rows, is transposed by
 * MPI_Alltoallw with subarrays (as FFTs do) and by MPI_Alltoallv, and keys are sorted by samples,
 * of which nobody knows beforehand who gets how many.
 *
 *   exchanges ROWS COLUMNS KEYS */
#include <stdint.h>

#include "check.h"

static int rank, size;

/* The part of `total` that a rank has. */
static int begin_of(int total, int r) { return (int)((long long)total * r / size); }
static int length_of(int total, int r) { return begin_of(total, r + 1) - begin_of(total, r); }

static double entry(int row, int column) { return row * 4099.0 + column; }

static void check_transposed(const char* how, const double* out, int rows, int columns) {
  const int mine = length_of(columns, rank), first = begin_of(columns, rank);
  for (int i = 0; i < mine; i++) {
    for (int row = 0; row < rows; row++) {
      if (out[i * rows + row] == entry(row, first + i)) continue;
      CHECK(0, "%s: entry %d, %d", how, row, first + i);
      return;
    }
  }
}

/* Columns of my rows, to whoever has them as rows. */
static void transpose_w(const double* in, double* out, int rows, int columns) {
  const int mine = length_of(rows, rank), theirs = length_of(columns, rank);
  int* ones = malloc(sizeof(int) * (size_t)size);
  int* zeros = calloc((size_t)size, sizeof(int));
  MPI_Datatype* sent = malloc(sizeof *sent * (size_t)size);
  MPI_Datatype* received = malloc(sizeof *received * (size_t)size);
  for (int r = 0; r < size; r++) {
    const int wide = length_of(columns, r), high = length_of(rows, r);
    ones[r] = 1;
    /* A column after the other, so that what arrives is rows. */
    MPI_Datatype column, resized;
    MPI_Type_vector(mine, 1, columns, MPI_DOUBLE, &column);
    MPI_Type_create_resized(column, 0, sizeof(double), &resized);
    int length = wide;
    MPI_Aint place = (MPI_Aint)((size_t)begin_of(columns, r) * sizeof(double));
    MPI_Type_create_hindexed(1, &length, &place, resized, &sent[r]);
    MPI_Type_commit(&sent[r]);
    MPI_Type_free(&column);
    MPI_Type_free(&resized);
    int sizes[] = {theirs, rows}, part[] = {theirs, high}, from[] = {0, begin_of(rows, r)};
    if (theirs > 0 && high > 0) {
      MPI_Type_create_subarray(2, sizes, part, from, MPI_ORDER_C, MPI_DOUBLE, &received[r]);
    } else {
      MPI_Type_contiguous(0, MPI_DOUBLE, &received[r]);
    }
    MPI_Type_commit(&received[r]);
  }
  MPI_Alltoallw(in, ones, zeros, sent, out, ones, zeros, received, MPI_COMM_WORLD);
  for (int r = 0; r < size; r++) {
    MPI_Type_free(&sent[r]);
    MPI_Type_free(&received[r]);
  }
  free(ones);
  free(zeros);
  free(sent);
  free(received);
}

static void transpose_v(const double* in, double* out, int rows, int columns) {
  const int mine = length_of(rows, rank), theirs = length_of(columns, rank);
  int* lists = malloc(sizeof(int) * 4 * (size_t)size);
  int *sc = lists, *sd = sc + size, *rc = sd + size, *rd = rc + size;
  double* packed = malloc(sizeof(double) * ((size_t)mine * (size_t)columns + 1));
  double* arrived = malloc(sizeof(double) * ((size_t)theirs * (size_t)rows + 1));
  int at = 0;
  for (int r = 0; r < size; r++) {
    sc[r] = mine * length_of(columns, r);
    sd[r] = at;
    rc[r] = theirs * length_of(rows, r);
    rd[r] = theirs * begin_of(rows, r);
    for (int c = 0; c < length_of(columns, r); c++)
      for (int i = 0; i < mine; i++) packed[at++] = in[i * columns + begin_of(columns, r) + c];
  }
  MPI_Alltoallv(packed, sc, sd, MPI_DOUBLE, arrived, rc, rd, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int r = 0; r < size; r++)
    for (int i = 0; i < theirs; i++)
      memcpy(out + i * rows + begin_of(rows, r), arrived + rd[r] + i * length_of(rows, r),
             sizeof(double) * (size_t)length_of(rows, r));
  free(packed);
  free(arrived);
  free(lists);
}

static void transpose(int rows, int columns) {
  const int mine = length_of(rows, rank), theirs = length_of(columns, rank);
  double* in = malloc(sizeof(double) * ((size_t)mine * (size_t)columns + 1));
  double* out = malloc(sizeof(double) * ((size_t)theirs * (size_t)rows + 1));
  for (int i = 0; i < mine; i++)
    for (int c = 0; c < columns; c++) in[i * columns + c] = entry(begin_of(rows, rank) + i, c);
  for (int way = 0; way < 2; way++) {
    memset(out, 0, sizeof(double) * (size_t)theirs * (size_t)rows);
    (way == 0 ? transpose_w : transpose_v)(in, out, rows, columns);
    check_transposed(way == 0 ? "alltoallw" : "alltoallv", out, rows, columns);
  }
  free(in);
  free(out);
}

/* ---- sample sort */

static int less(const void* a, const void* b) {
  const uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return (x > y) - (x < y);
}

/* Splitters: each rank's samples, gathered, sorted and cut at rank 0. */
static void find_splitters(const uint32_t* keys, int n, uint32_t* splitters) {
  const int samples = n < 16 ? n : 16;
  int* counts = malloc(sizeof(int) * 2 * (size_t)size);
  int *displs = counts + size, total = 0;
  uint32_t mine[16], *all = NULL;
  for (int i = 0; i < samples; i++) mine[i] = keys[(long long)n * i / samples];
  MPI_Gather(&samples, 1, MPI_INT, counts, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int r = 0; r < size && rank == 0; r++) {
    displs[r] = total;
    total += counts[r];
  }
  if (rank == 0) all = malloc(sizeof *all * ((size_t)total + 1));
  MPI_Gatherv(mine, samples, MPI_UINT32_T, all, counts, displs, MPI_UINT32_T, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    qsort(all, (size_t)total, sizeof *all, less);
    for (int r = 1; r < size; r++)
      splitters[r - 1] = total != 0 ? all[(long long)total * r / size] : 0;
  }
  MPI_Bcast(splitters, size - 1, MPI_UINT32_T, 0, MPI_COMM_WORLD);
  free(all);
  free(counts);
}

static void sort(int per_rank) {
  const int n = rank % 3 == 2 ? 0 : per_rank + 13 * rank; /* some have nothing */
  uint32_t* keys = malloc(sizeof *keys * ((size_t)n + 1));
  uint32_t* splitters = malloc(sizeof *splitters * (size_t)size);
  int* lists = calloc(4 * (size_t)size, sizeof(int));
  int *sc = lists, *sd = sc + size, *rc = sd + size, *rd = rc + size, total = 0;
  uint64_t before[2] = {0, 0}, after[2] = {0, 0};
  for (int i = 0; i < n; i++) {
    keys[i] = (uint32_t)(i * 2654435761u + (unsigned)rank * 97u) >> (rank % 5);
    before[0] += keys[i];
    before[1] ^= keys[i] * 0x9e3779b97f4a7c15u;
  }
  qsort(keys, (size_t)n, sizeof *keys, less);
  find_splitters(keys, n, splitters);
  for (int i = 0, r = 0; i < n; i++) {
    while (r < size - 1 && keys[i] >= splitters[r]) r++;
    sc[r]++;
  }
  MPI_Alltoall(sc, 1, MPI_INT, rc, 1, MPI_INT, MPI_COMM_WORLD);
  for (int r = 0; r < size; r++) {
    sd[r] = r == 0 ? 0 : sd[r - 1] + sc[r - 1];
    rd[r] = total;
    total += rc[r];
  }
  uint32_t* sorted = malloc(sizeof *sorted * ((size_t)total + 1));
  MPI_Alltoallv(keys, sc, sd, MPI_UINT32_T, sorted, rc, rd, MPI_UINT32_T, MPI_COMM_WORLD);
  qsort(sorted, (size_t)total, sizeof *sorted, less);
  for (int i = 0; i < total; i++) {
    after[0] += sorted[i];
    after[1] ^= sorted[i] * 0x9e3779b97f4a7c15u;
    CHECK(rank == 0 || sorted[i] >= splitters[rank - 1], "a key too small for rank %d", rank);
    CHECK(rank == size - 1 || sorted[i] < splitters[rank], "a key too large for rank %d", rank);
  }
  uint64_t sums[2][2];
  MPI_Allreduce(before, sums[0], 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(after, sums[1], 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(before + 1, sums[0] + 1, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  MPI_Allreduce(after + 1, sums[1] + 1, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
  CHECK(sums[0][0] == sums[1][0] && sums[0][1] == sums[1][1], "keys were lost");
  free(keys);
  free(splitters);
  free(lists);
  free(sorted);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int rows = argc > 1 ? atoi(argv[1]) : 120, columns = argc > 2 ? atoi(argv[2]) : 77;
  const int rounds = argc > 4 ? atoi(argv[4]) : 3;
  for (int i = 0; i < rounds; i++) {
    transpose(rows + i % 3, columns);
    transpose(1 + i % 3, columns); /* fewer rows than ranks */
    sort(argc > 3 ? atoi(argv[3]) : 20000);
  }
  return finish("exchanges");
}
