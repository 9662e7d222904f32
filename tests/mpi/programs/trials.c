/* The same few kinds of blocking collectives again and again, in a random order on two
 * communicators, so that trials of the MPI against tutti come and go: every result is checked. Half
 * of the calls have gaps in the data of odd ranks, which only there must be packed. Beside some of
 * them a non-blocking one is under way.
 * trials SEED CALLS [COMMUNICATORS [KINDS [INTS [FEWER]]]]
 * KINDS: of bcast, baRrier, Allreduce, allGather, Ordered operator, alltoall (x), gaTher, Scatter,
 * reduce_sCatter_block, reduce_scatter (Listed), scaN, Exscan; INTS and FEWER: how many a call has,
 * one or the other. */
#include "check.h"

enum Kind {
  kBcast,
  kBarrier,
  kAllreduce,
  kAllgather,
  kOrdered,
  kAlltoall,
  kGather,
  kScatter,
  kReduceScatter,
  kListed, /* MPI_Reduce_scatter */
  kScan,
  kExscan
};
enum { kMost = 1 << 16 };

static MPI_Comm comms[2];
static MPI_Datatype spaced; /* one int in the place of two */
static MPI_Op ordered;      /* does not commute */
static unsigned common;
static int in[2 * kMost], out[2 * kMost * 8], counts[8];

static unsigned draw(unsigned end) {
  common = common * 1103515245u + 12345u;
  return (common >> 8) % end;
}

/* Another collective, under way meanwhile: its data has gaps on odd ranks, too. */
enum { kOther = 5 };
static MPI_Request pending;
static int other[2 * kOther];

static void begin_other(int number, MPI_Comm comm, int rank, int root) {
  const int apart = rank % 2 + 1;
  for (int i = 0; i < kOther; i++) other[i * apart] = rank == root ? number + i : -1;
  MPI_Ibcast(other, kOther, apart == 2 ? spaced : MPI_INT, root, comm, &pending);
}

static void end_other(int number, int rank) {
  const int apart = rank % 2 + 1;
  MPI_Wait(&pending, MPI_STATUS_IGNORE);
  for (int i = 0; i < kOther; i++)
    CHECK(other[i * apart] == number + i, "call %d, the one beside it: %d, not %d", number,
          other[i * apart], number + i);
}

static int value_of(int number, int member, int i) { return number * 13 + member * 101 + i % 7; }

/* The first member's values: associative, but not commutative. */
static void take_first(void* left, void* right, int* count, MPI_Datatype* type) {
  (void)type;
  memcpy(right, left, (size_t)*count * sizeof(int));
}

/* Of a listed block. */
static int count_of(int member) { return member % 2 ? 2 : 8; }
static int begin_of(int member) { return member * 5 + (member % 2 ? 3 : 0); }

static int sum_of(int number, int members, int i) {
  int sum = 0;
  for (int m = 0; m < members; m++) sum += value_of(number, m, i);
  return sum;
}

/* What element `i` of block `block` must be on member `rank`. */
static int wanted(int kind, int number, int members, int root, int rank, int block, int i) {
  switch (kind) {
    case kAllreduce:
      return sum_of(number, members, i);
    case kOrdered:
      return value_of(number, 0, i);
    case kReduceScatter:
      return sum_of(number, members, rank * 5 + i);
    case kListed:
      return sum_of(number, members, begin_of(rank) + i);
    case kScan:
      return sum_of(number, rank + 1, i);
    case kExscan:
      return sum_of(number, rank, i);
    case kAlltoall:
      return value_of(number, block, rank * 5 + i);
    case kScatter:
      return value_of(number, root, rank * 5 + i);
    case kBcast:
      return value_of(number, root, i);
    default:
      return value_of(number, block, i);
  }
}

