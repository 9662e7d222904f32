/* What a program may leave to MPI_Finalize, MPI_Comm_disconnect and MPI_Comm_free (MPI 4.1,
 * sections 3.7.3, 7.4.3, 11.2.2 and 11.10.4): requests that it has freed, buffered messages that
 * nobody has received yet, cancelled sends. Usage: leaving CASE world|free|disconnect BYTES. Rank r
 * sends to rank r + 1, the one late and the other early; what has arrived is looked at after
 * MPI_Finalize.
 *
 * The cases below "sloppy" are none of the standard's, but the MPIs come to an end with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

enum { kTag = 5, kMost = 300000 };

static int rank, size, before, after; /* neighbours; MPI_PROC_NULL at the ends */
static int bytes;
static char out[kMost], in[kMost], space[2 * kMost + 2 * MPI_BSEND_OVERHEAD];
static int expects = 1; /* the message of rank - 1 is to be in `in` at the end */
static MPI_Comm world = MPI_COMM_WORLD;

/* Each rank later than the one before it. */
static void late(void) {
  struct timespec time = {0, 120 * 1000000L * (rank + 1)};
  nanosleep(&time, NULL);
}

static char byte_of(int from, int i) { return (char)(from * 31 + i * 7 + (i >> 8) + 1); }

static void receive(MPI_Comm comm) {
  MPI_Recv(in, bytes, MPI_CHAR, before, kTag, comm, MPI_STATUS_IGNORE);
}

static void free_active(MPI_Request* request) {
  if (*request != MPI_REQUEST_NULL) MPI_Request_free(request);
}

/* ---- freed requests */

static void freed_send(MPI_Comm comm) {
  MPI_Request request;
  MPI_Isend(out, bytes, MPI_CHAR, after, kTag, comm, &request);
  free_active(&request);
  late();
  receive(comm);
}

static void freed_synchronous(MPI_Comm comm) {
  MPI_Request request;
  MPI_Issend(out, bytes, MPI_CHAR, after, kTag, comm, &request);
  free_active(&request);
  late();
  receive(comm);
}

static void freed_persistent_send(MPI_Comm comm) {
  MPI_Request request;
  MPI_Send_init(out, bytes, MPI_CHAR, after, kTag, comm, &request);
  MPI_Start(&request);
  free_active(&request);
  late();
  receive(comm);
}

static void freed_buffered(MPI_Comm comm) {
  MPI_Request request;
  MPI_Buffer_attach(space, sizeof space);
  MPI_Ibsend(out, bytes, MPI_CHAR, after, kTag, comm, &request);
  free_active(&request);
  late();
  receive(comm);
}

static void send_late(MPI_Comm comm) {
  MPI_Barrier(MPI_COMM_WORLD);
  late();
  MPI_Send(out, bytes, MPI_CHAR, after, kTag, comm);
}

static void freed_receive(MPI_Comm comm) {
  MPI_Request request;
  MPI_Irecv(in, bytes, MPI_CHAR, before, kTag, comm, &request);
  free_active(&request);
  send_late(comm);
}

static void freed_receive_from_anybody(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank != 0) {
    MPI_Irecv(in, bytes, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &request);
    free_active(&request);
  }
  send_late(comm);
}

static void freed_persistent_receive(MPI_Comm comm) {
  MPI_Request request;
  MPI_Recv_init(in, bytes, MPI_CHAR, before, kTag, comm, &request);
  MPI_Start(&request);
  free_active(&request);
  send_late(comm);
}

static void freed_matched_receive(MPI_Comm comm) {
  MPI_Request request;
  MPI_Isend(out, bytes, MPI_CHAR, after, kTag, comm, &request);
  free_active(&request);
  if (rank == 0) return;
  MPI_Message message;
  MPI_Mprobe(before, kTag, comm, &message, MPI_STATUS_IGNORE);
  MPI_Imrecv(in, bytes, MPI_CHAR, &message, &request);
  free_active(&request);
}

/* Freed both, early and late. */
static void freed_both(MPI_Comm comm) {
  MPI_Request requests[2];
  MPI_Irecv(in, bytes, MPI_CHAR, before, kTag, comm, &requests[0]);
  free_active(&requests[0]);
  MPI_Barrier(MPI_COMM_WORLD);
  late();
  MPI_Isend(out, bytes, MPI_CHAR, after, kTag, comm, &requests[1]);
  free_active(&requests[1]);
}

/* A freed receive of a vector: it comes to its place when nobody asks any more. */
static void freed_vector(MPI_Comm comm) {
  static char spread[2 * kMost];
  MPI_Request request;
  MPI_Datatype vector;
  MPI_Type_vector(bytes, 1, 2, MPI_CHAR, &vector);
  MPI_Type_commit(&vector);
  for (int i = 0; i < bytes; i++) spread[2 * i] = out[i];
  MPI_Isend(spread, 1, vector, after, kTag, comm, &request);
  free_active(&request);
  MPI_Irecv(in, bytes, MPI_CHAR, before, kTag, comm, &request);
  free_active(&request);
  MPI_Type_free(&vector);
}

/* ---- buffered messages */

static void buffered(MPI_Comm comm) {
  MPI_Buffer_attach(space, sizeof space);
  MPI_Bsend(out, bytes, MPI_CHAR, after, kTag, comm);
  late();
  receive(comm);
}

static void buffered_and_detached(MPI_Comm comm) {
  void* detached;
  int room;
  buffered(comm);
  MPI_Buffer_detach(&detached, &room);
  memset(space, 0, sizeof space);
}

