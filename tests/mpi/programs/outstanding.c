/* More data under way than the shared memory of a rank holds: on each of many communicators a large
 * non-blocking collective, the last rank coming late, every other one starting from the end.
 *   outstanding COMMUNICATORS BYTES MILLISECONDS OPERATION
 * OPERATION: bcast, allreduce or allgather. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, failures;

static int value(int communicator, int of_rank) { return 1 + communicator % 1000 + 7 * of_rank; }

static void start(const char* operation, int number, int count, int* send, int* recv, MPI_Comm comm,
                  MPI_Request* request) {
  for (int i = 0; i < count; i++) send[i] = value(number, rank);
  if (strcmp(operation, "bcast") == 0) {
    MPI_Ibcast(send, count, MPI_INT, 0, comm, request);
  } else if (strcmp(operation, "allreduce") == 0) {
    MPI_Iallreduce(send, recv, count, MPI_INT, MPI_SUM, comm, request);
  } else {
    MPI_Iallgather(send, count, MPI_INT, recv, count, MPI_INT, comm, request);
  }
}

static int is_right(const char* operation, int number, int count, const int* send,
                    const int* recv) {
  const int bcast = strcmp(operation, "bcast") == 0, sums = strcmp(operation, "allreduce") == 0;
  int sum = 0;
  for (int member = 0; member < size; member++) sum += value(number, member);
  for (int i = 0; i < count; i++) {
    if (bcast && send[i] != value(number, 0)) return 0;
    if (sums && recv[i] != sum) return 0;
    for (int member = 0; !bcast && !sums && member < size; member++)
      if (recv[member * count + i] != value(number, member)) return 0;
  }
  return 1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int many = atoi(argv[1]), count = atoi(argv[2]) / (int)sizeof(int);
  const char* operation = argv[4];
  MPI_Comm* comms = malloc((size_t)many * sizeof *comms);
  MPI_Request* requests = malloc((size_t)many * sizeof *requests);
  int** sends = malloc((size_t)many * sizeof *sends);
  int** recvs = malloc((size_t)many * sizeof *recvs);
  for (int i = 0; i < many; i++) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    sends[i] = malloc((size_t)count * sizeof(int));
    recvs[i] = malloc((size_t)count * sizeof(int) * (size_t)size);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == size - 1) usleep((useconds_t)atoi(argv[3]) * 1000); /* busy elsewhere */
  for (int turn = 0; turn < many; turn++) {
    const int i = rank % 2 == 0 ? turn : many - 1 - turn;
    start(operation, i, count, sends[i], recvs[i], comms[i], &requests[i]);
  }
  MPI_Waitall(many, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < many; i++) {
    if (is_right(operation, i, count, sends[i], recvs[i])) continue;
    failures++;
    printf("FAILED on rank %d: %s on communicator %d\n", rank, operation, i);
  }
  for (int i = 0; i < many; i++) {
    free(sends[i]);
    free(recvs[i]);
    MPI_Comm_free(&comms[i]);
  }
  int all = 0;
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("outstanding: passed (%d failures)\n", all);
  MPI_Finalize();
  return all != 0;
}
