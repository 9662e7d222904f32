/* Two ranks on one processor, or on one each: what a message back and forth and an allreduce take
   (docs/decisions/0041-how-long-to-yield.md). The system puts ranks that are not bound on one
   processor for a while where others are busy; here each binds itself after MPI_Init, so that the
   MPI believes that it has a processor of its own.

     mpicc -O2 -o together bench/together.c
     TUTTI_P2P=1 tutti run mpiexec -bind-to none -n 2 ./together together 0.5
     TUTTI_P2P=1 tutti run mpiexec -bind-to none -n 2 ./together apart 0.5

   Prints median, mean and 99 % quantile in microseconds: of half a round trip for messages. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 2000000, LARGEST = 65536, ALLREDUCE = 0 };

static char buffer[LARGEST];
static double took[MOST];

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* The n-th of the processors that this process may use. */
static void bind_to(int n) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &all) && n-- == 0) CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) {
    fprintf(stderr, "together: there is no processor for this rank\n");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

/* One exchange; rank 0 says with it whether another one follows. */
static int exchange(int rank, int bytes, int more) {
  if (bytes == ALLREDUCE) {
    const int mine = rank == 0 ? more : 0;
    MPI_Allreduce(&mine, &more, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return more;
  }
  const int other = 1 - rank;
  if (rank == 0) {
    buffer[0] = (char)more;
    MPI_Send(buffer, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
    MPI_Recv(buffer, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return more;
  }
  MPI_Recv(buffer, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Send(buffer, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
  return buffer[0];
}

static void measure(int rank, int bytes, double seconds) {
  const double begin = MPI_Wtime();
  double last = begin;
  int n = 0;
  for (int more = 1; more;) {
    more = exchange(rank, bytes, last - begin < seconds && n < MOST - 1);
    const double now = MPI_Wtime();
    took[n++] = (now - last) * 1e6 / (bytes == ALLREDUCE ? 1 : 2);
    last = now;
  }
  const double mean = (last - begin) * 1e6 / n / (bytes == ALLREDUCE ? 1 : 2);
  qsort(took, (size_t)n, sizeof *took, compare);
  if (rank != 0) return;
  if (bytes == ALLREDUCE) printf("allreduce of 4 B");
  if (bytes != ALLREDUCE) printf("%d B", bytes);
  printf(": median %.2f mean %.2f 99 %% %.1f\n", took[n / 2], mean, took[(long)n * 99 / 100]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int together = argc == 3 && strcmp(argv[1], "together") == 0;
  const int apart = argc == 3 && strcmp(argv[1], "apart") == 0;
  if (size != 2 || !(together || apart || (argc == 3 && strcmp(argv[1], "free") == 0))) {
    if (rank == 0) fprintf(stderr, "usage, with 2 ranks: together together|apart|free SECONDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (together) bind_to(0);
  if (apart) bind_to(rank);
  static const int sizes[] = {8, 4096, LARGEST, ALLREDUCE};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) measure(rank, sizes[i], atof(argv[2]));
  MPI_Finalize();
  return 0;
}