/* `apart`: ints from one to the next. */
static void verify(int kind, int number, int count, MPI_Comm comm, int root, int apart) {
  int rank, members;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &members);
  const int blocks = kind == kAllgather || kind == kAlltoall || kind == kGather ? members : 1;
  if ((kind == kGather && rank != root) || (kind == kExscan && rank == 0)) return;
  if (kind == kListed) count = count_of(rank);
  for (int b = 0; b < blocks; b++) {
    for (int i = 0; i < count; i += 1 + count / 20) {
      const int want = wanted(kind, number, members, root, rank, b, i);
      const int got = out[(b * count + i) * apart];
      CHECK(got == want, "call %d (kind %d, %d ints), block %d, element %d: %d, not %d", number,
            kind, count, b, i, got, want);
      if (got != want) return;
    }
  }
}

static void call(int number, int kind, int count, MPI_Comm comm, int root, int apart) {
  int rank, members;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &members);
  root %= members;
  const int reduces = kind == kAllreduce || kind == kOrdered || kind >= kReduceScatter;
  const int sends_blocks =
      kind == kAlltoall || kind == kScatter || kind == kReduceScatter || kind == kListed;
  if (rank % 2 == 0 || reduces) apart = 1;
  if (sends_blocks || kind == kGather) count = 5;
  MPI_Datatype type = apart == 2 ? spaced : MPI_INT;
  const int in_place = kind == kAllreduce && rank % 2 == 1;
  int* data = (kind == kBcast && rank == root) || in_place ? out : in;
  for (int i = 0; i < (sends_blocks ? count * members + 3 : count); i++)
    data[i * apart] = value_of(number, rank, i);
  const int beside = number % 8 == 0;
  if (beside) begin_other(number, comm, rank, root);
  switch (kind) {
    case kBcast:
      MPI_Bcast(out, count, type, root, comm);
      break;
    case kAllreduce:
      MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM, comm);
      break;
    case kOrdered:
      MPI_Allreduce(in, out, count, MPI_INT, ordered, comm);
      break;
    case kAllgather:
      MPI_Allgather(in, count, type, out, count, type, comm);
      break;
    case kAlltoall:
      MPI_Alltoall(in, count, type, out, count, type, comm);
      break;
    case kGather:
      MPI_Gather(in, count, type, out, count, type, root, comm);
      break;
    case kScatter:
      MPI_Scatter(in, count, type, out, count, type, root, comm);
      break;
    case kReduceScatter:
      MPI_Reduce_scatter_block(in, out, count, MPI_INT, MPI_SUM, comm);
      break;
    case kListed:
      for (int m = 0; m < members; m++) counts[m] = count_of(m);
      MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm);
      break;
    case kScan:
      MPI_Scan(in, out, count, MPI_INT, MPI_SUM, comm);
      break;
    case kExscan:
      MPI_Exscan(in, out, count, MPI_INT, MPI_SUM, comm);
      break;
    default:
      MPI_Barrier(comm);
  }
  if (beside) end_other(number, rank);
  if (kind != kBarrier) verify(kind, number, count, comm, root, apart);
}

/* A letter for each kind, so that a test may have fewer. */
static int draw_kind(const char* kinds) {
  static const char letters[] = "bragoxtsclne";
  return (int)(strchr(letters, kinds[draw((unsigned)strlen(kinds))]) - letters);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, calls = argc > 2 ? atoi(argv[2]) : 1000;
  const unsigned communicators = argc > 3 ? (unsigned)atoi(argv[3]) : 2;
  const char* kinds = argc > 4 ? argv[4] : "bragoxtsclne";
  const int most = argc > 5 ? atoi(argv[5]) : kMost, fewer = argc > 6 ? atoi(argv[6]) : 5;
  MPI_Op_create(take_first, 0, &ordered);
  common = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("seed %u\n", common);
  comms[0] = MPI_COMM_WORLD;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
  MPI_Type_vector(1, 1, 2, MPI_INT, &spaced);
  MPI_Type_create_resized(spaced, 0, 2 * (MPI_Aint)sizeof(int), &spaced);
  MPI_Type_commit(&spaced);
  for (int i = 0; i < calls; i++) {
    const int kind = draw_kind(kinds), large = (int)draw(2), which = (int)draw(communicators);
    call(i, kind, large ? most : fewer, comms[which], (int)draw(8), 1 + (int)draw(2));
  }
  MPI_Op_free(&ordered);
  MPI_Type_free(&spaced);
  MPI_Comm_free(&comms[1]);
  return finish("trials");
}
