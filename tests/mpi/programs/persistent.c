/* Persistent collectives, which match in the order of their initialisation and may be started in
 * any (MPI-4.1, section 6.13): every rank starts them in an order of its own, between other
 * collectives, on several communicators. */
#include "check.h"

#ifdef HAVE_PERSISTENT_COLLECTIVES

enum { kRequests = 12, kRounds = 25, kMost = 40000 };

static int rank, size;

/* What one request moves, and what must come out. */
struct Item {
  MPI_Comm comm;
  int kind, count, root, members, me;
  int *in, *out;
  MPI_Request request;
};

static int value_of(int round, int item, int member) {
  return round * 1000 + item * 37 + member * 7;
}

static void prepare(struct Item* item, int index, MPI_Comm comm) {
  static const int counts[] = {1, 300, kMost, 20};
  item->comm = comm;
  item->kind = index % 6;
  item->count = counts[index / 2 % 4];
  MPI_Comm_size(comm, &item->members);
  MPI_Comm_rank(comm, &item->me);
  item->root = index % item->members;
  const size_t room = (size_t)item->count * (size_t)item->members;
  item->in = calloc(room, sizeof(int));
  item->out = calloc(room, sizeof(int));
  switch (item->kind) {
    case 0:
      MPI_Bcast_init(item->out, item->count, MPI_INT, item->root, comm, MPI_INFO_NULL,
                     &item->request);
      break;
    case 1:
      MPI_Allreduce_init(item->in, item->out, item->count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL,
                         &item->request);
      break;
    case 2:
      MPI_Barrier_init(comm, MPI_INFO_NULL, &item->request);
      break;
    case 3:
      MPI_Allgather_init(item->in, item->count, MPI_INT, item->out, item->count, MPI_INT, comm,
                         MPI_INFO_NULL, &item->request);
      break;
    case 4:
      MPI_Alltoall_init(item->in, item->count, MPI_INT, item->out, item->count, MPI_INT, comm,
                        MPI_INFO_NULL, &item->request);
      break;
    default:
      MPI_Reduce_init(item->in, item->out, item->count, MPI_INT, MPI_MAX, item->root, comm,
                      MPI_INFO_NULL, &item->request);
      break;
  }
}

static void fill(struct Item* item, int index, int round) {
  const int blocks = item->kind == 4 ? item->members : 1;
  for (int b = 0; b < blocks; b++)
    for (int i = 0; i < item->count; i++)
      item->in[b * item->count + i] = value_of(round, index, item->me) + b;
  if (item->kind == 0 && item->me == item->root)
    for (int i = 0; i < item->count; i++) item->out[i] = value_of(round, index, item->root);
}

static int expected(const struct Item* item, int index, int round, int block) {
  int sum = 0;
  switch (item->kind) {
    case 0:
      return value_of(round, index, item->root);
    case 1:
      for (int m = 0; m < item->members; m++) sum += value_of(round, index, m);
      return sum;
    case 3:
      return value_of(round, index, block);
    case 4:
      return value_of(round, index, block) + item->me;
    default:
      return value_of(round, index, item->members - 1);
  }
}

static void verify(const struct Item* item, int index, int round) {
  if (item->kind == 2 || (item->kind == 5 && item->me != item->root)) return;
  const int blocks = item->kind == 3 || item->kind == 4 ? item->members : 1;
  for (int b = 0; b < blocks; b++) {
    for (int i = 0; i<item->count; i += item->count> 1 ? item->count - 1 : 1) {
      const int got = item->out[b * item->count + i], wanted = expected(item, index, round, b);
      CHECK(got == wanted, "request %d (kind %d), round %d, block %d: %d, not %d", index,
            item->kind, round, b, got, wanted);
    }
  }
}

/* A permutation of this rank's own. */
static void shuffle(int* order, unsigned* seed) {
  for (int i = 0; i < kRequests; i++) order[i] = i;
  for (int i = kRequests - 1; i > 0; i--) {
    *seed = *seed * 1103515245u + 12345u;
    const int j = (int)(*seed >> 16) % (i + 1), other = order[j];
    order[j] = order[i];
    order[i] = other;
  }
}

