/* User-defined operators in non-blocking and persistent reductions: an ordered one on dense and on
 * padded elements, several under way at once, in place and not, operator and type freed as soon as
 * the call has begun, against the product that each rank computes itself. Only threads of the
 * program may call the operator, and nobody's result may wait for another rank's operator.
 *
 *   operators SEED ROUNDS [served] */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "check.h"

enum { kCalls = 6, kUnderWay = 4, kThreads = 2, kGap = 77, kLong = 300000 };

static const char* const names[kCalls] = {"reduce", "allreduce",      "reduce_scatter_block",
                                          "scan",   "reduce_scatter", "exscan"};
static int rank, size, served;
static uint64_t seed;
static __thread int is_programs; /* a thread that the program has made */
static int strangers;            /* calls of an operator by other ones */

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Elements are 2x2 matrices, and the product of them is not commutative. */
static void multiply(const unsigned* left, unsigned* right) {
  const unsigned a = left[0] * right[0] + left[1] * right[2];
  const unsigned b = left[0] * right[1] + left[1] * right[3];
  const unsigned c = left[2] * right[0] + left[3] * right[2];
  const unsigned d = left[2] * right[1] + left[3] * right[3];
  right[0] = a, right[1] = b, right[2] = c, right[3] = d;
}
static void multiply_all(const void* in, void* inout, int count, int width) {
  if (!is_programs) __atomic_fetch_add(&strangers, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < count; i++)
    multiply((const unsigned*)in + i * width, (unsigned*)inout + i * width);
}
static void dense(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  multiply_all(in, inout, *count, 4);
}
static void padded(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  multiply_all(in, inout, *count, 6);
}
static void matrix(uint64_t of, int owner, int i, unsigned* out) {
  const uint64_t r = mix(of + (uint64_t)owner * 1000003 + (uint64_t)i);
  for (int k = 0; k < 4; k++) out[k] = (unsigned)(r >> (16 * k)) & 0xffff;
}

/* ---- one call */

struct item {
  MPI_Comm comm;
  int call, n, width, root, in_place, persistent, members, me;
  uint64_t of; /* what its operands are made of, the same on all ranks */
  int* counts;
  unsigned *send, *recv;
  MPI_Request request;
};

/* Elements that the whole vector of a rank has. */
static int elements(const struct item* item) {
  return item->call == 2 || item->call == 4 ? item->n * item->members : item->n;
}

static void fill(const struct item* item) {
  const int all = elements(item);
  for (int i = 0; i < all * item->width; i++) item->send[i] = item->recv[i] = kGap;
  for (int i = 0; i < all; i++) {
    matrix(item->of, item->me, i, item->send + i * item->width);
    if (item->in_place) matrix(item->of, item->me, i, item->recv + i * item->width);
  }
}

#ifdef HAVE_PERSISTENT_COLLECTIVES
#define BEGIN(name, iname, ...)                                                     \
  (item->persistent ? MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &item->request) \
                    : MPI_I##iname(__VA_ARGS__, &item->request))
#else
#define BEGIN(name, iname, ...) MPI_I##iname(__VA_ARGS__, &item->request)
#endif

static void begin(struct item* item, MPI_Datatype type, MPI_Op op) {
  const int own = item->in_place && (item->call != 0 || item->me == item->root);
  const void* const send = own ? MPI_IN_PLACE : item->send;
  void* const recv = item->recv;
  switch (item->call) {
    case 0:
      BEGIN(Reduce, reduce, send, recv, item->n, type, op, item->root, item->comm);
      break;
    case 1:
      BEGIN(Allreduce, allreduce, send, recv, item->n, type, op, item->comm);
      break;
    case 2:
      BEGIN(Reduce_scatter_block, reduce_scatter_block, send, recv, item->n, type, op, item->comm);
      break;
    case 3:
      BEGIN(Scan, scan, send, recv, item->n, type, op, item->comm);
      break;
    case 4:
      BEGIN(Reduce_scatter, reduce_scatter, send, recv, item->counts, type, op, item->comm);
      break;
    default:
      BEGIN(Exscan, exscan, send, recv, item->n, type, op, item->comm);
      break;
  }
}

