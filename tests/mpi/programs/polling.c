/* A rank that has addressed nobody yet polls for messages from anybody, by each of the calls that
 * poll, while the others join late and one by one. Usage: polling WAY, the way that is tried first:
 * what a rank has done before decides what it looks after. */
#include <time.h>

#include "check.h"

enum { kSmall = 8, kLarge = 300000, kPatience = 60 };

static int rank, size;
static int room; /* bytes of all messages at present: for small ones nobody keeps an eye open */
static double began;

static void in_time(const char* what) {
  if (MPI_Wtime() - began < kPatience) return;
  fprintf(stderr, "rank %d: no end in sight: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

static void pause_ms(int ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

static char seed_of(int source, int tag) { return (char)(source * 16 + tag + 1); }

static void check_message(const char* data, const MPI_Status* status, int bytes, const char* what) {
  int count = -1;
  MPI_Get_count((MPI_Status*)status, MPI_CHAR, &count);
  char expected = seed_of(status->MPI_SOURCE, status->MPI_TAG);
  CHECK(count == bytes && data[0] == expected && data[bytes - 1] == expected,
        "%s: %d bytes from %d tag %d", what, count, status->MPI_SOURCE, status->MPI_TAG);
}

/* The ways. Each takes one message from anybody, as soon as there is one. */

static void by_test(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Request request;
  MPI_Irecv(data, room, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
  for (int flag = 0; !flag; in_time("MPI_Test")) MPI_Test(&request, &flag, status);
}

static void by_testany(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Irecv(data, room, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[1]);
  int index = -1;
  for (int flag = 0; !flag; in_time("MPI_Testany")) MPI_Testany(2, requests, &index, &flag, status);
  CHECK(index == 1, "index %d", index);
}

static void by_testsome(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Request request;
  MPI_Irecv(data, room, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
  int index = -1;
  for (int count = 0; count == 0; in_time("MPI_Testsome"))
    MPI_Testsome(1, &request, &count, &index, status);
  CHECK(index == 0, "index %d", index);
}

static void by_testall(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Request request;
  MPI_Irecv(data, room, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
  for (int flag = 0; !flag; in_time("MPI_Testall")) MPI_Testall(1, &request, &flag, status);
}

static void by_get_status(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Request request;
  MPI_Irecv(data, room, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
  for (int flag = 0; !flag; in_time("MPI_Request_get_status"))
    MPI_Request_get_status(request, &flag, status);
  MPI_Wait(&request, status);
}

static void by_iprobe(MPI_Comm comm, char* data, MPI_Status* status) {
  for (int flag = 0; !flag; in_time("MPI_Iprobe"))
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, status);
  MPI_Recv(data, room, MPI_CHAR, status->MPI_SOURCE, status->MPI_TAG, comm, status);
}

static void by_improbe(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Message message;
  for (int flag = 0; !flag; in_time("MPI_Improbe"))
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, status);
  MPI_Mrecv(data, room, MPI_CHAR, &message, status);
}

static void by_persistent(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Request request;
  MPI_Recv_init(data, room, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
  MPI_Start(&request);
  for (int flag = 0; !flag; in_time("MPI_Test of a persistent request"))
    MPI_Test(&request, &flag, status);
  MPI_Request_free(&request);
}

/* Asks after a request of another kind only, which ends after the message has arrived. */
static void by_other(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Request request, other;
  int value = 0, sum = 0;
  MPI_Irecv(data, room, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
  MPI_Iscan(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &other);
  MPI_Wait(&other, MPI_STATUS_IGNORE);
  for (int flag = 0; !flag; in_time("MPI_Testall, and an inactive request")) {
    MPI_Test(&other, &flag, status);
    MPI_Testall(1, &request, &flag, status);
  }
}

/* Waits for it: the others' turn. */
static void by_waitany(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Request request;
  int index;
  MPI_Irecv(data, room, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
  MPI_Waitany(1, &request, &index, status);
}

static void by_probe(MPI_Comm comm, char* data, MPI_Status* status) {
  MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, status);
  MPI_Recv(data, room, MPI_CHAR, status->MPI_SOURCE, status->MPI_TAG, comm, status);
}

typedef void (*Way)(MPI_Comm, char*, MPI_Status*);
static const Way ways[] = {by_test,       by_testany, by_testsome, by_testall,
                           by_get_status, by_iprobe,  by_improbe,  by_persistent,
                           by_other,      by_waitany, by_probe};
enum { kWays = sizeof ways / sizeof *ways };

/* Rank `root` of `comm` takes a message of each of the others, which come one after the other. */
static void gather(MPI_Comm comm, int root, Way way, const char* name) {
  static char data[kLarge];
  int me, members, from[64] = {0};
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &members);
  began = MPI_Wtime();
  if (me != root) {
    pause_ms(10 * ((me + members - root) % members));
    memset(data, seed_of(me, room), (size_t)room);
    MPI_Send(data, room, MPI_CHAR, root, room, comm);
  }
  for (int i = 1; i < members && me == root; i++) {
    MPI_Status status;
    way(comm, data, &status);
    check_message(data, &status, room, name);
    CHECK(from[status.MPI_SOURCE % 64]++ == 0, "%s: again from %d", name, status.MPI_SOURCE);
  }
  MPI_Barrier(comm);
}

/* A receive from anybody that nobody answers can be cancelled, and takes nothing that comes later.
 */
static void cancelled(MPI_Comm comm) {
  MPI_Request request;
  MPI_Status status;
  int value = -1, flag = 0, me, members;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &members);
  MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, comm, &request);
  MPI_Test(&request, &flag, &status);
  CHECK(!flag, "received from nobody");
  MPI_Cancel(&request);
  began = MPI_Wtime();
  for (flag = 0; !flag; in_time("MPI_Cancel")) MPI_Test(&request, &flag, &status);
  MPI_Test_cancelled(&status, &flag);
  CHECK(flag && value == -1, "cancelled %d, value %d", flag, value);
  MPI_Barrier(comm);
  MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % members, 7, &value, 1, MPI_INT, MPI_ANY_SOURCE, 7, comm,
               &status);
  CHECK(value == (me + members - 1) % members && status.MPI_SOURCE == value, "value %d", value);
  MPI_Barrier(comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm world = MPI_COMM_WORLD, reversed;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  int first = argc > 1 ? atoi(argv[1]) : 0;
  if (first == kWays) cancelled(world);
  room = kSmall;
  for (int i = 0; i < kWays; i++) gather(world, 0, ways[(first + i) % kWays], "world");
  MPI_Comm_split(world, 0, size - rank, &reversed);
  for (room = kSmall; room <= kLarge; room += kLarge - kSmall)
    for (int i = 0; i < kWays; i++)
      gather(reversed, size / 2, ways[(first + i) % kWays], "reversed");
  cancelled(reversed);
  MPI_Comm_free(&reversed);
  return finish("polling");
}
