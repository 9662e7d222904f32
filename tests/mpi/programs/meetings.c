/* Two threads of each rank send and receive for the first time on a communicator that is new to
 * both: between two groups, of which no library but the MPI itself knows anything, and copies. */
#include <pthread.h>

#include "check.h"

static int rank, size;
static MPI_Comm met;
static int peer; /* of the pair in `met` */
static pthread_barrier_t together;

static void* talk(void* number) {
  const int tag = *(int*)number, out = 10 * rank + tag;
  int in = -1;
  pthread_barrier_wait(&together);
  MPI_Sendrecv(&out, 1, MPI_INT, peer, tag, &in, 1, MPI_INT, peer, tag, met, MPI_STATUS_IGNORE);
  CHECK(in == 10 * (rank ^ 1) + tag, "tag %d: %d", tag, in);
  return NULL;
}

static void meet(void) {
  pthread_t other;
  int tags[2] = {1, 2};
  pthread_create(&other, NULL, talk, &tags[1]);
  talk(&tags[0]);
  pthread_join(other, NULL);
}

int main(int argc, char** argv) {
  int provided;
  const int rounds = argc > 1 ? atoi(argv[1]) : 100;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  pthread_barrier_init(&together, NULL, 2);
  for (int i = 0; i < rounds && provided == MPI_THREAD_MULTIPLE && size == 2; i++) {
    MPI_Request request;
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 1 - rank, 3, &met);
    peer = 0;
    meet();
    MPI_Comm_free(&met);
    MPI_Comm_idup(MPI_COMM_WORLD, &met, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    peer = 1 - rank;
    meet();
    MPI_Comm_free(&met);
  }
  pthread_barrier_destroy(&together);
  return finish("meetings");
}
