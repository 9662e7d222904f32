/* Small programs with one known defect each, and their correct counterparts: stuck DEFECT [right],
 * or stuck all right.
 *
 * With a defect it hangs, or would, so every rank ends itself after some seconds (STUCK_S, 20);
 * until then somebody has looked. With STUCK_STAY it stays until then in any case. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int rank, size, right;
static MPI_Comm first_comm, second_comm;

/* Rank 2 does not come. */
static void missing(void) {
  long value = rank, sum = 0;
  for (int i = 0; i < 11; i++) MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank != 2 || right) MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 2) MPI_Recv(&value, 1, MPI_LONG, 0, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) MPI_Send(&value, 1, MPI_LONG, 2, 77, MPI_COMM_WORLD);
}

/* One rank means another root. */
static void root(void) {
  int value = rank, of = !right && rank == 1 ? 1 : 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Bcast(&value, 1, MPI_INT, of, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* The same of a broadcast that is only started. */
static void started_root(void) {
  int value = rank, of = !right && rank == 1 ? 1 : 0;
  MPI_Request request;
  MPI_Ibcast(&value, 1, MPI_INT, of, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* One rank is stopped from outside, and with it the thread that would tell of a stall. */
static void stopped(void) {
  if (!right && rank == 0) raise(SIGSTOP);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* One rank has more to say than the others. */
static void count(void) {
  static double values[200000], sums[200000];
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce(values, sums, !right && rank == 1 ? 200000 : 1, MPI_DOUBLE, MPI_SUM,
                MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* One rank has another operator. */
static void operator(void) {
  int value = rank, result = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Allreduce(&value, &result, 1, MPI_INT, !right && rank == 1 ? MPI_MAX : MPI_SUM,
                MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* One rank calls another function. */
static void function(void) {
  int value = rank, sum = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1 && !right)
    MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
  else
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Two communicators in the wrong order on one rank. */
static void order(void) {
  MPI_Comm_dup(MPI_COMM_WORLD, &first_comm);
  MPI_Comm_dup(MPI_COMM_WORLD, &second_comm);
  MPI_Comm_set_name(first_comm, "the first");
  MPI_Comm_set_name(second_comm, "the second");
  MPI_Comm swapped = first_comm;
  if (rank == 1 && !right) {
    first_comm = second_comm;
    second_comm = swapped;
  }
  MPI_Barrier(first_comm);
  MPI_Barrier(second_comm);
  MPI_Comm_free(&first_comm);
  MPI_Comm_free(&second_comm);
}

/* Each waits for a message of the next. */
static void messages(void) {
  int value = rank, next = (rank + 1) % size, last = (rank + size - 1) % size;
  MPI_Barrier(MPI_COMM_WORLD);
  if (right && rank == 0) MPI_Send(&value, 1, MPI_INT, last, 5, MPI_COMM_WORLD);
  MPI_Recv(&value, 1, MPI_INT, next, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (!right || rank != 0) MPI_Send(&value, 1, MPI_INT, last, 5, MPI_COMM_WORLD);
}

/* A non-blocking one that one rank does not start. */
static void nonblocking(void) {
  int value = rank, sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 1 || right)
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Recv(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);
}

/* Rank 1 does not wait for what it has started. */
static void unwaited(void) {
  int value = rank, sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  if (rank != 1 || right) MPI_Wait(&request, MPI_STATUS_IGNORE);
#if MPI_VERSION >= 4
  /* One that was never started is nothing to tell of. */
  MPI_Request kept = MPI_REQUEST_NULL;
  MPI_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept);
#endif
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* What a non-blocking collective sends is changed while it is pending. */
static void buffer(void) {
  int value = rank, sum = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  if (rank == 1 && !right) value = -1;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (rank == 1) value = sum;
}

enum { MANY = 100000 };

/* The same of a message. */
static void reused(void) {
  static int values[MANY];
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1) MPI_Isend(values, MANY, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
  if (rank == 1 && !right) values[MANY / 2] = 1;
  if (rank == 0) MPI_Recv(values, MANY, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The memory of a message is given back too early. */
static void unmapped(void) {
  static int values[MANY];
  MPI_Request request = MPI_REQUEST_NULL;
  const size_t bytes = sizeof values;
  /* Far from where other threads' memory is put: nothing else may take the place of what is given
   * back, and were it taken, it would not hold the same. */
  void* const apart = (void*)0x100000000000;
  int* sent = mmap(apart, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(sent, 1, bytes);
  if (rank == 1) MPI_Isend(sent, MANY, MPI_INT, 0, 12, MPI_COMM_WORLD, &request);
  if (rank == 0) MPI_Recv(values, MANY, MPI_INT, 1, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD); /* it has come, but rank 1 has not asked */
  if (!right) munmap(sent, bytes);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (right) munmap(sent, bytes);
}

/* A message is received into the memory that another one is sent from. */
static void overlap(void) {
  static int values[2 * MANY];
  const int peer = 1 - rank, wrong = rank == 1 && !right;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  if (rank > 1) return;
  MPI_Irecv(values, MANY, MPI_INT, peer, 10, MPI_COMM_WORLD, &requests[0]);
  MPI_Isend(wrong ? values + 7 : values + MANY, MANY, MPI_INT, peer, 10, MPI_COMM_WORLD,
            &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* Each waits for a message of the next, by a request, on another communicator. */
static void requests(void) {
  int value = rank, next = (rank + 1) % size, last = (rank + size - 1) % size;
  MPI_Comm ring;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &ring);
  MPI_Comm_set_name(ring, "the ring");
  if (right) MPI_Send(&value, 1, MPI_INT, last, 11, ring);
  MPI_Irecv(&value, 1, MPI_INT, next, 11, ring, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (!right) MPI_Send(&value, 1, MPI_INT, last, 11, ring);
  MPI_Comm_free(&ring);
}

/* A rank that is gone without a word, when the others wait for it. */
static void exits(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1 && !right) {
    sleep(1);
    _exit(0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* A rank that never stops computing. */
static void loop(void) {
  volatile unsigned long turns = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  while (rank == 1 && !right) turns++;
  MPI_Barrier(MPI_COMM_WORLD);
}

/* A rank goes to MPI_Finalize early. */
static void leaves(void) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 1 || right) MPI_Barrier(MPI_COMM_WORLD);
}

/* The one that would have told, while others wait for its messages. */
static void first_leaves(void) {
  int value = rank;
  MPI_Barrier(MPI_COMM_WORLD);
  for (int to = 1; to < size && rank == 0 && right; to++)
    MPI_Send(&value, 1, MPI_INT, to, 8, MPI_COMM_WORLD);
  if (rank != 0) MPI_Recv(&value, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* A row of the record serves one communicator after another, and ranks use different rows. */
static void rows(void) {
  for (int i = 0; i < 40; i++) {
    MPI_Comm half, own;
    int value = 1, sum = 0;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (int j = 0; j < rank % 2 + 1; j++) MPI_Barrier(half);
    if (rank % 2 == 0) MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, half);
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    if (rank % 2 == 0) MPI_Comm_free(&half);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_MAX, own);
    MPI_Bcast(&value, 1, MPI_INT, 0, own);
    MPI_Comm_free(&own);
    if (rank % 2 != 0) MPI_Comm_free(&half);
  }
}

/* The same difference in every turn is told once. */
static void again(void) {
  int value = rank, result = 0;
  for (int i = 0; i < 50; i++)
    MPI_Allreduce(&value, &result, 1, MPI_INT, !right && rank == 1 ? MPI_MAX : MPI_SUM,
                  MPI_COMM_WORLD);
}

static void* receive(void* tag) {
  int value = 0;
  MPI_Recv(&value, 1, MPI_INT, 0, (int)(intptr_t)tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return NULL;
}

/* Threads of rank 1 wait for messages that nobody sends. */
static void threads(void) {
  pthread_t thread[2];
  int value = 0;
  for (intptr_t i = 0; i < 2 && rank == 1; i++)
    pthread_create(&thread[i], NULL, receive, (void*)(i + 1));
  if (right || rank == 1) MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 2 && rank == 0 && right; i++)
    MPI_Send(&value, 1, MPI_INT, 1, i + 1, MPI_COMM_WORLD);
  for (int i = 0; i < 2 && rank == 1; i++) pthread_join(thread[i], NULL);
  if (rank != 1 && !right) MPI_Recv(&value, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Work between collectives for as long as STUCK_S: nothing is wrong, only slow. */
static void busy(void) {
  long value = rank, sum = 0;
  const char* seconds = getenv("STUCK_S");
  const double end = right ? 0 : MPI_Wtime() + (seconds != NULL ? atof(seconds) : 20) - 1;
  do {
    usleep(1000);
    MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    value = MPI_Wtime() < end;
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
  } while (value);
}

static const struct {
  const char* name;
  void (*function)(void);
} defects[] = {{"missing", missing}, {"root", root}, {"started_root", started_root},
               {"stopped", stopped}, {"count", count},
               {"operator", operator},
                {"order", order},
                {"function", function},
                {"nonblocking", nonblocking},
                {"buffer", buffer},
                {"reused", reused},
                {"unmapped", unmapped},
                {"overlap", overlap},
                {"requests", requests},
                {"exits", exits},
                {"loop", loop},
                {"messages", messages},
                {"threads", threads},
                {"busy", busy},
                {"rows", rows},
                {"unwaited", unwaited},
                {"again", again},
                {"leaves", leaves},
                {"first_leaves", first_leaves}};

int main(int argc, char** argv) {
  const char* seconds = getenv("STUCK_S");
  int provided = 0;
  MPI_Init_thread(
      &argc, &argv,
      argc > 1 && strcmp(argv[1], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
      &provided);
  alarm(seconds != NULL ? (unsigned)atoi(seconds) : 20);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  right = argc > 2 && strcmp(argv[2], "right") == 0;
  for (size_t i = 0; i < sizeof defects / sizeof defects[0]; i++) {
    if (argc > 1 && (strcmp(argv[1], defects[i].name) == 0 ||
                     (strcmp(argv[1], "all") == 0 && defects[i].function != threads)))
      defects[i].function();
  }
  if (rank == 0) printf("ended\n");
  if (getenv("STUCK_STAY") != NULL) pause();
  MPI_Finalize();
  return 0;
}
