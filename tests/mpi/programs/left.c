/* Calls of which the MPI runs some and tutti others, as the rules say that the test gives it: one
 * random sequence of blocking, non-blocking and persistent collectives on several communicators,
 * with many under way at once. Prints a sum of all results, which is the MPI's own alone, too. */
#include "check.h"

enum { kSteps = 300, kWindow = 7, kKept = 6, kMost = 6000 };
enum Kind {
  kBarrier,
  kBcast,
  kAllreduce,
  kReduce,
  kAllgather,
  kGather,
  kScatter,
  kAlltoall,
  kScattered,
  kListed, /* MPI_Reduce_scatter */
  kScan,
  kExscan,
  kKinds
};
enum Form { kBlocking, kNonblocking, kPersistent };

/* One collective, and what must come out of it. */
struct Item {
  int kind, count, root, number, members, me;
  int apart; /* of spaced: two ints for each that is sent */
  MPI_Comm comm;
  MPI_Op op;
  int *in, *out, *counts;
  MPI_Request request;
};

static MPI_Comm comms[4];
static MPI_Datatype spaced;
static MPI_Op add;
static unsigned common, own; /* states: of what all ranks draw alike, and of each rank's own */
static unsigned long long sum;
static int without_persistent;

static unsigned draw(unsigned* state, unsigned end) {
  *state = *state * 1103515245u + 12345u;
  return (*state >> 8) % end;
}

static void add_ints(void* in, void* out, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; i++) ((int*)out)[i] += ((int*)in)[i];
}

/* Mostly small ones; never nothing. */
static int draw_count(void) {
  return 1 + (int)draw(&common, 1u + draw(&common, 2) * 300u + (draw(&common, 9) == 0) * kMost);
}

static void draw_item(struct Item* item, int number, int form) {
  item->number = number;
  item->kind = (int)draw(&common, kKinds);
  item->count = draw_count();
  item->comm = comms[draw(&common, 4)];
  MPI_Comm_size(item->comm, &item->members);
  MPI_Comm_rank(item->comm, &item->me);
  item->root = (int)draw(&common, (unsigned)item->members);
  const int reduces = item->kind == kAllreduce || item->kind == kReduce || item->kind >= kScattered;
  item->apart = draw(&common, 4) == 0 && !reduces ? 2 : 1;
  item->op = draw(&common, 4) == 0 && form == kBlocking ? add : MPI_SUM;
  const size_t room = (size_t)(item->count * item->members * item->apart);
  item->in = calloc(room, sizeof(int));
  item->out = calloc(room, sizeof(int));
  item->counts = calloc((size_t)item->members, sizeof(int));
  for (int m = 0; m < item->members; m++) /* two blocks for every second member */
    item->counts[m] = m % 2 ? 0 : m + 1 < item->members ? 2 * item->count : item->count;
  item->request = MPI_REQUEST_NULL;
}

static int value_of(const struct Item* item, int round, int member, int block, int i) {
  return item->number * 13 + round * 1009 + member * 101 + block * 7 + i % 5;
}

static void fill(struct Item* item, int round) {
  const int n = item->count, apart = item->apart;
  memset(item->out, 0xff, sizeof(int) * (size_t)(n * item->members * apart));
  for (int b = 0; b < item->members; b++)
    for (int i = 0; i < n; i++)
      item->in[(b * n + i) * apart] = value_of(item, round, item->me, b, i);
  if (item->kind == kBcast && item->me == item->root)
    for (int i = 0; i < n; i++) item->out[i * apart] = value_of(item, round, item->me, 0, i);
}

static int expected(const struct Item* item, int round, int block, int i) {
  int total = 0;
  switch (item->kind) {
    case kBcast:
      return value_of(item, round, item->root, 0, i);
    case kAllgather:
    case kGather:
      return value_of(item, round, block, 0, i);
    case kScatter:
      return value_of(item, round, item->root, item->me, i);
    case kAlltoall:
      return value_of(item, round, block, item->me, i);
    case kListed:
      for (int m = 0; m < item->members; m++)
        total += value_of(item, round, m, item->me + i / item->count, i % item->count);
      return total;
    case kScan:
    case kExscan:
      for (int m = 0; m < item->me + (item->kind == kScan); m++)
        total += value_of(item, round, m, 0, i);
      return total;
    default:
      for (int m = 0; m < item->members; m++)
        total += value_of(item, round, m, item->kind == kScattered ? item->me : 0, i);
      return total;
  }
}

