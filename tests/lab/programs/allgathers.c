/* allgathers BYTES CALLS: so many allgathers of BYTES of every rank, every byte compared. Prints
 * the number of wrong ones; with none the status is 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char byte_of(int rank, int call, long i) {
  return (unsigned char)(i * 7 + rank * 31 + call * 101);
}

int main(int argc, char** argv) {
  int rank, size, call, owner;
  long i, wrong = 0, all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long bytes = argc == 3 ? atol(argv[1]) : 0;
  const int calls = argc == 3 ? atoi(argv[2]) : 0;
  unsigned char* send = malloc((size_t)bytes + 1);
  unsigned char* recv = malloc((size_t)bytes * (size_t)size + 1);
  if (calls < 1 || send == NULL || recv == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (call = 0; call < calls; ++call) {
    for (i = 0; i < bytes; ++i) send[i] = byte_of(rank, call, i);
    for (i = 0; i < bytes * size; ++i) recv[i] = 0;
    MPI_Allgather(send, (int)bytes, MPI_BYTE, recv, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
    for (owner = 0; owner < size; ++owner)
      for (i = 0; i < bytes; ++i) wrong += recv[owner * bytes + i] != byte_of(owner, call, i);
  }
  MPI_Reduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%ld wrong\n", all);
  free(send);
  free(recv);
  MPI_Finalize();
  return wrong != 0;
}
