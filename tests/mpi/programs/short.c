/* A little of everything, quickly: whatever the settings are, the results are right or the job says
 * why it cannot be. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int failures;

static void expect(int right, const char* what) {
  if (right) return;
  failures++;
  printf("FAILED: %s\n", what);
}

static void run(int count, int rank, int size) {
  int* in = malloc(sizeof(int) * (size_t)count);
  int* out = malloc(sizeof(int) * (size_t)count * (size_t)size);
  for (int i = 0; i < count; i++) in[i] = i % 1000 + rank;
  MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  int right = 1;
  for (int i = 0; i < count; i++) right &= out[i] == size * (i % 1000) + size * (size - 1) / 2;
  expect(right, "allreduce");
  MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD);
  right = 1;
  for (int r = 0; r < size; r++)
    for (int i = 0; i < count; i++) right &= out[r * count + i] == i % 1000 + r;
  expect(right, "allgather");
  MPI_Request request;
  for (int i = 0; i < count; i++) out[i] = rank == size - 1 ? in[i] : -1;
  MPI_Ibcast(out, count, MPI_INT, size - 1, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  right = 1;
  for (int i = 0; i < count; i++) right &= out[i] == i % 1000 + size - 1;
  expect(right, "ibcast");
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  MPI_Irecv(out, count, MPI_INT, before, 7, MPI_COMM_WORLD, &request);
  MPI_Send(in, count, MPI_INT, next, 7, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(out[0] == before && out[count - 1] == (count - 1) % 1000 + before, "message");
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  int rank, size, all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  run(1, rank, size);
  run(300000, rank, size);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("short: passed (%d failures)\n", all);
  MPI_Finalize();
  return all != 0;
}