static void verify(const struct Item* item, int round) {
  const int kind = item->kind, at_root = item->me == item->root;
  if (kind == kBarrier || ((kind == kReduce || kind == kGather) && !at_root)) return;
  if (kind == kExscan && item->me == 0) return; /* undefined */
  const int blocks = kind == kAllgather || kind == kGather || kind == kAlltoall ? item->members : 1;
  for (int b = 0; b < blocks; b++) {
    for (int i = 0; i < (kind == kListed ? item->counts[item->me] : item->count); i++) {
      const int got = item->out[(b * item->count + i) * item->apart],
                wanted = expected(item, round, b, i);
      CHECK(got == wanted, "call %d (kind %d, %d ints), block %d, element %d: %d, not %d",
            item->number, kind, item->count, b, i, got, wanted);
      sum = sum * 31 + (unsigned)got;
      if (got != wanted) return;
    }
  }
}

static void run_blocking(struct Item* c) {
  MPI_Datatype t = c->apart == 2 ? spaced : MPI_INT;
  switch (c->kind) {
    case kBarrier:
      MPI_Barrier(c->comm);
      break;
    case kBcast:
      MPI_Bcast(c->out, c->count, t, c->root, c->comm);
      break;
    case kAllreduce:
      MPI_Allreduce(c->in, c->out, c->count, t, c->op, c->comm);
      break;
    case kReduce:
      MPI_Reduce(c->in, c->out, c->count, t, c->op, c->root, c->comm);
      break;
    case kAllgather:
      MPI_Allgather(c->in, c->count, t, c->out, c->count, t, c->comm);
      break;
    case kGather:
      MPI_Gather(c->in, c->count, t, c->out, c->count, t, c->root, c->comm);
      break;
    case kScatter:
      MPI_Scatter(c->in, c->count, t, c->out, c->count, t, c->root, c->comm);
      break;
    case kAlltoall:
      MPI_Alltoall(c->in, c->count, t, c->out, c->count, t, c->comm);
      break;
    case kListed:
      MPI_Reduce_scatter(c->in, c->out, c->counts, t, c->op, c->comm);
      break;
    case kScan:
      MPI_Scan(c->in, c->out, c->count, t, c->op, c->comm);
      break;
    case kExscan:
      MPI_Exscan(c->in, c->out, c->count, t, c->op, c->comm);
      break;
    default:
      MPI_Reduce_scatter_block(c->in, c->out, c->count, t, c->op, c->comm);
  }
}

static void start(struct Item* c) {
  MPI_Datatype t = c->apart == 2 ? spaced : MPI_INT;
  MPI_Request* r = &c->request;
  switch (c->kind) {
    case kBarrier:
      MPI_Ibarrier(c->comm, r);
      break;
    case kBcast:
      MPI_Ibcast(c->out, c->count, t, c->root, c->comm, r);
      break;
    case kAllreduce:
      MPI_Iallreduce(c->in, c->out, c->count, t, c->op, c->comm, r);
      break;
    case kReduce:
      MPI_Ireduce(c->in, c->out, c->count, t, c->op, c->root, c->comm, r);
      break;
    case kAllgather:
      MPI_Iallgather(c->in, c->count, t, c->out, c->count, t, c->comm, r);
      break;
    case kGather:
      MPI_Igather(c->in, c->count, t, c->out, c->count, t, c->root, c->comm, r);
      break;
    case kScatter:
      MPI_Iscatter(c->in, c->count, t, c->out, c->count, t, c->root, c->comm, r);
      break;
    case kAlltoall:
      MPI_Ialltoall(c->in, c->count, t, c->out, c->count, t, c->comm, r);
      break;
    case kListed:
      MPI_Ireduce_scatter(c->in, c->out, c->counts, t, c->op, c->comm, r);
      break;
    case kScan:
      MPI_Iscan(c->in, c->out, c->count, t, c->op, c->comm, r);
      break;
    case kExscan:
      MPI_Iexscan(c->in, c->out, c->count, t, c->op, c->comm, r);
      break;
    default:
      MPI_Ireduce_scatter_block(c->in, c->out, c->count, t, c->op, c->comm, r);
  }
}

#ifdef HAVE_PERSISTENT_COLLECTIVES
static void make(struct Item* c) {
  MPI_Datatype t = c->apart == 2 ? spaced : MPI_INT;
  MPI_Request* r = &c->request;
  MPI_Info info = MPI_INFO_NULL;
  switch (c->kind) {
    case kBarrier:
      MPI_Barrier_init(c->comm, info, r);
      break;
    case kBcast:
      MPI_Bcast_init(c->out, c->count, t, c->root, c->comm, info, r);
      break;
    case kAllreduce:
      MPI_Allreduce_init(c->in, c->out, c->count, t, c->op, c->comm, info, r);
      break;
    case kReduce:
      MPI_Reduce_init(c->in, c->out, c->count, t, c->op, c->root, c->comm, info, r);
      break;
    case kAllgather:
      MPI_Allgather_init(c->in, c->count, t, c->out, c->count, t, c->comm, info, r);
      break;
    case kGather:
      MPI_Gather_init(c->in, c->count, t, c->out, c->count, t, c->root, c->comm, info, r);
      break;
    case kScatter:
      MPI_Scatter_init(c->in, c->count, t, c->out, c->count, t, c->root, c->comm, info, r);
      break;
    case kAlltoall:
      MPI_Alltoall_init(c->in, c->count, t, c->out, c->count, t, c->comm, info, r);
      break;
    case kListed:
      MPI_Reduce_scatter_init(c->in, c->out, c->counts, t, c->op, c->comm, info, r);
      break;
    case kScan:
      MPI_Scan_init(c->in, c->out, c->count, t, c->op, c->comm, info, r);
      break;
    case kExscan:
      MPI_Exscan_init(c->in, c->out, c->count, t, c->op, c->comm, info, r);
      break;
    default:
      MPI_Reduce_scatter_block_init(c->in, c->out, c->count, t, c->op, c->comm, info, r);
  }
}
#endif