/* Blocks of different lengths, together n for each rank. */
static void list_counts(struct item* item) {
  item->counts = calloc((size_t)item->members, sizeof(int));
  for (int k = 0, left = item->n * item->members; k < item->members; k++) {
    const int most =
        k == item->members - 1 ? left : (int)(mix(item->of + (uint64_t)k) % 3) * item->n;
    item->counts[k] = most < left ? most : left;
    left -= item->counts[k];
  }
}

static void make(struct item* item, MPI_Comm comm, uint64_t of, int n) {
  *item = (struct item){.comm = comm, .of = of, .n = n, .request = MPI_REQUEST_NULL};
  MPI_Comm_size(comm, &item->members);
  MPI_Comm_rank(comm, &item->me);
  item->call = (int)(of % kCalls);
  item->width = of >> 8 & 1 ? 6 : 4;
  item->in_place = (int)(of >> 9 & 1);
#ifdef HAVE_PERSISTENT_COLLECTIVES
  item->persistent = served && (of >> 10 & 1);
#endif
  item->root = (int)((of >> 16) % (uint64_t)item->members);
  list_counts(item);
  const size_t ints = (size_t)(elements(item) * item->width) + 1;
  item->send = malloc(ints * sizeof(unsigned));
  item->recv = malloc(ints * sizeof(unsigned));
  fill(item);
}

/* Without tutti operator and type live longer: not all MPIs keep them. */
static void start(struct item* item) {
  MPI_Datatype plain, type;
  MPI_Op op;
  MPI_Type_contiguous(4, MPI_UNSIGNED, &plain);
  MPI_Type_create_resized(plain, 0, (MPI_Aint)sizeof(unsigned) * item->width, &type);
  MPI_Type_commit(&type);
  MPI_Op_create(item->width == 4 ? dense : padded, 0, &op);
  begin(item, type, op);
  MPI_Type_free(&plain);
  if (!served) return;
  MPI_Type_free(&type);
  MPI_Op_free(&op);
  CHECK(op == MPI_OP_NULL && type == MPI_DATATYPE_NULL, "handles after they were freed");
}

static void product(const struct item* item, int last, int i, unsigned* out) {
  unsigned left[4];
  matrix(item->of, last, i, out);
  for (int r = last - 1; r >= 0; r--) {
    matrix(item->of, r, i, left);
    multiply(left, out);
  }
}

static void verify(const struct item* item) {
  const int last = item->call == 3 ? item->me : item->call == 5 ? item->me - 1 : item->members - 1;
  if (last < 0 || (item->call == 0 && item->me != item->root)) return;
  int first = item->call == 2 ? item->me * item->n : 0;
  for (int k = 0; item->call == 4 && k < item->me; k++) first += item->counts[k];
  const int count = item->call == 4 ? item->counts[item->me] : item->n;
  const int step = count > 100 ? 37 : 1;
  for (int i = 0; i < count; i += step) {
    unsigned wanted[4];
    const unsigned* got = item->recv + i * item->width;
    product(item, last, first + i, wanted);
    CHECK(memcmp(wanted, got, sizeof wanted) == 0, "%s of %d, element %d (in place: %d, gaps: %d)",
          names[item->call], item->n, i, item->in_place, item->width - 4);
    for (int gap = 4; gap < item->width; gap++) CHECK(got[gap] == kGap, "a gap was written");
  }
}

static void give_up(struct item* item) {
  if (item->persistent) MPI_Request_free(&item->request);
  CHECK(item->request == MPI_REQUEST_NULL, "%s", names[item->call]);
  free(item->counts);
  free(item->send);
  free(item->recv);
}

/* ---- several under way, completed in one of the ways that there are */