/* Others on the same communicator, in the order that all ranks have. */
static void others_between(int round, MPI_Comm comm) {
  int mine = rank + round, sum = -1, top = -1, members, wanted = 0, first;
  MPI_Comm_size(comm, &members);
  MPI_Request request;
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
  MPI_Allreduce(&mine, &top, 1, MPI_INT, MPI_MIN, comm);
  first = top - round;
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  if (members == size) {
    for (int r = 0; r < size; r++) wanted += r + round;
    CHECK(sum == wanted && first == 0, "between: %d, not %d", sum, wanted);
  }
}

static void start_in_orders_of_their_own(unsigned seed) {
  struct Item items[kRequests];
  MPI_Request all[kRequests];
  MPI_Comm comms[3] = {MPI_COMM_WORLD};
  int order[kRequests];
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[2]);
  for (int i = 0; i < kRequests; i++) prepare(&items[i], i, comms[(i + i / 6) % 3]);
  for (int round = 0; round < kRounds; round++) {
    shuffle(order, &seed);
    for (int k = 0; k < kRequests; k++) fill(&items[k], k, round);
    for (int k = 0; k < kRequests; k++) {
      if (k == kRequests / 2) others_between(round, comms[round % 3]);
      MPI_Start(&items[order[k]].request);
    }
    shuffle(order, &seed); /* and completed in another one */
    for (int k = 0; k < kRequests; k++) all[k] = items[order[k]].request;
    if (round % 2 == 0) {
      MPI_Waitall(kRequests, all, MPI_STATUSES_IGNORE);
    } else {
      for (int done = 0, index; done < kRequests; done++)
        MPI_Waitany(kRequests, all, &index, MPI_STATUS_IGNORE);
    }
    for (int k = 0; k < kRequests; k++) verify(&items[k], k, round);
  }
  for (int k = 0; k < kRequests; k++) {
    MPI_Request_free(&items[k].request);
    free(items[k].in);
    free(items[k].out);
  }
  MPI_Comm_free(&comms[1]);
  MPI_Comm_free(&comms[2]);
}

/* Completed by one rank before it starts the next, while the others have started all of them in
 * another order: no request may need one that comes later here. */
static void one_at_a_time(void) {
  int values[3] = {-1, -1, -1};
  MPI_Request requests[3];
  for (int i = 0; i < 3; i++) {
    if (rank == 0) values[i] = i + 5;
    MPI_Bcast_init(&values[i], 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
  }
  if (rank == 0) {
    MPI_Startall(3, requests);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
  } else {
    for (int i = 3; i-- > 0;) {
      MPI_Start(&requests[i]);
      MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
      CHECK(values[i] == i + 5, "broadcast %d gave %d", i, values[i]);
    }
  }
  for (int i = 0; i < 3; i++) MPI_Request_free(&requests[i]);
}

/* Many at once, made and freed again and again, a part of them never started; the communicator goes
 * before them. */
static void many(void) {
  enum { kMany = 200 };
  for (int round = 0; round < 5; round++) {
    MPI_Comm comm;
    MPI_Request requests[kMany];
    int sums[kMany], mine = rank + 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < kMany; i++)
      MPI_Allreduce_init(&mine, &sums[i], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[i]);
    const int part = kMany / (round + 1);
    for (int i = 0; i < part; i++) MPI_Start(&requests[rank % 2 ? i : part - 1 - i]);
    MPI_Waitall(part, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&comm);
    for (int i = 0; i < part; i++)
      CHECK(sums[i] == size * (size + 1) / 2, "request %d of %d: %d", i, part, sums[i]);
    for (int i = 0; i < kMany; i++) MPI_Request_free(&requests[rank % 2 ? kMany - 1 - i : i]);
  }
}

int main(int argc, char** argv) {
  unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) printf("seed %u\n", seed);
  one_at_a_time();
  start_in_orders_of_their_own(seed * 100 + (unsigned)rank);
  many();
  return finish("persistent");
}

#else

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  return finish("persistent");
}

#endif
