/* Arrays that mix requests of collectives (tutti's) with point-to-point requests (the MPI's), null
 * requests and inactive persistent ones, through every completion function. */
#include "check.h"

enum { kCollectives = 3, kMessages = 4, kNulls = 2, kAll = kCollectives + kMessages + kNulls };

static int rank, size;

struct round {
  int sums[kCollectives], terms[kCollectives];
  int sent[kMessages], received[kMessages];
  int where[kAll]; /* what lies at each position: 0.. collectives, 100.. messages, -1 nothing */
  MPI_Request requests[kAll];
  int expected[kMessages];
};

/* Starts everything, in an order that depends on `shuffle`, but collectives in the same order
 * everywhere. */
static void start(struct round* r, int seed, int shuffle) {
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  int collective = 0, message = 0;
  memset(r, 0, sizeof *r);
  for (int i = 0; i < kAll; i++) r->requests[i] = MPI_REQUEST_NULL;
  for (int i = 0; i < kAll; i++) {
    int at = (i * 5 + shuffle) % kAll; /* 5 and 9 have no common divisor */
    r->where[at] = -1;
    if (i % 3 == 0 && collective < kCollectives) {
      r->terms[collective] = rank + seed + collective;
      MPI_Iallreduce(&r->terms[collective], &r->sums[collective], 1, MPI_INT, MPI_SUM,
                     MPI_COMM_WORLD, &r->requests[at]);
      r->where[at] = collective++;
    } else if (message < kMessages && i % 3 != 0) {
      r->sent[message] = rank * 100 + message + seed;
      r->expected[message] = previous * 100 + message + seed;
      MPI_Irecv(&r->received[message], 1, MPI_INT, previous, message, MPI_COMM_WORLD,
                &r->requests[at]);
      r->where[at] = 100 + message++;
    }
  }
  for (int m = 0; m < message; m++) MPI_Send(&r->sent[m], 1, MPI_INT, next, m, MPI_COMM_WORLD);
}

static void check_one(struct round* r, int position, int seed, const MPI_Status* status) {
  int what = r->where[position];
  CHECK(r->requests[position] == MPI_REQUEST_NULL, "request %d is not null after completion",
        position);
  CHECK(what >= 0, "a null request was reported as completed");
  if (what >= 100) {
    CHECK(r->received[what - 100] == r->expected[what - 100], "message %d", what - 100);
    if (status != NULL) {
      int count = -1;
      MPI_Get_count(status, MPI_INT, &count);
      CHECK(status->MPI_SOURCE == (rank + size - 1) % size && status->MPI_TAG == what - 100 &&
                count == 1,
            "status of message %d: source %d tag %d count %d", what - 100, status->MPI_SOURCE,
            status->MPI_TAG, count);
    }
  } else if (what >= 0) {
    CHECK(r->sums[what] == size * (size - 1) / 2 + size * (seed + what), "sum %d is %d", what,
          r->sums[what]);
    if (status != NULL) {
      int cancelled = 1, elements = -1;
      MPI_Test_cancelled(status, &cancelled);
      MPI_Get_elements(status, MPI_BYTE, &elements);
      CHECK(!cancelled, "a collective cannot be cancelled");
    }
  }
}

enum way {
  kWaitall,
  kTestall,
  kWaitany,
  kTestany,
  kWaitsome,
  kTestsome,
  kWait,
  kTest,
  kGetStatus,
  kIgnore,
  kWays
};

