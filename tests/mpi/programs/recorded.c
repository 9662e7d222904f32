/* Calls that are known in advance, and an end: recorded END [rounds].
 *
 * finalize: as it should be; killed: rank 1 is; abort: by MPI_Abort of rank 1; fault: rank 1
 * touches memory that is not there; user: SIGUSR2 to itself, and on; wait: until standard input, or
 * some seconds (RECORDED_S, 20), are over; exit: without MPI_Finalize. */
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void sum(void) {
  int value = rank, all = 0;
  MPI_Allreduce(&value, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (2 * all != size * (size - 1)) MPI_Abort(MPI_COMM_WORLD, 9);
}

/* Of each kind; rank 1 comes late. */
static void calls(int rounds) {
  static char data[4096];
  char other = 0;
  for (int i = 0; i < rounds; i++) sum();
  MPI_Bcast(data, sizeof data, MPI_CHAR, size - 1, MPI_COMM_WORLD);
  MPI_Sendrecv(data, 1, MPI_CHAR, (rank + 1) % size, 5, &other, 1, MPI_CHAR,
               (rank + size - 1) % size, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < 3; i++) {
    if (rank == 1) usleep(100000);
    sum();
  }
}

static void end(const char* how) {
  if (strcmp(how, "wait") == 0) {
    const char* text = getenv("RECORDED_S");
    sleep(text != NULL ? (unsigned)atoi(text) : 20);
  } else if (strcmp(how, "user") == 0) {
    raise(SIGUSR2);
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (strcmp(how, "killed") == 0) {
    if (rank == 1) kill(getpid(), SIGKILL);
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (strcmp(how, "abort") == 0) {
    if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (strcmp(how, "fault") == 0) {
    if (rank == 1) *(volatile int*)(uintptr_t)size = 1;
    MPI_Barrier(MPI_COMM_WORLD);
  } else if (strcmp(how, "exit") == 0) {
    exit(0);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  calls(argc > 2 ? atoi(argv[2]) : 10);
  end(argc > 1 ? argv[1] : "finalize");
  MPI_Finalize();
  if (rank == 0) puts("ended");
  return 0;
}
