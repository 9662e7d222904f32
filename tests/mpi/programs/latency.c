/* Nanoseconds of an 8-byte MPI_Allreduce, and of a call that only passes through the preload
 * (MPI_Allreduce on MPI_COMM_SELF against PMPI, MPI_Request_c2f of the null request). */
#include "check.h"

static double allreduce(MPI_Comm comm, int rounds) {
  double mine = 1, sum = 0;
  for (int i = 0; i < rounds / 10; i++) MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
  double begin = MPI_Wtime();
  for (int i = 0; i < rounds; i++) {
    mine = i;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
  }
  return (MPI_Wtime() - begin) / rounds * 1e9;
}

static double wait_null(int rounds) {
  MPI_Request request = MPI_REQUEST_NULL;
  double begin = MPI_Wtime();
  for (int i = 0; i < rounds; i++) MPI_Wait(&request, MPI_STATUS_IGNORE);
  return (MPI_Wtime() - begin) / rounds * 1e9;
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1000000;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  double best = 1e99, self = 1e99, null = 1e99;
  for (int i = 0; i < 9; i++) {
    double now = allreduce(MPI_COMM_WORLD, rounds);
    if (now < best) best = now;
    now = allreduce(MPI_COMM_SELF, rounds);
    if (now < self) self = now;
    now = wait_null(rounds);
    if (now < null) null = now;
  }
  if (rank == 0)
    printf("allreduce %.1f ns, on MPI_COMM_SELF %.1f ns, wait for nothing %.1f ns\n", best, self,
           null);
  MPI_Finalize();
  return 0;
}