static void buffered_persistent(MPI_Comm comm) {
  MPI_Request request;
  MPI_Buffer_attach(space, sizeof space);
  MPI_Bsend_init(out, bytes, MPI_CHAR, after, kTag, comm, &request);
  MPI_Start(&request);
  free_active(&request);
  late();
  receive(comm);
}

/* ---- others */

static void persistent_kept(MPI_Comm comm) {
  MPI_Request requests[2];
  MPI_Recv_init(in, bytes, MPI_CHAR, before, kTag, comm, &requests[0]);
  MPI_Send_init(out, bytes, MPI_CHAR, after, kTag, comm, &requests[1]);
  MPI_Startall(2, requests);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* The cancellation must succeed: nobody receives (the standard's example). */
static void cancelled_send(MPI_Comm comm) {
  MPI_Request request;
  MPI_Status status;
  int cancelled = 1;
  expects = 0;
  if (rank == 0) {
    MPI_Issend(out, bytes, MPI_CHAR, after, kTag, comm, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
  }
  if (!cancelled) exit(3);
}

static void cancelled_receive(MPI_Comm comm) {
  MPI_Request request;
  MPI_Irecv(in, bytes, MPI_CHAR, rank == 0 ? MPI_ANY_SOURCE : before, kTag, comm, &request);
  MPI_Cancel(&request);
  MPI_Request_free(&request);
  expects = 0;
}

/* Sends while all others are on their way out already, and to somebody new. */
static void late_stranger(MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == size - 1) {
    MPI_Irecv(in, bytes, MPI_CHAR, MPI_ANY_SOURCE, kTag, comm, &request);
    free_active(&request);
  }
  MPI_Barrier(comm);
  if (rank == 0) {
    struct timespec time = {0, 300 * 1000000L};
    nanosleep(&time, NULL);
    MPI_Send(out, bytes, MPI_CHAR, size - 1, kTag, comm);
  }
  expects = rank == size - 1 ? 2 : 0;
}

/* ---- sloppy */

static void never_answered(MPI_Comm comm) {
  MPI_Request requests[2];
  MPI_Irecv(in, bytes, MPI_CHAR, MPI_ANY_SOURCE, kTag, comm, &requests[0]);
  MPI_Irecv(in, bytes, MPI_CHAR, (rank + 1) % size, kTag, comm, &requests[1]);
  MPI_Request_free(&requests[0]);
  expects = 0;
}

static void never_received(MPI_Comm comm) {
  MPI_Request request;
  MPI_Isend(out, bytes, MPI_CHAR, after, kTag, comm, &request);
  free_active(&request);
  expects = 0;
}

static void never_taken(MPI_Comm comm) {
  MPI_Request request;
  MPI_Message message;
  MPI_Isend(out, bytes, MPI_CHAR, after, kTag, comm, &request);
  MPI_Mprobe(before, kTag, comm, &message, MPI_STATUS_IGNORE);
  free_active(&request);
  expects = 0;
}

static void never_waited_for(MPI_Comm comm) {
  static MPI_Request requests[2];
  MPI_Irecv(in, bytes, MPI_CHAR, before, kTag, comm, &requests[0]);
  MPI_Isend(out, bytes, MPI_CHAR, after, kTag, comm, &requests[1]);
}

static const struct {
  const char* name;
  void (*run)(MPI_Comm);
} cases[] = {{"freed_send", freed_send},
             {"freed_synchronous", freed_synchronous},
             {"freed_persistent_send", freed_persistent_send},
             {"freed_buffered", freed_buffered},
             {"freed_receive", freed_receive},
             {"freed_receive_from_anybody", freed_receive_from_anybody},
             {"freed_persistent_receive", freed_persistent_receive},
             {"freed_matched_receive", freed_matched_receive},
             {"freed_both", freed_both},
             {"freed_vector", freed_vector},
             {"buffered", buffered},
             {"buffered_and_detached", buffered_and_detached},
             {"buffered_persistent", buffered_persistent},
             {"persistent_kept", persistent_kept},
             {"cancelled_send", cancelled_send},
             {"cancelled_receive", cancelled_receive},
             {"late_stranger", late_stranger},
             {"never_answered", never_answered},
             {"never_received", never_received},
             {"never_taken", never_taken},
             {"never_waited_for", never_waited_for}};

/* `way`: on the world, or on a communicator that is freed or disconnected before MPI_Finalize. */
static int run(const char* name, const char* way) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (strcmp(cases[i].name, name) != 0) continue;
    MPI_Comm comm = world;
    if (strcmp(way, "world") != 0) MPI_Comm_dup(world, &comm);
    cases[i].run(comm);
    if (strcmp(way, "free") == 0) MPI_Comm_free(&comm);
    if (strcmp(way, "disconnect") == 0) MPI_Comm_disconnect(&comm);
    return 1;
  }
  return 0;
}

/* After MPI_Finalize: wrong bytes of what was to arrive. */
static int damage(void) {
  int wrong = 0, from = expects == 2 ? 0 : rank - 1;
  for (int i = 0; i < bytes && expects && from >= 0; i++) wrong += in[i] != byte_of(from, i);
  return wrong;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  before = rank == 0 ? MPI_PROC_NULL : rank - 1;
  after = rank == size - 1 ? MPI_PROC_NULL : rank + 1;
  bytes = argc > 3 ? atoi(argv[3]) : 0;
  for (int i = 0; i < bytes; i++) out[i] = byte_of(rank, i);
  if (bytes < 1 || bytes > kMost || !run(argv[1], argv[2])) MPI_Abort(world, 2);
  MPI_Finalize();
  if (damage() != 0) {
    printf("rank %d: %d of %d bytes are wrong\n", rank, damage(), bytes);
    return 1;
  }
  printf("rank %d: in order\n", rank);
  return 0;
}
