/* A sum over all processes that is computed elsewhere while this one computes: the smallest program
 * with dedicated processors. dcp.f90 and dcp_f08.f90 are the same in Fortran.
 *
 *     mpicc -Iinclude examples/dcp/dcp.c -ltutti-dcp -o dcp
 *     tutti run --dcp 1 mpiexec -n 4 ./dcp
 */
#include <mpi.h>
#include <stdio.h>

#include "tutti/dcp.h"

static double compute(int rank) {
  volatile double value = rank;
  for (int i = 0; i < 100000; ++i) value += 1e-9;
  return value;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int wrong = 0;
  for (int i = 0; i < 100; ++i) {
    double part = rank + i, total = 0;
    DCP_Request sum;
    DCP_Allreduce(&part, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &sum);
    (void)compute(rank); /* the dedicated processors add up meanwhile */
    DCP_Wait(&sum);
    if (total != size * (double)i + size * (size - 1) / 2.0 || sum != MPI_REQUEST_NULL) ++wrong;
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && wrong) printf("%d sums were wrong\n", wrong);
  if (rank == 0 && !wrong) printf("100 sums, all right\n");
  MPI_Finalize();
  return wrong != 0;
}
