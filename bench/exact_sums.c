/* Times of MPI_Allreduce with MPI_SUM: `exact_sums TYPE BATCH_MS BATCHES BYTES...`, TYPE double or
 * float. Rank 0 prints a line for each size: bytes, and microseconds of a call in the median batch,
 * of the slowest rank. Operands are random, of both signs and of magnitudes within a factor of a
 * thousand, as sums over a grid have them; they change before every call, outside of what is timed
 * from 1 KiB on, as in coll.c. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMostBatches = 100, kSmall = 1024 };

static int rank, is_double;
static MPI_Datatype type;

static double number(unsigned long long* state) {
  *state = *state * 6364136223846793005ull + 1442695040888963407ull;
  const double unit = (double)(*state >> 11) / 9007199254740992.0;
  const double magnitude = (double)(1 + (*state >> 20) % 1000);
  return (unit - 0.5) * magnitude;
}

static void fill(void* vector, int count, unsigned long long seed) {
  unsigned long long state = seed * 2654435761ull + (unsigned)rank + 1;
  for (int i = 0; i < count; i++) {
    const double x = number(&state);
    if (is_double)
      ((double*)vector)[i] = x;
    else
      ((float*)vector)[i] = (float)x;
  }
}

/* Seconds of so many calls. */
static double time_calls(void* send, void* recv, int count, size_t bytes, int calls) {
  double total = 0, begin = MPI_Wtime();
  for (int i = 0; i < calls; i++) {
    if (bytes > kSmall) {
      fill(send, count, (unsigned)i);
      begin = MPI_Wtime();
    } else {
      fill(send, 1, (unsigned)i);
    }
    MPI_Allreduce(send, recv, count, type, MPI_SUM, MPI_COMM_WORLD);
    if (bytes > kSmall) total += MPI_Wtime() - begin;
  }
  return bytes > kSmall ? total : MPI_Wtime() - begin;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(size_t bytes, double batch_s, int batches) {
  const int count = (int)(bytes / (is_double ? sizeof(double) : sizeof(float)));
  void *send = malloc(bytes), *recv = malloc(bytes);
  double us[kMostBatches], once;
  fill(send, count, 1);
  time_calls(send, recv, count, bytes, 20);
  const double warm = time_calls(send, recv, count, bytes, 20) / 20;
  MPI_Allreduce(&warm, &once, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const int calls = once <= 0 || batch_s / once > 1e6 ? 1000000 : (int)(batch_s / once) + 1;
  for (int b = 0; b < batches; b++) {
    const double mine = time_calls(send, recv, count, bytes, calls) * 1e6 / calls;
    MPI_Allreduce(&mine, &us[b], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  qsort(us, (size_t)batches, sizeof *us, ascending);
  if (rank == 0) printf("exact_sums %zu %.4f\n", bytes, us[batches / 2]);
  free(send);
  free(recv);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc < 5) {
    if (rank == 0) fprintf(stderr, "exact_sums double|float BATCH_MS BATCHES BYTES...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  is_double = strcmp(argv[1], "double") == 0;
  type = is_double ? MPI_DOUBLE : MPI_FLOAT;
  const int wanted = atoi(argv[3]), batches = wanted < kMostBatches ? wanted : kMostBatches;
  for (int i = 4; i < argc; i++) measure(strtoul(argv[i], NULL, 10), atof(argv[2]) * 1e-3, batches);
  MPI_Finalize();
  return 0;
}