static void complete(struct round* r, int seed, enum way way) {
  MPI_Status statuses[kAll];
  int indices[kAll], count, index, flag = 0, left = kCollectives + kMessages;
  switch (way) {
    case kWaitall:
      MPI_Waitall(kAll, r->requests, statuses);
      for (int i = 0; i < kAll; i++) {
        if (r->where[i] >= 0)
          check_one(r, i, seed, &statuses[i]);
        else
          CHECK(statuses[i].MPI_SOURCE == MPI_ANY_SOURCE && statuses[i].MPI_TAG == MPI_ANY_TAG,
                "empty status");
      }
      break;
    case kTestall:
      while (!flag) MPI_Testall(kAll, r->requests, &flag, statuses);
      for (int i = 0; i < kAll; i++)
        if (r->where[i] >= 0) check_one(r, i, seed, &statuses[i]);
      break;
    case kWaitany:
      for (; left > 0; left--) {
        MPI_Waitany(kAll, r->requests, &index, &statuses[0]);
        CHECK(index != MPI_UNDEFINED, "Waitany found nothing");
        if (index == MPI_UNDEFINED) return;
        check_one(r, index, seed, &statuses[0]);
      }
      MPI_Waitany(kAll, r->requests, &index, &statuses[0]);
      CHECK(index == MPI_UNDEFINED, "Waitany after the last");
      break;
    case kTestany:
      while (left > 0) {
        MPI_Testany(kAll, r->requests, &index, &flag, &statuses[0]);
        if (!flag) continue;
        CHECK(index != MPI_UNDEFINED, "Testany found nothing");
        if (index == MPI_UNDEFINED) return;
        check_one(r, index, seed, &statuses[0]);
        left--;
      }
      MPI_Testany(kAll, r->requests, &index, &flag, &statuses[0]);
      CHECK(flag && index == MPI_UNDEFINED, "Testany after the last");
      break;
    case kWaitsome:
    case kTestsome:
      while (left > 0) {
        if (way == kWaitsome)
          MPI_Waitsome(kAll, r->requests, &count, indices, statuses);
        else
          MPI_Testsome(kAll, r->requests, &count, indices, statuses);
        CHECK(count != MPI_UNDEFINED, "some: undefined too early");
        CHECK(way != kWaitsome || count > 0, "Waitsome returned nothing");
        if (count == MPI_UNDEFINED) return;
        for (int i = 0; i < count; i++) check_one(r, indices[i], seed, &statuses[i]);
        left -= count;
      }
      MPI_Testsome(kAll, r->requests, &count, indices, statuses);
      CHECK(count == MPI_UNDEFINED, "Testsome after the last");
      break;
    case kWait:
      for (int i = kAll - 1; i >= 0; i--) {
        MPI_Wait(&r->requests[i], &statuses[i]);
        if (r->where[i] >= 0) check_one(r, i, seed, &statuses[i]);
      }
      break;
    case kTest:
      for (int i = 0; i < kAll; i++) {
        for (flag = 0; !flag;) MPI_Test(&r->requests[i], &flag, &statuses[i]);
        if (r->where[i] >= 0) check_one(r, i, seed, &statuses[i]);
      }
      break;
    case kGetStatus:
      for (int i = 0; i < kAll; i++) {
        for (flag = 0; !flag;) MPI_Request_get_status(r->requests[i], &flag, &statuses[i]);
        CHECK(r->where[i] < 0 || r->requests[i] != MPI_REQUEST_NULL, "get_status freed a request");
      }
      MPI_Waitall(kAll, r->requests, MPI_STATUSES_IGNORE);
      for (int i = 0; i < kAll; i++)
        if (r->where[i] >= 0) check_one(r, i, seed, NULL);
      break;
    default:
      MPI_Waitall(kAll, r->requests, MPI_STATUSES_IGNORE);
      for (int i = 0; i < kAll; i++)
        if (r->where[i] >= 0) check_one(r, i, seed, NULL);
  }
}

