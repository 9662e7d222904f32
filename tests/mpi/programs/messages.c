/* Point-to-point on any communicator: order, wildcards, modes, truncation, probes, derived types,
 * persistent requests, cancellation, freed requests and communicators, and statuses. Large and
 * small messages, so that every protocol is met. */
#include "check.h"

enum { kSmall = 8, kLarge = 300000 };

static int rank, size, next, previous;
static char* out;
static char* in;

static void fill(char* data, size_t bytes, int seed) {
  for (size_t i = 0; i < bytes; i++) data[i] = (char)(seed * 31 + (int)i * 7 + (int)(i >> 8));
}

static int same(const char* data, size_t bytes, int seed) {
  for (size_t i = 0; i < bytes; i++)
    if (data[i] != (char)(seed * 31 + (int)i * 7 + (int)(i >> 8))) return 0;
  return 1;
}

static void check_status(const MPI_Status* status, int source, int tag, int bytes,
                         const char* what) {
  int count = -1;
  MPI_Get_count((MPI_Status*)status, MPI_CHAR, &count);
  CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag && count == bytes,
        "%s: status has source %d tag %d count %d, not %d %d %d", what, status->MPI_SOURCE,
        status->MPI_TAG, count, source, tag, bytes);
}

/* Messages of one pair arrive in order, whatever their sizes and protocols. */
static void test_order(MPI_Comm comm) {
  enum { kMessages = 200 };
  static MPI_Request requests[kMessages];
  static char* sent[kMessages];
  for (int i = 0; i < kMessages; i++) {
    int bytes = i % 10 == 9 ? kLarge : kSmall + i;
    char* data = sent[i] = malloc((size_t)bytes);
    fill(data, (size_t)bytes, i);
    if (i % 3 == 0)
      MPI_Ibsend(data, i % 10 == 9 ? 0 : bytes, MPI_CHAR, next, 5, comm, &requests[i]);
    else
      MPI_Isend(data, bytes, MPI_CHAR, next, 5, comm, &requests[i]);
  }
  for (int i = 0; i < kMessages; i++) {
    int bytes = i % 10 == 9 ? kLarge : kSmall + i;
    if (i % 3 == 0 && i % 10 == 9) bytes = 0;
    MPI_Status status;
    MPI_Recv(in, kLarge, MPI_CHAR, i % 2 ? previous : MPI_ANY_SOURCE, i % 4 ? 5 : MPI_ANY_TAG, comm,
             &status);
    check_status(&status, previous, 5, bytes, "order");
    CHECK(same(in, (size_t)bytes, i), "message %d out of order or damaged", i);
  }
  MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMessages; i++) free(sent[i]);
}

/* Receives are taken in the order in which they were posted, with and without wildcards. */
static void test_posted_order(MPI_Comm comm) {
  MPI_Request requests[4];
  MPI_Status statuses[4];
  int got[4] = {-1, -1, -1, -1};
  MPI_Irecv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, 7, comm, &requests[0]);
  MPI_Irecv(&got[1], 1, MPI_INT, previous, MPI_ANY_TAG, comm, &requests[1]);
  MPI_Irecv(&got[2], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[2]);
  MPI_Irecv(&got[3], 1, MPI_INT, previous, 7, comm, &requests[3]);
  MPI_Barrier(comm);
  for (int i = 0; i < 4; i++) MPI_Send(&i, 1, MPI_INT, next, i == 1 ? 8 : 7, comm);
  MPI_Waitall(4, requests, statuses);
  for (int i = 0; i < 4; i++) {
    CHECK(got[i] == i, "posted receive %d got message %d", i, got[i]);
    check_status(&statuses[i], previous, i == 1 ? 8 : 7, 4, "posted order");
  }
}

static void test_tags(MPI_Comm comm) {
  MPI_Request requests[3];
  for (int tag = 0; tag < 3; tag++) {
    fill(out + tag * 100, 100, tag);
    MPI_Isend(out + tag * 100, 100, MPI_CHAR, next, tag, comm, &requests[tag]);
  }
  for (int tag = 2; tag >= 0; tag--) {
    MPI_Recv(in, 100, MPI_CHAR, previous, tag, comm, MPI_STATUS_IGNORE);
    CHECK(same(in, 100, tag), "tag %d", tag);
  }
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
}

