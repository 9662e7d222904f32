/* How often a rank that computes is woken by small messages: the times that threads beside the
 * program's own went to sleep, while rank 0 sends, less those in as long a time in which it does
 * not. First with nothing pending, then beside a receive of 1 MiB, which must come all the same. */
#define _GNU_SOURCE
#include "check.h"
#include "sleeps.h"

/* Rounds: threads look at the clock now and then, on a busy machine not equally often in both
 * windows. */
enum { kSmall = 200, kLarge = 1 << 20, kRounds = 5, kWindowMs = 400, kSeveral = 10 };

static int smaller(const void* a, const void* b) {
  const long x = *(const long*)a, y = *(const long*)b;
  return (x > y) - (x < y);
}

/* At rank 1: the middle of some rounds. */
static long woken(int rank) {
  long more[kRounds] = {0};
  char byte = 0;
  for (int round = 0; round < kRounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
      pause_ms(100 + kWindowMs + 50);
      for (int i = 0; i < kSmall; ++i) {
        MPI_Send(&byte, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        pause_ms(1);
      }
    } else if (rank == 1) {
      pause_ms(100);
      const long begin = sleeps_beside();
      pause_ms(kWindowMs);
      const long between = sleeps_beside();
      pause_ms(kWindowMs);
      more[round] = sleeps_beside() - between - (between - begin);
      for (int i = 0; i < kSmall; ++i)
        MPI_Recv(&byte, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  qsort(more, kRounds, sizeof more[0], smaller);
  return more[kRounds / 2];
}

int main(int argc, char** argv) {
  int rank;
  char* data = malloc(kLarge);
  MPI_Request large = MPI_REQUEST_NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  memset(data, rank == 0 ? 7 : 0, kLarge);
  woken(rank); /* connections are made */
  const long idle = woken(rank);
  if (rank == 1) MPI_Irecv(data, kLarge, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &large);
  const long pending = woken(rank);
  if (rank == 0) MPI_Send(data, kLarge, MPI_CHAR, 1, 2, MPI_COMM_WORLD);
  if (rank == 1) {
    MPI_Wait(&large, MPI_STATUS_IGNORE);
    CHECK(data[0] == 7 && data[kLarge - 1] == 7, "the large message");
    CHECK(idle <= kSeveral, "%ld wake-ups by %d messages with nothing pending", idle, kSmall);
    CHECK(pending <= kSeveral, "%ld wake-ups beside a large receive", pending);
    fprintf(stderr,
            "wake-ups by %d small messages: %ld with nothing pending, %ld beside a large receive\n",
            kSmall, idle, pending);
  }
  free(data);
  return finish("interrupts");
}
