/* MPI_Init and MPI_Finalize, and nothing else: what a job pays before and after its work. Rank 0
 * prints milliseconds of each, and the processor time of all ranks. */
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

int main(int argc, char** argv) {
  double begin = now_ms();
  MPI_Init(&argc, &argv);
  double ready = now_ms();
  int rank, one = 1, sum = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  double first = now_ms();
  double last = now_ms();
  MPI_Finalize();
  double end = now_ms();
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  if (rank == 0) {
    printf("startup %.3f %.3f %.3f %.3f\n", ready - begin, first - begin, end - last,
           (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e3 +
               (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-3);
  }
  return 0;
}