static void test_modes(MPI_Comm comm) {
  static char attached[3 * kLarge];
  int bytes[] = {0, 1, kSmall, 5000, kLarge};
  MPI_Buffer_attach(attached, sizeof attached);
  for (int b = 0; b < 5; b++) {
    MPI_Request request, receive;
    fill(out, (size_t)bytes[b], b);
    MPI_Irecv(in, kLarge, MPI_CHAR, previous, b, comm, &receive);
    MPI_Barrier(comm);
    MPI_Irsend(out, bytes[b], MPI_CHAR, next, b, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    CHECK(same(in, (size_t)bytes[b], b), "ready send of %d", bytes[b]);
    MPI_Bsend(out, bytes[b], MPI_CHAR, next, b, comm);
    memset(out, 0, (size_t)bytes[b]);
    MPI_Recv(in, kLarge, MPI_CHAR, previous, b, comm, MPI_STATUS_IGNORE);
    CHECK(same(in, (size_t)bytes[b], b), "buffered send of %d", bytes[b]);
    fill(out, (size_t)bytes[b], b);
    MPI_Issend(out, bytes[b], MPI_CHAR, next, b, comm, &request);
    MPI_Barrier(comm);
    MPI_Recv(in, kLarge, MPI_CHAR, previous, b, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(same(in, (size_t)bytes[b], b), "synchronous send of %d", bytes[b]);
    MPI_Sendrecv(out, bytes[b], MPI_CHAR, next, 9, in, kLarge, MPI_CHAR, previous, 9, comm,
                 MPI_STATUS_IGNORE);
    CHECK(same(in, (size_t)bytes[b], b), "sendrecv of %d", bytes[b]);
    MPI_Sendrecv_replace(out, bytes[b], MPI_CHAR, next, 9, previous, 9, comm, MPI_STATUS_IGNORE);
    CHECK(same(out, (size_t)bytes[b], b), "sendrecv_replace of %d", bytes[b]);
  }
  void* detached = NULL;
  int room = 0;
  MPI_Buffer_detach(&detached, &room);
  CHECK(detached == attached && room == (int)sizeof attached, "detached buffer");
}

/* Small sends, which may be over at once: every call that takes requests takes theirs. */
static void test_small_sends(MPI_Comm comm) {
  enum { kSends = 6 };
  MPI_Request requests[kSends];
  MPI_Status status, statuses[kSends];
  MPI_Request receives[kSends];
  int tokens[kSends], got[kSends], indices[kSends], index = -1, flag = 0, count = 0, cancelled = -1;
  for (int i = 0; i < kSends; i++) MPI_Irecv(&got[i], 1, MPI_INT, previous, i, comm, &receives[i]);
  for (int i = 0; i < kSends; i++) {
    tokens[i] = 100 * rank + i;
    MPI_Isend(&tokens[i], 1, MPI_INT, next, i, comm, &requests[i]);
    CHECK(requests[i] != MPI_REQUEST_NULL, "a send has no request");
  }
  while (!flag) MPI_Request_get_status(requests[0], &flag, &status);
  CHECK(requests[0] != MPI_REQUEST_NULL, "a query has taken the request");
  MPI_Cancel(&requests[0]);
  MPI_Wait(&requests[0], &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(!cancelled, "a send that was over has been cancelled");
  MPI_Request_free(&requests[1]);
  CHECK(requests[1] == MPI_REQUEST_NULL, "a freed request is not null");
  MPI_Waitany(kSends, requests, &index, &status);
  CHECK(index >= 2 && index < kSends && requests[index] == MPI_REQUEST_NULL, "waitany gave %d",
        index);
  for (int left = kSends - 3; left > 0; left -= count) {
    MPI_Waitsome(kSends, requests, &count, indices, statuses);
    CHECK(count > 0 && count <= left, "waitsome gave %d of %d", count, left);
    if (count <= 0 || count > left) break;
  }
  MPI_Waitsome(kSends, requests, &count, indices, statuses);
  CHECK(count == MPI_UNDEFINED, "waitsome found %d requests of none", count);
  MPI_Waitall(kSends, receives, MPI_STATUSES_IGNORE);
  MPI_Barrier(comm); /* until then `tokens` may be in use by the freed request */
  for (int i = 0; i < kSends; i++)
    CHECK(got[i] == 100 * previous + i, "small send %d: %d", i, got[i]);
}

/* An unmatched synchronous send is not over. */
static void test_synchronous(MPI_Comm comm) {
  int flag = 0, token = rank;
  MPI_Request request;
  MPI_Issend(&token, 1, MPI_INT, next, 3, comm, &request);
  for (int i = 0; i < 1000; i++) {
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "a synchronous send is over before its receive");
    if (flag) break;
  }
  MPI_Barrier(comm);
  MPI_Recv(&token, 1, MPI_INT, previous, 3, comm, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void test_probes(MPI_Comm comm) {
  int bytes[] = {0, 4, 5000, kLarge};
  for (int b = 0; b < 4; b++) {
    MPI_Request request;
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NULL;
    int flag = 1, tag = 11 + b;
    MPI_Iprobe(previous, 77, comm, &flag, &status);
    CHECK(!flag, "a message that nobody has sent");
    MPI_Improbe(previous, 77, comm, &flag, &message, &status);
    CHECK(!flag, "a matched message that nobody has sent");
    fill(out, (size_t)bytes[b], b);
    MPI_Isend(out, bytes[b], MPI_CHAR, next, tag, comm, &request);
    MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    check_status(&status, previous, tag, bytes[b], "probe");
    do MPI_Iprobe(previous, tag, comm, &flag, &status);
    while (!flag);
    check_status(&status, previous, tag, bytes[b], "iprobe");
    memset(in, 1, kLarge);
    if (b % 2 == 0) {
      MPI_Mprobe(MPI_ANY_SOURCE, tag, comm, &message, &status);
      check_status(&status, previous, tag, bytes[b], "mprobe");
      MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &flag, MPI_STATUS_IGNORE);
      CHECK(!flag, "a message that has been taken is found again");
      MPI_Mrecv(in, bytes[b], MPI_CHAR, &message, &status);
    } else {
      MPI_Request receive;
      do MPI_Improbe(previous, MPI_ANY_TAG, comm, &flag, &message, &status);
      while (!flag);
      check_status(&status, previous, tag, bytes[b], "improbe");
      MPI_Imrecv(in, bytes[b], MPI_CHAR, &message, &receive);
      MPI_Wait(&receive, &status);
    }
    CHECK(message == MPI_MESSAGE_NULL, "the message is null after its receive");
    check_status(&status, previous, tag, bytes[b], "matched receive");
    CHECK(same(in, (size_t)bytes[b], b), "data of a matched receive of %d", bytes[b]);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

/* MPI 4.1, section 3.10: it succeeds and returns as soon as possible, and changes no buffer. */
static void test_nobody(MPI_Comm comm) {
  MPI_Status status, statuses[4];
  MPI_Request requests[4];
  MPI_Message message;
  int flag = 0, value = 5, count = -1, got = -1;
  MPI_Ssend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, comm);
  MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &status);
  check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0, "receive from nobody");
  MPI_Sendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 1, &value, 1, MPI_INT, MPI_PROC_NULL, 1, comm,
               &status);
  check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0, "exchange with nobody");
  /* Among requests of messages between ranks, whichever completes first. */
  MPI_Irecv(&got, 1, MPI_INT, previous, 3, comm, &requests[0]);
  MPI_Issend(&value, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &requests[1]);
  MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, &requests[2]);
  MPI_Isend(&rank, 1, MPI_INT, next, 3, comm, &requests[3]);
  MPI_Waitall(4, requests, statuses);
  check_status(&statuses[0], previous, 3, 4, "beside nobody");
  check_status(&statuses[2], MPI_PROC_NULL, MPI_ANY_TAG, 0, "one of several from nobody");
  MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &requests[0]);
  MPI_Test(&requests[0], &flag, &status);
  CHECK(flag && requests[0] == MPI_REQUEST_NULL, "a receive from nobody is over at once");
  MPI_Get_elements(&status, MPI_INT, &count);
  CHECK(count == 0 && value == 5 && got == previous, "count %d, value %d", count, value);
  MPI_Probe(MPI_PROC_NULL, 1, comm, &status);
  check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0, "probe of nobody");
  flag = 0;
  MPI_Iprobe(MPI_PROC_NULL, 1, comm, &flag, &status);
  CHECK(flag && status.MPI_SOURCE == MPI_PROC_NULL, "iprobe of nobody");
  MPI_Mprobe(MPI_PROC_NULL, 1, comm, &message, &status);
  MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
  check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0, "matched receive from nobody");
  /* A chain: the first receives from nobody, the last sends to nobody. */
  int mine = rank;
  got = -1;
  MPI_Sendrecv(&mine, 1, MPI_INT, rank + 1 < size ? rank + 1 : MPI_PROC_NULL, 2, &got, 1, MPI_INT,
               rank > 0 ? rank - 1 : MPI_PROC_NULL, 2, comm, &status);
  CHECK(got == (rank > 0 ? rank - 1 : -1), "chain: %d", got);
  CHECK(status.MPI_SOURCE == (rank > 0 ? rank - 1 : MPI_PROC_NULL), "chain's status");
}

