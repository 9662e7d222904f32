/* `parts MOST`: a rank that is elsewhere receives 8 MiB from another node, which come in some five
 * hundred packets or more. They are all there when it comes back, and its threads went to sleep so
 * many times at most meanwhile. Not on a node. */
#define _GNU_SOURCE
#include "check.h"
#include "sleeps.h"

enum { kBytes = 8 << 20, kRounds = 4, kAwayMs = 400 };

int main(int argc, char** argv) {
  int rank, size;
  long fewest = -1;
  const long most = argc > 1 ? atol(argv[1]) : 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char* data = calloc(1, kBytes);
  for (int round = 0; round < kRounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      memset(data, round + 1, kBytes);
      MPI_Send(data, kBytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
      MPI_Request request;
      int done = 0;
      MPI_Irecv(data, kBytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
      const long begin = sleeps_beside();
      pause_ms(kAwayMs);
      const long slept = sleeps_beside() - begin;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      CHECK(done, "not there after %d ms", kAwayMs);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      CHECK(data[0] == round + 1 && data[kBytes - 1] == round + 1, "round %d", round);
      if (fewest < 0 || slept < fewest) fewest = slept;
    }
  }
  if (rank == 1) printf("slept %ld times\n", fewest);
  if (rank == 1) CHECK(fewest <= most, "%ld times, not %ld", fewest, most);
  free(data);
  return finish("parts");
}
