/* Rank 1 is stopped for some seconds in the middle (as by a debugger), while the others wait for
   it: nobody may take it for dead.   stopped SECONDS WHAT
   (WHAT: bcast, allreduce, alltoall, sendrecv, isend) */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static void stop_for(double seconds) {
  const pid_t self = getpid();
  const pid_t waker = fork();
  if (waker == 0) {
    usleep((useconds_t)(seconds * 1e6));
    kill(self, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
  waitpid(waker, NULL, 0);
}

/* Around a ring, small ones, and larger ones that are announced or not. */
static void messages(int blocking, int* out, int* in, int round, int rank, int size) {
  const int counts[] = {2, 25000, 100000}, count = counts[round % 3];
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  MPI_Request requests[2];
  if (blocking) {
    MPI_Sendrecv(out, count, MPI_INT, next, 1, in, count, MPI_INT, before, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
  } else {
    MPI_Irecv(in, count, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, count, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }
  CHECK(in[0] == before + round && in[count - 1] == before + round, "round %d", round);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const double seconds = atof(argv[1]);
  const char* const what = argv[2];
  const int count = 100000;
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int* data = calloc((size_t)count * size, sizeof(int));
  int* more = calloc((size_t)count * size, sizeof(int));
  for (int round = 0; round < 20; ++round) {
    if (round == 3 && rank == 1) stop_for(seconds);
    for (int i = 0; i < count; ++i) data[i] = rank + round;
    if (strcmp(what, "sendrecv") == 0 || strcmp(what, "isend") == 0) {
      messages(strcmp(what, "sendrecv") == 0, data, more, round, rank, size);
    } else if (strcmp(what, "bcast") == 0) {
      MPI_Bcast(data, count, MPI_INT, round % size, MPI_COMM_WORLD);
      CHECK(data[count - 1] == round % size + round, "round %d", round);
    } else if (strcmp(what, "allreduce") == 0) {
      MPI_Allreduce(data, more, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      CHECK(more[count - 1] == size * round + size * (size - 1) / 2, "round %d", round);
    } else if (strcmp(what, "alltoall") == 0) {
      for (int i = 0; i < count * size; ++i) data[i] = rank + round;
      MPI_Alltoall(data, count, MPI_INT, more, count, MPI_INT, MPI_COMM_WORLD);
      for (int i = 0; i < size; ++i) CHECK(more[(size_t)i * count] == i + round, "round %d", round);
    }
  }
  return finish("stopped");
}