static void test_truncation(MPI_Comm comm) {
  int bytes[] = {100, kLarge};
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  for (int b = 0; b < 2; b++) {
    MPI_Request request;
    MPI_Status statuses[2];
    int class = -1;
    fill(out, (size_t)bytes[b], 3);
    MPI_Isend(out, bytes[b], MPI_CHAR, next, 4, comm, &request);
    int code = MPI_Recv(in, bytes[b] / 2, MPI_CHAR, previous, 4, comm, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TRUNCATE, "truncation of %d gives class %d", bytes[b], class);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request both[2];
    MPI_Isend(out, bytes[b], MPI_CHAR, next, 4, comm, &both[1]);
    MPI_Irecv(in, bytes[b] / 2, MPI_CHAR, previous, 4, comm, &both[0]);
    code = MPI_Waitall(2, both, statuses);
    CHECK(code == MPI_ERR_IN_STATUS || code == MPI_ERR_TRUNCATE, "Waitall gives %d", code);
    if (code == MPI_ERR_IN_STATUS) {
      MPI_Error_class(statuses[0].MPI_ERROR, &class);
      CHECK(class == MPI_ERR_TRUNCATE, "errors in statuses: %d", class);
      CHECK(statuses[1].MPI_ERROR == MPI_SUCCESS || statuses[1].MPI_ERROR == MPI_ERR_PENDING,
            "error of the other: %d", statuses[1].MPI_ERROR);
    }
    for (int i = 0; i < 2; i++)
      if (both[i] != MPI_REQUEST_NULL) MPI_Wait(&both[i], MPI_STATUS_IGNORE);
  }
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

/* Data with holes at both ends, and a message that ends within an element. */
static void test_types(MPI_Comm comm) {
  MPI_Datatype column, record;
  enum { kRows = 2000 };
  static double matrix[kRows][4], got[kRows][4], packed[kRows];
  for (int i = 0; i < kRows; i++)
    for (int j = 0; j < 4; j++) matrix[i][j] = rank * 1e6 + i * 10 + j, got[i][j] = -1;
  for (int rows = 10; rows <= kRows; rows *= 200) {
    MPI_Request requests[2];
    MPI_Status status;
    int count = 0;
    MPI_Type_vector(rows, 1, 4, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Irecv(&got[0][1], 1, column, previous, 1, comm, &requests[0]);
    MPI_Isend(&matrix[0][2], 1, column, next, 1, comm, &requests[1]);
    MPI_Type_free(&column); /* in use */
    MPI_Wait(&requests[0], &status);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    CHECK(count == rows, "count of a vector: %d", count);
    for (int i = 0; i < rows; i++)
      CHECK(got[i][1] == previous * 1e6 + i * 10 + 2 && got[i][0] == -1 && got[i][2] == -1,
            "vector, row %d", i);
    MPI_Type_vector(rows, 1, 4, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Sendrecv(&matrix[0][3], 1, column, next, 2, packed, rows, MPI_DOUBLE, previous, 2, comm,
                 &status);
    for (int i = 0; i < rows; i++)
      CHECK(packed[i] == previous * 1e6 + i * 10 + 3, "vector to packed, row %d", i);
    MPI_Sendrecv_replace(&matrix[0][3], 1, column, next, 2, previous, 2, comm, &status);
    for (int i = 0; i < rows; i++) {
      CHECK(matrix[i][3] == previous * 1e6 + i * 10 + 3, "vector replaced, row %d", i);
      matrix[i][3] = rank * 1e6 + i * 10 + 3;
    }
    MPI_Type_free(&column);
  }
  struct pair {
    char c;
    int n;
  } pairs[3] = {{'x', -1}, {'x', -1}, {'x', -1}};
  int lengths[2] = {1, 1}, elements = 0, count = 0;
  MPI_Aint places[2] = {0, (MPI_Aint)sizeof(int)};
  MPI_Datatype parts[2] = {MPI_CHAR, MPI_INT}, plain;
  MPI_Type_create_struct(2, lengths, places, parts, &plain);
  MPI_Type_create_resized(plain, 0, sizeof(struct pair), &record);
  MPI_Type_commit(&record);
  struct pair mine[2] = {{'a', rank}, {'b', 77}};
  MPI_Datatype one_and_a_char;
  int counts[2] = {1, 1};
  MPI_Aint where[2] = {0, (MPI_Aint)sizeof(struct pair)};
  MPI_Datatype kinds[2] = {record, MPI_CHAR};
  MPI_Type_create_struct(2, counts, where, kinds, &one_and_a_char);
  MPI_Type_commit(&one_and_a_char);
  MPI_Status status;
  MPI_Sendrecv(mine, 1, one_and_a_char, next, 6, pairs, 3, record, previous, 6, comm, &status);
  MPI_Get_elements(&status, record, &elements);
  MPI_Get_count(&status, record, &count);
  CHECK(pairs[0].c == 'a' && pairs[0].n == previous && pairs[1].c == 'b' && pairs[1].n == -1 &&
            pairs[2].c == 'x',
        "a message that ends within an element");
  CHECK(elements == 3 && count == MPI_UNDEFINED, "elements %d count %d", elements, count);
  MPI_Type_free(&one_and_a_char);
  MPI_Type_free(&record);
  MPI_Type_free(&plain);
}

static void test_persistent(MPI_Comm comm) {
  MPI_Request requests[4];
  int sent[2], got[2];
  MPI_Send_init(&sent[0], 1, MPI_INT, next, 1, comm, &requests[0]);
  MPI_Ssend_init(&sent[1], 1, MPI_INT, next, 2, comm, &requests[1]);
  MPI_Recv_init(&got[0], 1, MPI_INT, previous, 1, comm, &requests[2]);
  MPI_Recv_init(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, 2, comm, &requests[3]);
  for (int turn = 0; turn < 20; turn++) {
    MPI_Status statuses[4];
    sent[0] = rank * 100 + turn;
    sent[1] = rank * 1000 + turn;
    MPI_Startall(4, requests);
    MPI_Waitall(4, requests, statuses);
    CHECK(got[0] == previous * 100 + turn && got[1] == previous * 1000 + turn, "turn %d", turn);
    check_status(&statuses[3], previous, 2, 4, "persistent");
  }
  for (int i = 0; i < 4; i++) MPI_Request_free(&requests[i]);
}

static void test_cancel(MPI_Comm comm) {
  MPI_Request request;
  MPI_Status status;
  int cancelled = 0, value = 0;
  MPI_Irecv(&value, 1, MPI_INT, previous, 55, comm, &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled, "a receive that nothing has come for was not cancelled");
  MPI_Barrier(comm);
}

/* A request and a communicator that are freed while the message is under way. */
static void test_freed(MPI_Comm comm) {
  MPI_Comm copy;
  MPI_Request request, receive;
  MPI_Comm_dup(comm, &copy);
  fill(out, kLarge, 8);
  memset(in, 0, kLarge);
  MPI_Irecv(in, kLarge, MPI_CHAR, previous, 1, copy, &receive);
  MPI_Isend(out, kLarge, MPI_CHAR, next, 1, copy, &request);
  MPI_Request_free(&request);
  CHECK(request == MPI_REQUEST_NULL, "a freed request is null");
  MPI_Comm_free(&copy);
  MPI_Wait(&receive, MPI_STATUS_IGNORE);
  CHECK(same(in, kLarge, 8), "a message on a freed communicator");
  MPI_Barrier(comm);
  MPI_Comm_dup(comm, &copy);
  MPI_Isend(out, 100, MPI_CHAR, next, 1, copy, &request);
  MPI_Recv(in, 100, MPI_CHAR, previous, 1, copy, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_disconnect(&copy);
}

/* The same tags on several communicators, one of which MPI_Comm_idup made. */
static void test_communicators(MPI_Comm comm) {
  MPI_Comm copies[3];
  MPI_Request request;
  int value, got[3];
  MPI_Comm_dup(comm, &copies[0]);
  MPI_Comm_split(comm, 0, size - rank, &copies[1]);
  MPI_Comm_idup(comm, &copies[2], &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Request requests[3];
  for (int i = 0; i < 3; i++) {
    int reversed = i == 1;
    MPI_Irecv(&got[i], 1, MPI_INT, reversed ? size - 1 - previous : previous, 1, copies[i],
              &requests[i]);
  }
  MPI_Barrier(copies[2]); /* what has begun before an agreement goes on after it */
  for (int i = 2; i >= 0; i--) {
    value = rank * 10 + i;
    MPI_Send(&value, 1, MPI_INT, i == 1 ? size - 1 - next : next, 1, copies[i]);
  }
  MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < 3; i++) CHECK(got[i] == previous * 10 + i, "communicator %d: %d", i, got[i]);
  for (int i = 0; i < 3; i++) MPI_Comm_free(&copies[i]);
}

/* Many to one, from anybody. */
static void test_any_source(MPI_Comm comm) {
  enum { kEach = 100 };
  if (rank != 0) {
    for (int i = 0; i < kEach; i++) MPI_Send(&i, 1, MPI_INT, 0, rank, comm);
  } else {
    int seen[64] = {0};
    for (int i = 0; i < kEach * (size - 1); i++) {
      int value;
      MPI_Status status;
      MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
      CHECK(status.MPI_SOURCE == status.MPI_TAG, "source %d", status.MPI_SOURCE);
      CHECK(value == seen[status.MPI_SOURCE % 64]++, "order from %d", status.MPI_SOURCE);
    }
  }
  MPI_Barrier(comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_Comm_rank(world, &rank);
  MPI_Comm_size(world, &size);
  next = (rank + 1) % size;
  previous = (rank + size - 1) % size;
  out = malloc(kLarge);
  in = malloc(kLarge);
  static char buffer[1 << 20];
  for (int turn = 0; turn < 3; turn++) {
    MPI_Buffer_attach(buffer, sizeof buffer);
    test_order(world);
    void* detached;
    int bytes;
    MPI_Buffer_detach(&detached, &bytes);
    test_posted_order(world);
    test_tags(world);
    test_modes(world);
    if (size > 1) test_small_sends(world);
    if (size > 1) test_synchronous(world);
    test_probes(world);
    test_nobody(world);
    test_truncation(world);
    test_types(world);
    test_persistent(world);
    test_cancel(world);
    test_freed(world);
    test_communicators(world);
    test_any_source(world);
  }
  return finish("messages");
}
