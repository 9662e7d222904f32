/* Partitioned communication of the MPI's own, over the world and over a communicator made from it.
 */
#include "check.h"

enum { kPartitions = 4, kEach = 1000 };

/* Every rank sends to the next one, twice with the same requests; partitions become ready
 * backwards. */
static void ring(MPI_Comm comm, const char* name) {
  int rank, size;
  static int from[kPartitions * kEach], to[kPartitions * kEach];
  MPI_Request requests[2];
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  MPI_Psend_init(from, kPartitions, kEach, MPI_INT, next, 3, comm, MPI_INFO_NULL, &requests[0]);
  MPI_Precv_init(to, kPartitions, kEach, MPI_INT, previous, 3, comm, MPI_INFO_NULL, &requests[1]);
  for (int round = 0; round < 2; round++) {
    int wrong = 0;
    MPI_Startall(2, requests);
    for (int i = kPartitions * kEach - 1; i >= 0; i--) {
      from[i] = 100000 * rank + 10 * i + round;
      if (i % kEach == 0) MPI_Pready(i / kEach, requests[0]);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kPartitions * kEach; i++)
      wrong += to[i] != 100000 * previous + 10 * i + round;
    CHECK(wrong == 0, "%s, round %d: %d of %d are wrong", name, round, wrong, kPartitions * kEach);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

int main(int argc, char** argv) {
  int rank, sum = 0, one = 1, size;
  MPI_Comm half;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == size, "%d ranks, not %d", sum, size);
  ring(MPI_COMM_WORLD, "world");
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  ring(half, "half of it");
  MPI_Comm_free(&half);
  return finish("partitioned");
}
