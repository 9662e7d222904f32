/* Calls that are nearly the same, again and again: equal counts with other types, operators, roots,
 * in place or not, on several communicators; types that are freed and made anew under the same
 * handle; and some of them thousands of times, so that trials of the MPI begin and end.
 * repeated SEED CALLS. Every rank computes what must come out. */
#include "check.h"

enum { kMostCount = 300, kMostRanks = 16, kBytes = 16 * kMostCount * kMostRanks };
enum Kind {
  kBarrier,
  kBcast,
  kReduce,
  kAllreduce,
  kScattered,
  kAllgather,
  kGather,
  kScatter,
  kAlltoall,
  kKinds
};
enum Type { kInt, kDouble, kShort, kPair, kTwoInts, kSpacedInt, kTypes };

/* One call, drawn alike on all ranks. */
struct Drawn {
  int kind, type, op, count, root, in_place, number;
  MPI_Comm comm;
};

static unsigned state;
static int rank, size;
static char sent[kBytes], received[kBytes], expected[kBytes];

static int draw(int end) {
  state = state * 1103515245u + 12345u;
  return (int)((state >> 8) % (unsigned)end);
}

static int extent_of(int type) {
  static const int kExtents[kTypes] = {4, 8, 2, 16, 8, 8};
  return kExtents[type];
}

/* Element i; the second half of a pair follows from the first. */
static void store(int type, char* at, int i, int value) {
  struct {
    double value;
    int place;
  } pair = {value, value + 1};
  const double real = value;
  const short half = (short)value;
  const int two[2] = {value, value + 1};
  at += (size_t)i * (size_t)extent_of(type);
  if (type == kInt || type == kSpacedInt) memcpy(at, &value, 4);
  if (type == kDouble) memcpy(at, &real, 8);
  if (type == kShort) memcpy(at, &half, 2);
  if (type == kPair) memcpy(at, &pair, 12);
  if (type == kTwoInts) memcpy(at, two, 8);
}

static int value_of(const struct Drawn* call, int from, int block, int i) {
  return (call->number * 7 + from * 31 + block * 5 + i * 3) % 1000;
}

static int reduced(const struct Drawn* call, int block, int i) {
  int result = value_of(call, 0, block, i);
  for (int from = 1; from < size; from++) {
    const int other = value_of(call, from, block, i);
    if (call->op == 0) result += other;
    if (call->op == 1 && other > result) result = other;
    if (call->op == 2 && other < result) result = other;
  }
  return result;
}

static MPI_Datatype type_of(int type) {
  MPI_Datatype made;
  if (type == kTwoInts) {
    MPI_Type_contiguous(2, MPI_INT, &made);
  } else if (type == kSpacedInt) {
    MPI_Type_create_resized(MPI_INT, 0, 8, &made);
  } else {
    const MPI_Datatype plain[] = {MPI_INT, MPI_DOUBLE, MPI_SHORT, MPI_DOUBLE_INT};
    return plain[type];
  }
  MPI_Type_commit(&made);
  return made;
}

static MPI_Op op_of(const struct Drawn* call) {
  const MPI_Op plain[] = {MPI_SUM, MPI_MAX, MPI_MIN},
               pairs[] = {MPI_MAXLOC, MPI_MAXLOC, MPI_MINLOC};
  return call->type == kPair ? pairs[call->op] : plain[call->op];
}

static void draw_call(struct Drawn* call, const MPI_Comm* comms) {
  static const int kCounts[] = {1, 2, 5, 9, kMostCount, 0};
  call->comm = comms[draw(3)];
  MPI_Comm_rank(call->comm, &rank);
  call->kind = draw(kKinds);
  const int reduces = call->kind >= kReduce && call->kind <= kScattered;
  call->type = draw(reduces ? kPair + 1 : kTypes);
  call->op = draw(3);
  if (call->type == kPair && call->op == 0) call->op = 1;
  call->count = kCounts[draw(40) == 0 ? 5 : draw(5)];
  call->root = draw(2) ? 0 : draw(size);
  call->in_place = draw(3) == 0;
}

