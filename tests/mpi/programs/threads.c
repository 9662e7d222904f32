/* MPI_THREAD_MULTIPLE: threads use communicators of their own at the same time, blocking and not,
 * while others create and free communicators and types. */
#include <pthread.h>

#include "check.h"

enum { kThreads = 3, kRounds = 200 };

static int rank, size;
static MPI_Comm comms[kThreads];

static void* work(void* argument) {
  int me = (int)(size_t)argument;
  MPI_Comm comm = comms[me];
  for (int i = 0; i < kRounds; i++) {
    int mine = rank + me * 10 + i, sum = 0, expected = size * (size - 1) / 2 + size * (me * 10 + i);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == expected, "thread %d round %d", me, i);
    MPI_Request requests[2];
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, in = -1;
    sum = 0;
    MPI_Irecv(&in, 1, MPI_INT, previous, me, comm, &requests[0]);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &requests[1]);
    MPI_Send(&mine, 1, MPI_INT, next, me, comm);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(sum == expected && in == previous + me * 10 + i, "thread %d round %d, mixed", me, i);
    if (i % 20 == 0) {
      MPI_Comm copy;
      MPI_Datatype type;
      double data[6] = {i, 0, i + 1, 0, i + 2, 0};
      MPI_Comm_dup(comm, &copy);
      MPI_Type_vector(3, 1, 2, MPI_DOUBLE, &type);
      MPI_Type_commit(&type);
      if (rank != i % size) memset(data, 0, sizeof data);
      MPI_Bcast(data, 1, type, i % size, copy);
      CHECK(data[2] == i + 1 && data[3] == 0, "thread %d round %d, vector", me, i);
      MPI_Type_free(&type);
      MPI_Comm_free(&copy);
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided;
  pthread_t threads[kThreads];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (provided == MPI_THREAD_MULTIPLE) {
    for (int i = 0; i < kThreads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (size_t i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void*)i);
    for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < kThreads; i++) MPI_Comm_free(&comms[i]);
  } else if (rank == 0) {
    printf("skipped: this MPI gives thread level %d\n", provided);
  }
  return finish("threads");
}
