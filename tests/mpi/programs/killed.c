/* Rank 1 kills itself in the middle of what the first argument names, a collective or messages
 * around a ring; or TUTTI_FAULT kills it, if BYTES ends with a letter. The others must
 * be told by the error handler, in bounded time, instead of waiting for ever. They say so in a
 * file of their rank (a launcher that stops a job may lose what is printed) and exit with status 7.
 * killed WHAT BYTES FOLDER */
#include <signal.h>
#include <unistd.h>

#include "check.h"

static double started;
static const char* folder;

static void handler(MPI_Comm* comm, int* code, ...) {
  char text[MPI_MAX_ERROR_STRING], name[4096];
  int length, rank;
  (void)comm;
  MPI_Error_string(*code, text, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  snprintf(name, sizeof name, "%s/%d", folder, rank);
  FILE* file = fopen(name, "w");
  fprintf(file, "was told after %.1f s: %s\n", MPI_Wtime() - started, text);
  fclose(file);
  _exit(7);
}

/* In MPI_Sendrecv, blocking sends, or non-blocking ones. */
static void around_the_ring(const char* what, char* out, char* in, int bytes, int rank, int size) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  MPI_Request requests[2];
  if (strcmp(what, "sendrecv") == 0)
    MPI_Sendrecv(out, bytes, MPI_BYTE, next, 1, in, bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  if (strcmp(what, "send") == 0) {
    if (rank == 0) MPI_Send(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD);
    MPI_Recv(in, bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0) MPI_Send(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD);
  }
  if (strcmp(what, "isend") == 0) {
    MPI_Irecv(in, bytes, MPI_BYTE, before, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
}

int main(int argc, char** argv) {
  const char* what = argv[1];
  const int by_fault = strspn(argv[2], "0123456789") != strlen(argv[2]);
  int bytes = atoi(argv[2]), rank, size;
  MPI_Errhandler errors;
  folder = argv[3];
  signal(SIGTERM, SIG_IGN);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_create_errhandler(handler, &errors);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, errors);
  char* a = calloc((size_t)size, (size_t)bytes);
  char* b = calloc((size_t)size, (size_t)bytes);
  for (int i = 0; i < 1000; i++) {
    if (rank == 1 && i == 500 && !by_fault) raise(SIGKILL);
    if (i == 500 || by_fault) started = MPI_Wtime();
    around_the_ring(what, a, b, bytes, rank, size);
    if (strcmp(what, "barrier") == 0) MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "bcast") == 0) MPI_Bcast(a, bytes, MPI_BYTE, 1, MPI_COMM_WORLD);
    if (strcmp(what, "allreduce") == 0)
      MPI_Allreduce(a, b, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    if (strcmp(what, "allgather") == 0)
      MPI_Allgather(a, bytes, MPI_BYTE, b, bytes, MPI_BYTE, MPI_COMM_WORLD);
    if (strcmp(what, "alltoall") == 0)
      MPI_Alltoall(a, bytes, MPI_BYTE, b, bytes, MPI_BYTE, MPI_COMM_WORLD);
    if (strcmp(what, "iallreduce") == 0) {
      MPI_Request request;
      MPI_Iallreduce(a, b, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }
  MPI_Finalize();
  return 0;
}
