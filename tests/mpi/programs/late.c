/* Calls from known places, to some of which rank 2 comes late: late [ROUNDS [CALLS]].
 *
 * In each of ROUNDS (20) rounds: an allreduce of 8 bytes and a gather to rank 0, to both of which
 * rank 2 comes 20 ms late; an allreduce of 64 KiB to which nobody does; a barrier of those of the
 * same parity, and a message to the next rank. Then CALLS (0) allreduces without a pause. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LARGE = 8192 };

static int rank, size;

static void come_late(void) {
  if (rank == 2) usleep(20000);
}

/* Each in a function of its own, which is then a place by name and by address. */
__attribute__((noinline)) void small_sum(MPI_Comm comm) {
  double value = rank, sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
  if (2 * sum != size * (size - 1)) MPI_Abort(MPI_COMM_WORLD, 9);
}

__attribute__((noinline)) void large_sum(MPI_Comm comm) {
  static double values[LARGE], sums[LARGE];
  MPI_Allreduce(values, sums, LARGE, MPI_DOUBLE, MPI_MAX, comm);
}

__attribute__((noinline)) void gather(MPI_Comm comm) {
  static int all[4096];
  MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
}

__attribute__((noinline)) void meet(MPI_Comm comm) { MPI_Barrier(comm); }

__attribute__((noinline)) void pass_on(MPI_Comm comm) {
  int other = 0;
  MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 3, &other, 1, MPI_INT,
               (rank + size - 1) % size, 3, comm, MPI_STATUS_IGNORE);
}

__attribute__((noinline)) void sum_again(MPI_Comm comm, int calls) {
  for (int i = 0; i < calls; i++) {
    int one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  }
}

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 20, calls = argc > 2 ? atoi(argv[2]) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm parity;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &parity);
  MPI_Comm_set_name(parity, "parity");
  for (int i = 0; i < rounds; i++) {
    come_late();
    small_sum(MPI_COMM_WORLD);
    meet(parity);
    large_sum(MPI_COMM_WORLD);
    pass_on(MPI_COMM_WORLD);
    come_late();
    gather(MPI_COMM_WORLD);
    large_sum(MPI_COMM_WORLD);
  }
  sum_again(MPI_COMM_WORLD, calls);
  MPI_Comm_free(&parity);
  MPI_Finalize();
  if (rank == 0) puts("ended");
  return 0;
}