static void run(const struct Drawn* call) {
  const MPI_Datatype type = type_of(call->type);
  const int n = call->count, root = call->root, at_root = rank == root;
  const MPI_Op op = op_of(call);
  const void* in = call->in_place ? MPI_IN_PLACE : sent;
  const void* in_at_root = call->in_place && at_root ? MPI_IN_PLACE : sent;
  void* in_at_root_recv = call->in_place && at_root ? MPI_IN_PLACE : received;
  /* What does not matter on a rank is whatever lies about. */
  const int at_others = at_root ? n : draw(10);
  const int beside = call->in_place ? draw(10) : n;
  const int beside_at_root = at_root ? beside : n;
  switch (call->kind) {
    case kBarrier:
      MPI_Barrier(call->comm);
      break;
    case kBcast:
      MPI_Bcast(received, n, type, root, call->comm);
      break;
    case kReduce:
      MPI_Reduce(in_at_root, received, n, type, op, root, call->comm);
      break;
    case kAllreduce:
      MPI_Allreduce(in, received, n, type, op, call->comm);
      break;
    case kScattered:
      MPI_Reduce_scatter_block(in, received, n, type, op, call->comm);
      break;
    case kAllgather:
      MPI_Allgather(in, beside, type, received, n, type, call->comm);
      break;
    case kGather:
      MPI_Gather(in_at_root, beside_at_root, type, received, at_others, type, root, call->comm);
      break;
    case kScatter:
      MPI_Scatter(sent, at_others, type, in_at_root_recv, beside_at_root, type, root, call->comm);
      break;
    default:
      MPI_Alltoall(in, beside, type, received, n, type, call->comm);
      break;
  }
  if (call->type >= kTwoInts) {
    MPI_Datatype made = type;
    MPI_Type_free(&made);
  }
}

/* Of each buffer; behind it, too, nothing may be written. */
static size_t used(const struct Drawn* call) {
  const size_t all = (size_t)(call->count * extent_of(call->type) * size) + 32;
  return all < kBytes ? all : kBytes;
}

/* What is sent, and what lies where something is received. */
static void prepare(const struct Drawn* call) {
  const int n = call->count, at_root = rank == call->root, kind = call->kind;
  const int stride = n * extent_of(call->type);
  memset(sent, 0x5a, used(call));
  memset(received, 0x5a, used(call));
  for (int b = 0; b < size; b++)
    for (int i = 0; i < n; i++) store(call->type, sent + b * stride, i, value_of(call, rank, b, i));
  const int only_root = kind == kReduce || kind == kGather;
  if (kind == kBcast && at_root) memcpy(received, sent, used(call));
  if (call->in_place && kind != kScatter && kind != kBcast && kind != kBarrier &&
      (!only_root || at_root)) {
    if (kind == kAllgather || kind == kGather)
      memcpy(received + rank * stride, sent, (size_t)stride);
    else
      memcpy(received, sent, used(call));
  }
}

/* What must lie there afterwards. */
static void expect(const struct Drawn* call, char* out) {
  const int n = call->count, at_root = rank == call->root, kind = call->kind;
  const int stride = n * extent_of(call->type);
  for (int b = 0; b < size; b++) {
    for (int i = 0; i < n; i++) {
      char* const block = out + b * stride;
      if (b == 0 && kind == kBcast) store(call->type, out, i, value_of(call, call->root, 0, i));
      if (b == 0 && (kind == kAllreduce || (kind == kReduce && at_root)))
        store(call->type, out, i, reduced(call, 0, i));
      if (b == 0 && kind == kScattered) store(call->type, out, i, reduced(call, rank, i));
      if (kind == kAllgather || (kind == kGather && at_root))
        store(call->type, block, i, value_of(call, b, 0, i));
      if (b == 0 && kind == kScatter && !(call->in_place && at_root))
        store(call->type, out, i, value_of(call, call->root, rank, i));
      if (kind == kAlltoall) store(call->type, block, i, value_of(call, b, rank, i));
    }
  }
}

/* Behind a result that is shorter than what lay there in place, anything may be left. */
static size_t defined_bytes(const struct Drawn* call) {
  return call->kind == kScattered && call->in_place ? (size_t)(call->count * extent_of(call->type))
                                                    : used(call);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int calls = atoi(argv[2]);
  state = (unsigned)atoi(argv[1]);
  MPI_Comm comms[3] = {MPI_COMM_WORLD};
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("seed %u\n", state);
  MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[2]);
  struct Drawn call;
  for (int number = 0, times = 0; number < calls; number++, times--) {
    if (times == 0) {
      draw_call(&call, comms);
      times = draw(100) == 0 ? 5000 : 1 + draw(3);
    }
    call.number = number;
    const unsigned agreed = state; /* run() draws what each rank has to itself */
    prepare(&call);
    memcpy(expected, received, used(&call));
    expect(&call, expected);
    state += (unsigned)rank;
    run(&call);
    state = agreed;
    CHECK(memcmp(expected, received, defined_bytes(&call)) == 0,
          "call %d: kind %d, type %d, op %d, count %d, root %d%s", number, call.kind, call.type,
          call.op, call.count, call.root, call.in_place ? ", in place" : "");
  }
  MPI_Comm_free(&comms[1]);
  MPI_Comm_free(&comms[2]);
  return finish("repeated");
}
