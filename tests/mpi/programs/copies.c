/* Messages are the first thing that happens on a new communicator: copies of MPI_Comm_idup, whose
 * members come to know them at different times, copies of copies, and hundreds that are used for
 * nothing else. */
#include "check.h"

static int rank, size, next, previous;

static MPI_Comm copy_of(MPI_Comm comm) {
  MPI_Comm copy;
  MPI_Request request;
  MPI_Comm_idup(comm, &copy, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return copy;
}

static int came(MPI_Comm comm, int tag) {
  int value = -1;
  MPI_Recv(&value, 1, MPI_INT, previous, tag, comm, MPI_STATUS_IGNORE);
  return value;
}

/* Around the ring, the way of sending and receiving chosen by number. */
static void test_first_call(MPI_Comm comm, int way) {
  int out = 100 * way + rank, in = -1, flag = 0;
  const int wanted = 100 * way + previous;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status status;
  MPI_Message message;
  switch (way) {
    case 0:
      MPI_Sendrecv(&out, 1, MPI_INT, next, way, &in, 1, MPI_INT, previous, way, comm, &status);
      break;
    case 1: /* a receive that nobody has answered yet */
      MPI_Irecv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
      MPI_Send(&out, 1, MPI_INT, next, way, comm);
      break;
    case 2: /* a probe, while nothing may have come yet */
      MPI_Isend(&out, 1, MPI_INT, next, way, comm, &requests[0]);
      while (!flag) MPI_Iprobe(previous, way, comm, &flag, &status);
      in = came(comm, way);
      break;
    case 3:
      MPI_Isend(&out, 1, MPI_INT, next, way, comm, &requests[0]);
      MPI_Mprobe(MPI_ANY_SOURCE, way, comm, &message, &status);
      MPI_Mrecv(&in, 1, MPI_INT, &message, &status);
      break;
    case 4: /* persistent */
      MPI_Recv_init(&in, 1, MPI_INT, previous, way, comm, &requests[0]);
      MPI_Send_init(&out, 1, MPI_INT, next, way, comm, &requests[1]);
      MPI_Startall(2, requests);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      MPI_Request_free(&requests[0]);
      MPI_Request_free(&requests[1]);
      break;
    default: /* waits for its receiver */
      MPI_Issend(&out, 1, MPI_INT, next, way, comm, &requests[0]);
      in = came(comm, way);
      break;
  }
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(in == wanted, "first call %d: %d, not %d", way, in, wanted);
}

/* Some have come to know the copy and sent on it before the others have. */
static void test_early_messages(void) {
  for (int i = 0; i < 20; i++) {
    MPI_Comm copy;
    MPI_Request request, sending;
    int out = i, in = -1;
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    if ((rank + i) % 2) {
      int done = 0;
      while (!done) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    } else {
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Isend(&out, 1, MPI_INT, next, i, copy, &sending);
    in = came(copy, i);
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
    CHECK(in == i, "early message %d: %d", i, in);
    MPI_Comm_free(&copy);
  }
}

/* Several copies under way at once, whose original is gone before they are there. */
static void test_several(void) {
  enum { kCopies = 5 };
  MPI_Comm parent, copies[kCopies];
  MPI_Request requests[kCopies];
  MPI_Comm_dup(MPI_COMM_WORLD, &parent);
  for (int i = 0; i < kCopies; i++) MPI_Comm_idup(parent, &copies[i], &requests[i]);
  MPI_Waitall(kCopies, requests, MPI_STATUSES_IGNORE);
  MPI_Comm_free(&parent);
  for (int i = kCopies; i-- > 0;) { /* the same tag on all of them */
    const int out = 10 * rank + i;
    MPI_Isend(&out, 1, MPI_INT, next, 1, copies[i], &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  }
  for (int i = 0; i < kCopies; i++) {
    const int in = came(copies[i], 1);
    CHECK(in == 10 * previous + i, "copy %d: %d", i, in);
  }
  for (int i = 0; i < kCopies; i++) MPI_Comm_free(&copies[i]);
}

/* What is made of a copy that has not been used, and a copy that never is. */
static void test_descendants(void) {
  MPI_Comm copy = copy_of(MPI_COMM_WORLD), unused = copy_of(copy), second = copy_of(copy), part;
  MPI_Comm_split(second, 0, rank, &part);
  test_first_call(part, 0);
  test_first_call(second, 1);
  test_first_call(copy, 5);
  MPI_Comm_free(&part);
  MPI_Comm_free(&second);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&unused);
}

/* The communicator is freed while its message is under way. */
static void test_freed(void) {
  enum { kBytes = 1 << 20 };
  char *out = malloc(kBytes), *in = calloc(1, kBytes);
  MPI_Request requests[2];
  MPI_Comm copy = copy_of(MPI_COMM_WORLD);
  memset(out, rank + 1, kBytes);
  MPI_Irecv(in, kBytes, MPI_CHAR, previous, 3, copy, &requests[0]);
  MPI_Isend(out, kBytes, MPI_CHAR, next, 3, copy, &requests[1]);
  MPI_Comm_free(&copy);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(in[0] == previous + 1 && in[kBytes - 1] == previous + 1, "of a freed copy");
  free(out);
  free(in);
}

/* More than there is shared memory for their collectives. */
static void test_many(int count) {
  MPI_Comm* comms = malloc(sizeof *comms * (size_t)count);
  for (int i = 0; i < count; i++) {
    if (i % 2) {
      comms[i] = copy_of(MPI_COMM_WORLD);
    } else {
      MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
  }
  for (int i = 0; i < count; i++) {
    int out = i, in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, next, 0, &in, 1, MPI_INT, previous, 0, comms[i],
                 MPI_STATUS_IGNORE);
    CHECK(in == i, "communicator %d: %d", i, in);
  }
  for (int i = 0; i < count; i++) MPI_Comm_free(&comms[i]);
  free(comms);
}

/* Messages between two groups are the MPI's. */
static void test_between_groups(void) {
  MPI_Comm half, between;
  const int low = rank < (size + 1) / 2;
  MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, low ? (size + 1) / 2 : 0, 9, &between);
  int others, value = -1, local;
  MPI_Comm_remote_size(between, &others);
  MPI_Comm_rank(half, &local);
  if (low && local == 0) {
    value = 17;
    for (int i = 0; i < others; i++) MPI_Bsend(&value, 1, MPI_INT, i, 4, between);
  } else if (!low) {
    MPI_Recv(&value, 1, MPI_INT, 0, 4, between, MPI_STATUS_IGNORE);
    CHECK(value == 17, "between groups: %d", value);
  }
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  static char buffer[1 << 16];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  next = (rank + 1) % size;
  previous = (rank + size - 1) % size;
  MPI_Buffer_attach(buffer, sizeof buffer);
  for (int way = 0; way < 6; way++) {
    MPI_Comm copy = copy_of(MPI_COMM_WORLD);
    test_first_call(copy, way);
    MPI_Barrier(copy); /* its collectives come later */
    test_first_call(copy, way);
    MPI_Comm_free(&copy);
  }
  test_early_messages();
  test_several();
  test_descendants();
  test_freed();
  test_many(argc > 1 ? atoi(argv[1]) : 300);
  if (size > 1) test_between_groups();
  void* detached;
  int bytes;
  MPI_Buffer_detach(&detached, &bytes);
  return finish("copies");
}
