/* bcast_by_rank BYTES ITERATIONS PAUSE_US [ROOTS]: completion of MPI_Bcast by rank, on nodes that
 * share a clock.
 *
 * All ranks but the root are inside before it begins: it comes PAUSE_US after a barrier. What is
 * measured is the time from the root's call to the return of each rank. Every byte is compared, and
 * differs from call to call. With ROOTS the root changes from call to call among that many. Prints
 * one line of JSON: the median by rank, and errors. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static unsigned char pattern(int call, int i) {
  return (unsigned char)(call * 131 + i * 7 + i / 251);
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int bytes = argc > 1 ? atoi(argv[1]) : 1, calls = argc > 2 ? atoi(argv[2]) : 20;
  const double pause_us = argc > 3 ? atof(argv[3]) : 5000;
  const int roots = argc > 4 ? atoi(argv[4]) : 1;
  unsigned char* data = malloc((size_t)bytes + 1);
  double* began = calloc((size_t)calls, sizeof *began);
  double* ended = calloc((size_t)calls, sizeof *ended);
  int errors = 0;
  MPI_Bcast(data, 1, MPI_BYTE, 0, MPI_COMM_WORLD); /* connections are made with the first ones */
  for (int call = 0; call < calls; ++call) {
    const int root = call % roots % size;
    for (int i = 0; i < bytes; ++i) data[i] = rank == root ? pattern(call, i) : 0xff;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == root) {
      struct timespec pause = {(time_t)(pause_us / 1e6), (long)(pause_us * 1e3) % 1000000000};
      nanosleep(&pause, NULL);
      began[call] = now_us();
    }
    MPI_Bcast(data, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    ended[call] = now_us();
    for (int i = 0; i < bytes; ++i) errors += data[i] != pattern(call, i);
  }
  MPI_Allreduce(MPI_IN_PLACE, began, calls, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (int call = 0; call < calls; ++call) ended[call] -= began[call];
  qsort(ended, (size_t)calls, sizeof *ended, by_value);
  double median = ended[calls / 2];
  double* medians = malloc((size_t)size * sizeof *medians);
  MPI_Gather(&median, 1, MPI_DOUBLE, medians, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"bytes\": %d, \"np\": %d, \"calls\": %d, \"errors\": %d, \"by_rank_us\": [", bytes,
           size, calls, errors);
    for (int i = 0; i < size; ++i) printf("%s%.1f", i ? ", " : "", medians[i]);
    printf("]}\n");
  }
  free(data);
  free(began);
  free(ended);
  free(medians);
  MPI_Finalize();
  return errors != 0;
}