/* Many open at once, completed in another order than they were started. */
static void test_many(void) {
  enum { kMany = 500 };
  static MPI_Request requests[kMany];
  static int sums[kMany], terms[kMany];
  for (int i = 0; i < kMany; i++) {
    terms[i] = rank * i;
    MPI_Iallreduce(&terms[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = kMany - 1; i >= 0; i -= 2) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  MPI_Waitall(kMany, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMany; i++) CHECK(sums[i] == i * size * (size - 1) / 2, "sum %d of many", i);
}

/* Blocking and non-blocking collectives have an order each, as with the MPIs themselves, though the
 * standard does not ask for it: mpi4py's MPI_Comm_iagree starts its MPI_Iallreduce before a barrier
 * on one rank and after it on another. */
static void test_orders_apart(void) {
  for (int round = 0; round < 20; round++) {
    MPI_Request requests[2];
    int first = (rank + round) % 2, mine = rank + round, sum = -1, root = round % size,
        token = rank;
    if (!first) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(&token, 1, MPI_INT, root, MPI_COMM_WORLD, &requests[1]);
    if (first) MPI_Barrier(MPI_COMM_WORLD);
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    int expected = size * (size - 1) / 2 + size * round;
    CHECK(sum == expected && all == expected && token == root, "round %d: sums %d and %d, root %d",
          round, sum, all, token);
  }
}

/* MPI_Request_c2f and back, and through the integers that Fortran keeps. */
static void test_conversions(void) {
#ifndef MPI_ABI_VERSION
  MPI_Request request, message;
  int mine = rank, sum = -1, token = 0;
  MPI_Irecv(&token, 1, MPI_INT, rank, 77, MPI_COMM_WORLD, &message);
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Fint number = MPI_Request_c2f(request), other = MPI_Request_c2f(message);
  CHECK(number != other, "two requests with one number");
  CHECK(MPI_Request_f2c(number) == request && MPI_Request_f2c(other) == message,
        "f2c(c2f(x)) is not x");
  CHECK(MPI_Request_f2c(MPI_Request_c2f(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL, "the null request");
  request = MPI_Request_f2c(number);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(sum == size * (size - 1) / 2, "sum after conversion");
  token = 5;
  MPI_Send(&token, 1, MPI_INT, rank, 77, MPI_COMM_WORLD);
  MPI_Wait(&message, MPI_STATUS_IGNORE);
#endif
}

#ifdef HAVE_PERSISTENT_COLLECTIVES
/* Persistent: inactive requests are ignored, Startall takes mixtures. */
static void test_persistent(void) {
  MPI_Request requests[3];
  int mine, sum, out, in, flag, index, next = (rank + 1) % size,
                                       previous = (rank + size - 1) % size;
  MPI_Status status;
  MPI_Send_init(&out, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[0]);
  MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
  MPI_Recv_init(&in, 1, MPI_INT, previous, 3, MPI_COMM_WORLD, &requests[2]);
  MPI_Test(&requests[1], &flag, &status);
  CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG,
        "inactive request");
  MPI_Waitany(3, requests, &index, &status);
  CHECK(index == MPI_UNDEFINED, "Waitany on inactive requests");
  for (int turn = 0; turn < 10; turn++) {
    mine = rank + turn;
    out = rank * 10 + turn;
    MPI_Startall(3, requests);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(sum == size * (size - 1) / 2 + size * turn, "persistent sum, turn %d: %d", turn, sum);
    CHECK(in == previous * 10 + turn, "persistent message, turn %d", turn);
    for (int i = 0; i < 3; i++)
      CHECK(requests[i] != MPI_REQUEST_NULL, "persistent request became null");
  }
  for (int i = 0; i < 3; i++) MPI_Request_free(&requests[i]);
}
#endif

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
#define HAVE_LOOKS_AT_SEVERAL
/* An inactive request of the MPI's beside one of tutti's: no look may take it for complete. */
static void test_looks_at_several(void) {
  int mine = 1, sum = 0, in = -1, flag = 0, index = -1, count = 0, indices[2];
  const int previous = (rank + size - 1) % size, next = (rank + 1) % size;
  MPI_Request requests[2];
  MPI_Status status, statuses[2];
  MPI_Recv_init(&in, 1, MPI_INT, previous, 5, MPI_COMM_WORLD, &requests[0]);
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  while (!flag) MPI_Request_get_status_any(2, requests, &index, &flag, &status);
  CHECK(index == 1, "any: request %d", index);
  MPI_Request_get_status_some(2, requests, &count, indices, statuses);
  CHECK(count == 1 && indices[0] == 1, "some: %d, first %d", count, indices[0]);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  CHECK(sum == size, "sum %d", sum);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  MPI_Start(&requests[0]);
  MPI_Send(&rank, 1, MPI_INT, next, 5, MPI_COMM_WORLD);
  /* Not until both are complete: MPICH by itself then goes on naming one. */
  for (count = 0; count == 0;) MPI_Request_get_status_some(2, requests, &count, indices, statuses);
  CHECK(indices[0] == 0 || indices[0] == 1, "one of both: %d", indices[0]);
  if (indices[0] == 0) CHECK(statuses[0].MPI_SOURCE == previous, "the status of the message");
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(in == previous, "message %d", in);
  MPI_Request_free(&requests[0]);
}
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int seed = 0; seed < 20; seed++) {
    for (int way = 0; way < kWays; way++) {
      struct round round;
      start(&round, seed, seed % kAll);
      complete(&round, seed, (enum way)way);
    }
  }
  test_many();
  test_orders_apart();
  test_conversions();
#ifdef HAVE_PERSISTENT_COLLECTIVES
  test_persistent();
#endif
#ifdef HAVE_LOOKS_AT_SEVERAL
  test_looks_at_several();
#endif
  return finish("requests");
}
