/* What collectives cost where several threads of a rank wait at the same time: `threads THREADS
 * CALLS [BYTES [MODE]]`. Each thread makes so many calls of MPI_Allreduce on a communicator of its
 * own; MODE `messages`: it sends around a ring instead, `apart`: only one of the threads does it,
 * and the others wait for a barrier at its end. Rank 0 prints microseconds of a call (all ranks'
 * wall time by the calls of one thread), processor time and context switches by call and rank. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { kMostThreads = 64 };

static int rank, size, calls, bytes = 8, messages, apart;
static MPI_Comm comms[kMostThreads];

static void call(MPI_Comm comm, double* out, double* in, int tag) {
  if (messages) {
    MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 1) % size, tag, in, bytes, MPI_BYTE,
                 (rank + size - 1) % size, tag, comm, MPI_STATUS_IGNORE);
  } else {
    MPI_Allreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, comm);
  }
}

static void* work(void* argument) {
  const int me = (int)(size_t)argument;
  double* out = calloc(1, (size_t)bytes);
  double* in = calloc(1, (size_t)bytes);
  for (int i = 0; i < calls && (me == 0 || !apart); i++) call(comms[me], out, in, me);
  if (apart && me == 0)
    for (int t = 1; t < kMostThreads && comms[t] != MPI_COMM_NULL && rank == 0; t++)
      MPI_Barrier(comms[t]);
  if (apart && me != 0 && rank != 0) MPI_Barrier(comms[me]);
  free(out);
  free(in);
  return NULL;
}

static double cpu_of(const struct rusage* u) {
  return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1e6 +
         (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

int main(int argc, char** argv) {
  int provided;
  pthread_t all[kMostThreads];
  struct rusage before, after;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const int threads = argc > 1 ? atoi(argv[1]) : 4;
  calls = argc > 2 ? atoi(argv[2]) : 1000;
  if (argc > 3) bytes = atoi(argv[3]);
  messages = argc > 4 && strcmp(argv[4], "messages") == 0;
  apart = argc > 4 && strcmp(argv[4], "apart") == 0;
  if (provided != MPI_THREAD_MULTIPLE || threads > kMostThreads) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int t = 0; t < kMostThreads; t++) comms[t] = MPI_COMM_NULL;
  for (int t = 0; t < threads; t++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
  MPI_Barrier(MPI_COMM_WORLD);
  getrusage(RUSAGE_SELF, &before);
  const double begin = MPI_Wtime();
  for (int t = 0; t < threads; t++) pthread_create(&all[t], NULL, work, (void*)(size_t)t);
  for (int t = 0; t < threads; t++) pthread_join(all[t], NULL);
  double mine[3], sums[3], wall = MPI_Wtime() - begin, longest;
  getrusage(RUSAGE_SELF, &after);
  mine[0] = cpu_of(&after) - cpu_of(&before);
  mine[1] = (double)(after.ru_nvcsw - before.ru_nvcsw);
  mine[2] = (double)(after.ru_nivcsw - before.ru_nivcsw);
  MPI_Reduce(mine, sums, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&wall, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    const double by_call = (double)calls * (apart ? 1 : threads) * size;
    printf("threads %.2f us, %.2f us of processor, %.3f + %.3f switches\n", longest * 1e6 / calls,
           sums[0] / by_call, sums[1] / by_call, sums[2] / by_call);
  }
  for (int t = 0; t < threads; t++) MPI_Comm_free(&comms[t]);
  MPI_Finalize();
  return 0;
}