static void complete(struct item* items, int how) {
  MPI_Request requests[kUnderWay];
  int flag = 0, done = 0;
  for (int k = 0; k < kUnderWay; k++) requests[k] = items[k].request;
  if (how == 0) {
    MPI_Waitall(kUnderWay, requests, MPI_STATUSES_IGNORE);
  } else if (how == 1) {
    while (!flag) MPI_Testall(kUnderWay, requests, &flag, MPI_STATUSES_IGNORE);
  } else if (how == 2) {
    for (int k = 0, index; k < kUnderWay; k++)
      MPI_Waitany(kUnderWay, requests, &index, MPI_STATUS_IGNORE);
  } else if (how == 3) {
    for (int indices[kUnderWay]; done != MPI_UNDEFINED;)
      MPI_Waitsome(kUnderWay, requests, &done, indices, MPI_STATUSES_IGNORE);
  } else { /* complete, and the result there, before anybody waits for it */
    for (int k = kUnderWay - 1; k >= 0; k--) {
      for (flag = 0; !flag;) MPI_Request_get_status(requests[k], &flag, MPI_STATUS_IGNORE);
      verify(&items[k]);
      MPI_Request_get_status(requests[k], &flag, MPI_STATUS_IGNORE);
      MPI_Wait(&requests[k], MPI_STATUS_IGNORE);
    }
  }
  for (int k = 0; k < kUnderWay; k++) items[k].request = requests[k];
}

static void work_through(MPI_Comm comm, uint64_t of) {
  static const int lengths[] = {0, 1, 7, 300, 1000};
  struct item items[kUnderWay];
  for (int k = 0; k < kUnderWay; k++) {
    const uint64_t r = mix(of * kUnderWay + (uint64_t)k);
    make(&items[k], comm, r, lengths[(r >> 32) % 5]);
    start(&items[k]);
  }
  int turns = 1;
  for (int turn = 0; turn < turns; turn++) {
    for (int k = 0; k < kUnderWay; k++) {
      if (!items[k].persistent) continue;
      turns = 3;
      fill(&items[k]);
      MPI_Start(&items[k].request);
    }
    complete(items, (int)((of >> 5) % 5));
    for (int k = 0; k < kUnderWay; k++) verify(&items[k]);
  }
  for (int k = 0; k < kUnderWay; k++) give_up(&items[k]);
}

/* ---- others need nothing of a rank that is not inside MPI, or inside another call */

/* The last rank tells the first one that its result is there; that one blocks, or computes, until
 * it hears of it. */
static void leave_the_others_alone(int blocks) {
  struct item item;
  int token = 0, flag = 0;
  MPI_Request message = MPI_REQUEST_NULL;
  make(&item, MPI_COMM_WORLD, 1 + 6 * 1024 * 1024, 300); /* an allreduce */
  item.persistent = 0;
  start(&item);
  if (rank == 0) {
    if (blocks) {
      MPI_Recv(&token, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Irecv(&token, 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, &message);
      while (!flag) MPI_Test(&message, &flag, MPI_STATUS_IGNORE);
    }
    CHECK(token == 5, "the token is %d", token);
  }
  MPI_Wait(&item.request, MPI_STATUS_IGNORE);
  verify(&item);
  token = 5;
  if (rank == size - 1) MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
  give_up(&item);
}

/* More than a rank gathers is the MPI's affair. */
static void reduce_long(void) {
  struct item item;
  make(&item, MPI_COMM_WORLD, 1, kLong);
  item.persistent = 0;
  start(&item);
  MPI_Wait(&item.request, MPI_STATUS_IGNORE);
  verify(&item);
  give_up(&item);
}

/* ---- threads */

static MPI_Comm comms[kThreads];

static void* work(void* argument) {
  const size_t me = (size_t)argument;
  is_programs = 1;
  for (uint64_t i = 0; i < 20; i++) work_through(comms[me], mix(seed + i) + me * 100);
  return NULL;
}

int main(int argc, char** argv) {
  int provided, turn = 0;
  pthread_t threads[kThreads];
  is_programs = 1;
  seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  const int rounds = argc > 2 ? atoi(argv[2]) : 20;
  served = argc > 3;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) printf("seed %llu\n", (unsigned long long)seed);
  MPI_Comm backwards;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &backwards);
  for (; turn < rounds; turn++)
    work_through(turn % 2 ? backwards : MPI_COMM_WORLD, mix(seed * 1000 + (uint64_t)turn));
  leave_the_others_alone(1);
  leave_the_others_alone(0);
  reduce_long();
  for (int i = 0; i < kThreads; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  if (provided == MPI_THREAD_MULTIPLE) {
    for (size_t i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, (void*)i);
    for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  }
  for (int i = 0; i < kThreads; i++) MPI_Comm_free(&comms[i]);
  MPI_Comm_free(&backwards);
  CHECK(strangers == 0, "%d calls of an operator by threads that are not the program's", strangers);
  return finish("operators");
}