static void discard(struct Item* item) {
  if (item->request != MPI_REQUEST_NULL) MPI_Request_free(&item->request);
  free(item->in);
  free(item->out);
  free(item->counts);
}

/* Completes all of them, in an order of this rank's own. */
static void complete(struct Item* items, int count) {
  MPI_Request requests[kWindow + kKept];
  for (int i = 0; i < count; i++) requests[i] = items[i].request;
  if (draw(&own, 2) == 0) {
    for (int done = 0, index; done < count; done++)
      MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE);
  } else {
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
  }
  for (int i = 0; i < count; i++) items[i].request = requests[i];
}

/* Non-blocking and persistent ones are started, blocking ones run while they are under way. */
static void mix(int step) {
  struct Item flying[kWindow], kept[kKept], one;
  const int number = step * 100;
  int kept_count = 0;
  for (int i = 0; i < kWindow; i++) draw_item(&flying[i], number + i, kNonblocking);
#ifdef HAVE_PERSISTENT_COLLECTIVES
  kept_count = without_persistent ? 0 : kKept;
  for (int i = 0; i < kept_count; i++) {
    draw_item(&kept[i], number + 20 + i, kPersistent);
    make(&kept[i]);
  }
#endif
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < kept_count; i++) {
      fill(&kept[i], round);
      MPI_Start(&kept[i].request);
    }
    for (int i = 0; i < kWindow; i++) {
      fill(&flying[i], round);
      start(&flying[i]);
      if (draw(&common, 2) == 0) {
        draw_item(&one, number + 40 + i, kBlocking);
        fill(&one, round);
        run_blocking(&one);
        verify(&one, round);
        discard(&one);
      }
    }
    complete(flying, kWindow);
    complete(kept, kept_count);
    for (int i = 0; i < kWindow; i++) verify(&flying[i], round);
    for (int i = 0; i < kept_count; i++) verify(&kept[i], round);
  }
  for (int i = 0; i < kWindow; i++) discard(&flying[i]);
  for (int i = 0; i < kept_count; i++) discard(&kept[i]);
}

/* Some ranks start a non-blocking collective before a blocking one, others after it (what mpi4py
 * does): the MPIs have an order for each kind, whoever runs them. */
static void in_two_orders(int step) {
  struct Item first, second;
  draw_item(&first, step * 100 + 90, kNonblocking);
  draw_item(&second, step * 100 + 91, kBlocking);
  second.comm = first.comm;
  second.kind = kAllreduce;
  MPI_Comm_size(second.comm, &second.members);
  MPI_Comm_rank(second.comm, &second.me);
  free(second.in);
  free(second.out);
  second.apart = 1;
  const size_t room = (size_t)(second.count * second.members);
  second.in = calloc(room, sizeof(int));
  second.out = calloc(room, sizeof(int));
  fill(&first, 0);
  fill(&second, 0);
  const int early = first.me % 2;
  if (early) start(&first);
  run_blocking(&second);
  if (!early) start(&first);
  MPI_Wait(&first.request, MPI_STATUS_IGNORE);
  verify(&first, 0);
  verify(&second, 0);
  discard(&first);
  discard(&second);
}

int main(int argc, char** argv) {
  int rank, steps = argc > 2 ? atoi(argv[2]) : kSteps;
  unsigned long long all = 0;
  without_persistent = argc > 3; /* Intel MPI by itself mixes them up */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  common = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
  own = common + (unsigned)rank * 7919u;
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
  MPI_Type_commit(&spaced);
  MPI_Op_create(add_ints, 1, &add);
  comms[0] = MPI_COMM_WORLD;
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
  MPI_Comm_dup(comms[2], &comms[3]);
  if (rank == 0) printf("seed %u\n", common);
  for (int step = 0; step < steps; step++) step % 4 == 3 ? in_two_orders(step) : mix(step);
  MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_BXOR, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("sum %llx\n", all);
  for (int i = 1; i < 4; i++) MPI_Comm_free(&comms[i]);
  MPI_Op_free(&add);
  MPI_Type_free(&spaced);
  return finish("left");
}
