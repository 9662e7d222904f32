/* What making communicators costs: `communicators [ALIVE [MADE]]`. Rank 0 prints, in this order and
 * the slowest rank's: microseconds to make and to free a duplicate, of MADE; microseconds to split,
 * use for eight collectives and free; KiB of each rank (its share of what is shared) for each of
 * ALIVE duplicates that are alive, made and then used for a blocking and a non-blocking collective.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kMade = 10000, kBatch = 200, kSplitOf = 10, kMostAlive = 4000 };

static double memory_kib(void) {
  char line[256];
  double kib = 0;
  FILE* file = fopen("/proc/self/smaps_rollup", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "Pss: %lf", &kib) == 1) break;
  if (file != NULL) fclose(file);
  return kib;
}

static void make_and_free(int count, double* make, double* release) {
  static MPI_Comm comms[kBatch];
  *make = *release = 0;
  for (int i = 0; i < count / kBatch; i++) {
    const double begin = MPI_Wtime();
    for (int k = 0; k < kBatch; k++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]);
    const double made = MPI_Wtime();
    for (int k = 0; k < kBatch; k++) MPI_Comm_free(&comms[k]);
    *make += made - begin;
    *release += MPI_Wtime() - made;
  }
  *make *= 1e6 / count;
  *release *= 1e6 / count;
}

/* As a grid of processes does: a communicator of its own for a few broadcasts and sums. */
static double split_and_use(int rank, int count) {
  double value[16] = {1}, sum[16];
  const double begin = MPI_Wtime();
  for (int i = 0; i < count; i++) {
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
    for (int k = 0; k < 4; k++) {
      MPI_Bcast(value, 16, MPI_DOUBLE, 0, comm);
      MPI_Allreduce(value, sum, 16, MPI_DOUBLE, MPI_SUM, comm);
    }
    MPI_Comm_free(&comm);
  }
  return (MPI_Wtime() - begin) * 1e6 / count;
}

static void keep_alive(int alive, double* made, double* used) {
  static MPI_Comm comms[kMostAlive];
  const double before = memory_kib();
  for (int i = 0; i < alive; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  *made = (memory_kib() - before) / alive;
  for (int i = 0; i < alive; i++) {
    int one = 1, sum = 0;
    MPI_Request request;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[i]);
    MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[i], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  *used = (memory_kib() - before) / alive;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < alive; i++) MPI_Comm_free(&comms[i]);
}

int main(int argc, char** argv) {
  int rank;
  double mine[5], slowest[5];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int batches = (argc > 2 ? atoi(argv[2]) : kMade) / kBatch;
  const int count = (batches < 1 ? 1 : batches) * kBatch;
  make_and_free(count, &mine[0], &mine[1]);
  mine[2] = split_and_use(rank, count / kSplitOf);
  const int alive = argc > 1 ? atoi(argv[1]) : 400;
  keep_alive(alive < kMostAlive ? alive : kMostAlive, &mine[3], &mine[4]);
  MPI_Reduce(mine, slowest, 5, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0)
    printf("communicators %.2f %.2f %.2f %.2f %.2f\n", slowest[0], slowest[1], slowest[2],
           slowest[3], slowest[4]);
  MPI_Finalize();
  return 0;
}
