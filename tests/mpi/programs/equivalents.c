/* Every rank describes the same data in another way: plain, as one element, with gaps, backwards,
 * by absolute addresses and MPI_BOTTOM, by null and nothing; through a plain call or one of a large
 * count; in place where only it may be; with DEVICE_LIBRARY in the memory of a device or not. All
 * of it is legal, so every call must end, with the values that each rank computes itself. */
#include "gpu.h"

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAVE_PERSISTENT 1
#endif
#if MPI_VERSION >= 4
#define HAVE_LARGE 1
#endif

enum form { kBlocking, kNonblocking, kPersistent, kForms };
enum kind { kPlain, kWhole, kVector, kGaps, kStruct, kAbsolute, kAbsoluteEach, kBackwards, kKinds };

static int rank, size;
static int served; /* by tutti, or by the MPI, which has troubles of its own */
static MPI_Comm comm;
static enum form form;
static int trial;

/* ---- a run of blocks of n ints in memory */

struct side {
  enum kind kind;
  int n, blocks;
  int* memory; /* as the program sees it */
  struct memory place;
  size_t ints;
  void* buffer;
  int count; /* of one block */
  MPI_Datatype type;
};

static int* at(const struct side* s, int block, int i) {
  int n = s->n;
  switch (s->kind) {
    case kVector:
      return s->memory + (size_t)block * 2 * n + 2 * i;
    case kGaps:
      return s->memory + ((size_t)block * n + i) * 3;
    case kStruct:
      return s->memory + (size_t)block * (n + 1) + (i < n / 2 ? i : i + 1);
    case kAbsolute:
      return s->memory + (size_t)block * (n + 1) + i;
    case kAbsoluteEach:
      return s->memory + ((size_t)block * n + i) * 2;
    case kBackwards:
      return s->memory + (size_t)block * n + (n - 1 - i);
    default:
      return s->memory + (size_t)block * n + i;
  }
}

static MPI_Datatype resized(MPI_Datatype inner, MPI_Aint lb, MPI_Aint extent) {
  MPI_Datatype type;
  MPI_Type_create_resized(inner, lb, extent, &type);
  MPI_Type_commit(&type);
  if (inner != MPI_INT) MPI_Type_free(&inner);
  return type;
}

/* Memory of all kinds, in another order on every rank. */
static int host_only; /* what the MPI carries out: none here knows the memory of a device */
static enum memory_kind next_memory(void) {
  static int made;
  if (host_only) return kHostMemory;
  return (enum memory_kind)((made++ * (rank + 1) + rank) % 4);
}

static struct side make(enum kind kind, int n, int blocks) {
  const MPI_Aint word = sizeof(int);
  struct side s = {.kind = kind, .n = n, .blocks = blocks, .count = 1, .type = MPI_INT};
  MPI_Datatype inner;
  MPI_Aint address;
  s.ints = (size_t)blocks * (3 * (size_t)n + 1) + 8;
  s.place = take_memory(next_memory(), s.ints * sizeof(int));
  s.memory = (int*)s.place.view;
  s.buffer = s.place.address;
  MPI_Get_address(s.buffer, &address);
  switch (kind) {
    case kPlain:
      s.count = n;
      break;
    case kWhole:
      MPI_Type_contiguous(n, MPI_INT, &s.type);
      MPI_Type_commit(&s.type);
      break;
    case kVector:
      MPI_Type_vector(n, 1, 2, MPI_INT, &inner);
      s.type = resized(inner, 0, 2 * n * word);
      break;
    case kGaps:
      s.type = resized(MPI_INT, 0, 3 * word);
      s.count = n;
      break;
    case kStruct: {
      int lengths[] = {n / 2, n - n / 2};
      MPI_Aint places[] = {0, (n / 2 + 1) * word};
      MPI_Datatype types[] = {MPI_INT, MPI_INT};
      MPI_Type_create_struct(2, lengths, places, types, &inner);
      s.type = resized(inner, 0, (n + 1) * word);
      break;
    }
    case kAbsolute:
      MPI_Type_create_hindexed(1, &n, &address, MPI_INT, &inner);
      s.type = resized(inner, address, (n + 1) * word);
      s.buffer = MPI_BOTTOM;
      break;
    case kAbsoluteEach: {
      int one = 1;
      MPI_Type_create_hindexed(1, &one, &address, MPI_INT, &inner);
      s.type = resized(inner, address, 2 * word);
      s.buffer = MPI_BOTTOM;
      s.count = n;
      break;
    }
    default:
      MPI_Type_create_hvector(n, 1, -word, MPI_INT, &inner);
      s.type = resized(inner, n == 0 ? 0 : -(n - 1) * word, n * word);
      s.buffer = (int*)s.place.address + (n == 0 ? 0 : n - 1);
  }
  if (s.count == 0) s.buffer = NULL; /* nothing may lie nowhere */
  return s;
}

static void drop(struct side* s) {
  free_memory(&s->place);
  if (s->type != MPI_INT) MPI_Type_free(&s->type);
}

static int value(int owner, int block, int i) { return owner * 1000003 + block * 1009 + i * 7 + 1; }

static void clear(struct side* s) { memset(s->memory, 0xff, s->ints * sizeof(int)); }

static void fill(struct side* s, int at_block, int owner, int block) {
  for (int i = 0; i < s->n; i++) *at(s, at_block, i) = value(owner, block, i);
}

/* The ints of `s` that are not -1 must be those of `wanted`, gaps included; takes `wanted`. */
static void compare(const char* what, const struct side* s, struct side* wanted) {
  for (size_t i = 0; i < s->ints; i++) {
    if (s->memory[i] == wanted->memory[i]) continue;
    CHECK(0, "%s, form %d, trial %d, %d ints as kind %d: int %zu is %d, not %d", what, form, trial,
          s->n, s->kind, i, s->memory[i], wanted->memory[i]);
    break;
  }
  free(wanted->memory);
}

static struct side blank(const struct side* s) {
  struct side copy = *s;
  copy.memory = malloc(s->ints * sizeof(int));
  clear(&copy);
  return copy;
}

/* ---- calls: the form is everybody's, whether it is a large one is each rank's own affair */

static int large(void) { return (rank + trial) % 2; }

#define BLOCKING_OR_NOT(suffix, reset, name, iname, ...) \
  if (form == kBlocking) {                               \
    reset;                                               \
    MPI_##name##suffix(__VA_ARGS__);                     \
  } else if (form == kNonblocking) {                     \
    reset;                                               \
    MPI_I##iname##suffix(__VA_ARGS__, &request);         \
    MPI_Wait(&request, MPI_STATUS_IGNORE);               \
  }
#ifdef HAVE_PERSISTENT
#define PERSISTENT(suffix, reset, name, ...)                         \
  if (form == kPersistent) {                                         \
    reset; /* Intel's read their buffers now */                      \
    MPI_##name##_init##suffix(__VA_ARGS__, MPI_INFO_NULL, &request); \
    for (int turn = 0; turn < 2; turn++) {                           \
      reset;                                                         \
      MPI_Start(&request);                                           \
      MPI_Wait(&request, MPI_STATUS_IGNORE);                         \
    }                                                                \
    MPI_Request_free(&request);                                      \
  }
#else
#define PERSISTENT(...)
#endif
#define PLAIN(reset, name, iname, ...)                          \
  do {                                                          \
    MPI_Request request = MPI_REQUEST_NULL;                     \
    BLOCKING_OR_NOT(, reset, name, iname, __VA_ARGS__)          \
    PERSISTENT(, reset, name, __VA_ARGS__)                      \
    CHECK(request == MPI_REQUEST_NULL, "request of %s", #name); \
  } while (0)
#ifdef HAVE_LARGE
#define LARGE(reset, name, iname, ...)                            \
  do {                                                            \
    MPI_Request request = MPI_REQUEST_NULL;                       \
    BLOCKING_OR_NOT(_c, reset, name, iname, __VA_ARGS__)          \
    PERSISTENT(_c, reset, name, __VA_ARGS__)                      \
    CHECK(request == MPI_REQUEST_NULL, "request of %s_c", #name); \
  } while (0)
#define RUN(reset, name, iname, ...)          \
  do {                                        \
    if (large())                              \
      LARGE(reset, name, iname, __VA_ARGS__); \
    else                                      \
      PLAIN(reset, name, iname, __VA_ARGS__); \
  } while (0)
#else
#define RUN PLAIN
#endif

/* By an MPI alone all ranks are served alike, for they go wrong otherwise: Intel MPI truncates, and
 * all hang when some have no elements and others one of no size. */
static enum kind other_kind(int step, int n) {
  if (served) return (enum kind)((rank * step + trial) % kKinds);
  return n == 0 ? kPlain : (enum kind)(trial % kKinds);
}

static void test_bcast(int n, int root) {
  struct side s = make(other_kind(3, n), n, 1);
  if (n == 0) s.buffer = NULL;
  RUN((clear(&s), rank == root ? fill(&s, 0, root, 5) : (void)0), Bcast, bcast, s.buffer, s.count,
      s.type, root, comm);
  struct side wanted = blank(&s);
  fill(&wanted, 0, root, 5);
  compare("bcast", &s, &wanted);
  drop(&s);
}

static void test_allgather(int n, int in_place) {
  struct side send = make(other_kind(1, n), n, 1), recv = make(other_kind(5, n), n, size);
  clear(&send);
  fill(&send, 0, rank, 2);
  RUN((clear(&recv), in_place ? fill(&recv, rank, rank, 2) : (void)0), Allgather, allgather,
      in_place ? MPI_IN_PLACE : send.buffer, in_place ? -3 : send.count,
      in_place ? MPI_DATATYPE_NULL : send.type, recv.buffer, recv.count, recv.type, comm);
  struct side wanted = blank(&recv);
  for (int r = 0; r < size; r++) fill(&wanted, r, r, 2);
  compare("allgather", &recv, &wanted);
  drop(&send);
  drop(&recv);
}

/* Blocks of n + r elements (or none), in another order on every rank. */
static void test_allgatherv(int n, int in_place) {
  static const enum kind each[] = {kPlain, kGaps, kAbsoluteEach};
  int longest = n + size;
  struct side send = make(other_kind(1, n), n == 0 ? 0 : n + rank, 1);
  struct side recv = make(each[(rank + trial) % 3], longest, size);
  int* counts = malloc(sizeof(int) * (size_t)size);
  int* displs = malloc(sizeof(int) * (size_t)size);
  for (int r = 0; r < size; r++) {
    counts[r] = n == 0 ? 0 : n + r;
    displs[r] = (r + rank) % size * longest;
  }
#define FILL_BLOCK(side, r) \
  for (int i = 0; i < counts[r]; i++) *at(side, (r + rank) % size, i) = value(r, 3, i)
  clear(&send);
  fill(&send, 0, rank, 3);
  const void* from = in_place ? MPI_IN_PLACE : send.buffer;
#define RESET                              \
  do {                                     \
    clear(&recv);                          \
    if (in_place) FILL_BLOCK(&recv, rank); \
  } while (0)
#ifdef HAVE_LARGE
  MPI_Count* wide_counts = malloc(sizeof(MPI_Count) * (size_t)size);
  MPI_Aint* wide_displs = malloc(sizeof(MPI_Aint) * (size_t)size);
  for (int r = 0; r < size; r++) wide_counts[r] = counts[r], wide_displs[r] = displs[r];
  if (large())
    LARGE(RESET, Allgatherv, allgatherv, from, send.count, send.type, recv.buffer, wide_counts,
          wide_displs, recv.type, comm);
  else
#endif
    PLAIN(RESET, Allgatherv, allgatherv, from, send.count, send.type, recv.buffer, counts, displs,
          recv.type, comm);
  struct side wanted = blank(&recv);
  for (int r = 0; r < size; r++) FILL_BLOCK(&wanted, r);
  compare("allgatherv", &recv, &wanted);
#ifdef HAVE_LARGE
  free(wide_counts);
  free(wide_displs);
#endif
  free(counts);
  free(displs);
  drop(&send);
  drop(&recv);
}

/* What is not significant on a rank is nonsense there. */
static void test_gather(int n, int root, int in_place) {
  struct side send = make(other_kind(1, n), n, 1), recv = make(other_kind(3, n), n, size);
  const int mine = rank == root, own = mine && in_place;
  clear(&send);
  fill(&send, 0, rank, 2);
  RUN((clear(&recv), own ? fill(&recv, rank, rank, 2) : (void)0), Gather, gather,
      own ? MPI_IN_PLACE : send.buffer, own ? -3 : send.count, own ? MPI_DATATYPE_NULL : send.type,
      mine ? recv.buffer : NULL, mine ? recv.count : -5, mine ? recv.type : MPI_DATATYPE_NULL, root,
      comm);
  struct side wanted = blank(&recv);
  for (int r = 0; mine && r < size; r++) fill(&wanted, r, r, 2);
  compare("gather", &recv, &wanted);
  drop(&send);
  drop(&recv);
}

static void test_scatter(int n, int root, int in_place) {
  struct side send = make(other_kind(3, n), n, size), recv = make(other_kind(1, n), n, 1);
  const int mine = rank == root, own = mine && in_place;
  clear(&send);
  for (int r = 0; r < size; r++) fill(&send, r, root, r);
  RUN(clear(&recv), Scatter, scatter, mine ? send.buffer : NULL, mine ? send.count : -5,
      mine ? send.type : MPI_DATATYPE_NULL, own ? MPI_IN_PLACE : recv.buffer, own ? -3 : recv.count,
      own ? MPI_DATATYPE_NULL : recv.type, root, comm);
  struct side wanted = blank(&recv);
  if (!own) fill(&wanted, 0, root, rank);
  compare("scatter", &recv, &wanted);
  drop(&send);
  drop(&recv);
}

static void test_alltoall(int n, int in_place) {
  struct side send = make(other_kind(1, n), n, size), recv = make(other_kind(3, n), n, size);
  clear(&send);
  for (int r = 0; r < size; r++) fill(&send, r, rank, r);
#define FILL_OWN(side)                                                 \
  do {                                                                 \
    clear(side);                                                       \
    for (int r = 0; in_place && r < size; r++) fill(side, r, rank, r); \
  } while (0)
  RUN(FILL_OWN(&recv), Alltoall, alltoall, in_place ? MPI_IN_PLACE : send.buffer,
      in_place ? -3 : send.count, in_place ? MPI_DATATYPE_NULL : send.type, recv.buffer, recv.count,
      recv.type, comm);
  struct side wanted = blank(&recv);
  for (int r = 0; r < size; r++) fill(&wanted, r, r, rank);
  compare("alltoall", &recv, &wanted);
  drop(&send);
  drop(&recv);
}

/* ---- reductions: the sum, or by an operator of the program's that does not commute the first */

static const struct side* operands; /* how this rank describes an element */
static int per_element;

static void combine(void* in, void* inout, int* count, int keep) {
  for (int e = 0; e < *count; e++) {
    for (int i = 0; i < per_element; i++) {
      const long ints = at(operands, 0, per_element == 1 ? 0 : i) - operands->memory;
      MPI_Aint here, extent, lb, from;
      MPI_Get_address((int*)operands->place.address + ints, &here);
      MPI_Get_address(operands->buffer, &from);
      if (operands->buffer == MPI_BOTTOM) from = 0;
      MPI_Type_get_extent(operands->type, &lb, &extent);
      const MPI_Aint offset = here - from + e * extent;
      int a, b;
      memcpy(&a, (char*)in + offset, sizeof a);
      memcpy(&b, (char*)inout + offset, sizeof b);
      b = keep ? a : a + b;
      memcpy((char*)inout + offset, &b, sizeof b);
    }
  }
}
static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  combine(in, inout, count, 0);
}
static void first(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  combine(in, inout, count, 1);
}

enum operator{ kSum, kOwnSum, kFirst, kOperators };
static MPI_Op ops[kOperators];

static void fill_result(struct side* s, enum operator op, int at_block, int block) {
  for (int i = 0; i < s->n; i++) {
    int sum = 0;
    for (int r = 0; r < size; r++) sum += value(r, block, i);
    *at(s, at_block, i) = op == kFirst ? value(0, block, i) : sum;
  }
}

/* With predefined operators only plain ints; else elements of one int, or the whole as one. An
 * operator of the program's is tutti's in blocking calls alone. */
static enum kind operand_kind(enum operator op, int in_place) {
  static const enum kind each[] = {kPlain, kGaps, kAbsoluteEach};
  static const enum kind whole[] = {kWhole, kVector, kStruct, kBackwards, kAbsolute};
  const int which = rank + trial / 2;
  if (op == kSum || !served || form != kBlocking) return kPlain;
  if (trial % 2) return each[which % (in_place ? 3 : 2)];
  return whole[which % (in_place ? 5 : 4)];
}

/* A type of absolute addresses is a buffer's own, so the result goes where the operand is. */
static int is_absolute(enum kind kind) { return kind == kAbsolute || kind == kAbsoluteEach; }

static void test_reduce(int n, int root, enum operator op) {
  const enum kind kind = operand_kind(op, 1);
  struct side send = make(kind, n, 1), recv = make(kind, n, 1);
  const int mine = rank == root, own = mine && (is_absolute(kind) || trial % 3 == 0);
  /* Open MPI's MPI_Reduce_init calls two null buffers of nothing the same. */
  void* const to = n == 0 && !own ? recv.place.address : recv.buffer;
  operands = own ? &recv : &send;
  per_element = operands->count == 1 ? n : 1;
  clear(&send);
  fill(&send, 0, rank, 4);
  RUN((clear(&recv), own ? fill(&recv, 0, rank, 4) : (void)0), Reduce, reduce,
      own ? MPI_IN_PLACE : send.buffer, mine ? to : NULL, operands->count, operands->type, ops[op],
      root, comm);
  struct side wanted = blank(&recv);
  if (mine) fill_result(&wanted, op, 0, 4);
  compare("reduce", &recv, &wanted);
  drop(&send);
  drop(&recv);
}

static void test_allreduce(int n, enum operator op, int in_place) {
  const enum kind kind = operand_kind(op, in_place);
  struct side send = make(kind, n, 1), recv = make(kind, n, 1);
  operands = &recv;
  per_element = recv.count == 1 ? n : 1;
  clear(&send);
  fill(&send, 0, rank, 4);
  RUN((clear(&recv), in_place ? fill(&recv, 0, rank, 4) : (void)0), Allreduce, allreduce,
      in_place ? MPI_IN_PLACE : send.buffer, recv.buffer, recv.count, recv.type, ops[op], comm);
  struct side wanted = blank(&recv);
  fill_result(&wanted, op, 0, 4);
  compare("allreduce", &recv, &wanted);
  drop(&send);
  drop(&recv);
}

static void test_reduce_scatter_block(int n, enum operator op) {
  const enum kind kind = operand_kind(op, 0);
  struct side send = make(kind, n, size), recv = make(kind, n, 1);
  operands = &recv;
  per_element = recv.count == 1 ? n : 1;
  clear(&send);
  for (int r = 0; r < size; r++) fill(&send, r, rank, r);
  RUN(clear(&recv), Reduce_scatter_block, reduce_scatter_block, send.buffer, recv.buffer,
      recv.count, recv.type, ops[op], comm);
  struct side wanted = blank(&recv);
  fill_result(&wanted, op, 0, rank);
  compare("reduce_scatter_block", &recv, &wanted);
  drop(&send);
  drop(&recv);
}

/* The first rank gets what others leave out: they have blocks of nothing, at no address. */
static void test_reduce_scatter(int n, enum operator op) {
  const int blocks = rank == 0 ? size : 0;
  const enum kind kind = operand_kind(op, 0);
  struct side send = make(kind, n, size), recv = make(kind, n, blocks);
  int* counts = calloc((size_t)size, sizeof(int));
  counts[0] = send.count * size;
  operands = &send;
  per_element = send.count == 1 ? n : 1;
  clear(&send);
  for (int r = 0; r < size; r++) fill(&send, r, rank, r);
  void* const nothing = n == 0 ? recv.place.address : NULL; /* two null buffers are one for some */
  void* const to = blocks == 0 || n == 0 ? nothing : recv.buffer;
#ifdef HAVE_LARGE
  MPI_Count* wide_counts = calloc((size_t)size, sizeof(MPI_Count));
  wide_counts[0] = counts[0];
  if (large())
    LARGE(clear(&recv), Reduce_scatter, reduce_scatter, send.buffer, to, wide_counts, send.type,
          ops[op], comm);
  else
#endif
    PLAIN(clear(&recv), Reduce_scatter, reduce_scatter, send.buffer, to, counts, send.type, ops[op],
          comm);
#ifdef HAVE_LARGE
  free(wide_counts);
#endif
  struct side wanted = blank(&recv);
  for (int b = 0; b < blocks; b++) fill_result(&wanted, op, b, b);
  compare("reduce_scatter", &recv, &wanted);
  free(counts);
  drop(&send);
  drop(&recv);
}

static void test_all(int n) {
  const int root = trial % size, in_place = trial % 3 == 1;
  test_bcast(n, root);
  test_allgather(n, in_place);
  test_allgatherv(n, in_place);
  test_gather(n, root, in_place);
  test_scatter(n, root, in_place);
  test_alltoall(n, in_place);
  for (int op = 0; op < kOperators; op++) {
    host_only = op != kSum && form != kBlocking;
    test_reduce(n, root, (enum operator)op);
    test_allreduce(n, (enum operator)op, in_place);
    test_reduce_scatter_block(n, (enum operator)op);
    test_reduce_scatter(n, (enum operator)op);
    host_only = 0;
  }
}

/* Under MPI_BOTTOM one half may lie here and the other there. */
static void test_scattered(void) {
  enum { kHalf = 700 };
  struct memory halves[2];
  MPI_Datatype type;
  MPI_Aint places[2];
  int lengths[] = {kHalf, kHalf}, *view[2];
  for (int half = 0; half < 2; half++) {
    halves[half] = take_memory(half == rank % 2 ? kDeviceMemory : kHostMemory, kHalf * sizeof(int));
    view[half] = (int*)halves[half].view;
    MPI_Get_address(halves[half].address, &places[half]);
    for (int i = 0; i < kHalf; i++) view[half][i] = rank == 1 ? half * kHalf + i : -1;
  }
  MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Bcast(MPI_BOTTOM, 1, type, 1, comm);
  for (int i = 0; i < 2 * kHalf; i++)
    CHECK(view[i / kHalf][i % kHalf] == i, "scattered int %d is %d", i, view[i / kHalf][i % kHalf]);
  MPI_Type_free(&type);
  for (int half = 0; half < 2; half++) free_memory(&halves[half]);
}

/* Many blocks of a few bytes, as an index list makes them. */
static void test_indexed(void) {
  enum { kBlocks = 300 };
  int places[kBlocks];
  for (int i = 0; i < kBlocks; i++) places[i] = 3 * i + i % 2;
  struct memory memory =
      take_memory(rank % 2 ? kDeviceMemory : kManagedMemory, 4 * kBlocks * sizeof(int));
  int* view = (int*)memory.view;
  MPI_Datatype type;
  MPI_Type_create_indexed_block(kBlocks, 1, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  for (int root = 0; root < size; root++) {
    for (int i = 0; i < 4 * kBlocks; i++) view[i] = -1;
    for (int i = 0; rank == root && i < kBlocks; i++) view[places[i]] = i + root;
    MPI_Bcast(memory.address, 1, type, root, comm);
    for (int i = 0, next = 0; i < 4 * kBlocks; i++) {
      const int mine = next < kBlocks && places[next] == i;
      CHECK(view[i] == (mine ? next + root : -1), "indexed int %d is %d", i, view[i]);
      next += mine;
    }
  }
  MPI_Type_free(&type);
  free_memory(&memory);
}

/* ---- messages around the ring, in every form */

static void test_messages(int n) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  struct side send = make(other_kind(1, n), n, 1), recv = make(other_kind(3, n), n, 1);
  struct side wanted;
  MPI_Request requests[2];
  MPI_Status status;
  MPI_Message message;
  clear(&send);
  fill(&send, 0, rank, 6);
#define RECEIVED(what)             \
  do {                             \
    wanted = blank(&recv);         \
    fill(&wanted, 0, from, 6);     \
    compare(what, &recv, &wanted); \
    clear(&recv);                  \
  } while (0)
  clear(&recv);
  MPI_Sendrecv(send.buffer, send.count, send.type, to, 1, recv.buffer, recv.count, recv.type, from,
               1, comm, &status);
  RECEIVED("sendrecv");
  MPI_Irecv(recv.buffer, recv.count, recv.type, from, 2, comm, &requests[0]);
  MPI_Isend(send.buffer, send.count, send.type, to, 2, comm, &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  RECEIVED("isend");
  MPI_Isend(send.buffer, send.count, send.type, to, 3, comm, &requests[1]);
  MPI_Mprobe(from, 3, comm, &message, &status);
  MPI_Mrecv(recv.buffer, recv.count, recv.type, &message, &status);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  RECEIVED("mrecv");
  MPI_Recv_init(recv.buffer, recv.count, recv.type, from, 4, comm, &requests[0]);
  MPI_Ssend_init(send.buffer, send.count, send.type, to, 4, comm, &requests[1]);
  for (int turn = 0; turn < 2; turn++) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    RECEIVED("persistent messages");
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  fill(&recv, 0, rank, 6);
  MPI_Sendrecv_replace(recv.buffer, recv.count, recv.type, to, 5, from, 5, comm, &status);
  RECEIVED("sendrecv_replace");
  drop(&send);
  drop(&recv);
}

/* More elements than an int counts, of no size: nothing, as elsewhere. */
static void test_much_of_nothing(void) {
  MPI_Datatype nothing;
  MPI_Type_contiguous(0, MPI_INT, &nothing);
  MPI_Type_commit(&nothing);
#ifdef HAVE_LARGE
  if (rank % 2) {
    MPI_Bcast_c(NULL, (MPI_Count)3 << 30, nothing, 0, comm);
    MPI_Type_free(&nothing);
    return;
  }
#endif
  MPI_Bcast(NULL, rank == 0 ? 0 : 7, rank == 0 ? MPI_DOUBLE : nothing, 0, comm);
  MPI_Type_free(&nothing);
}

/* Wrong, and only the root can see it; an MPI that does not look carries it out. */
static void test_aliased_at_the_root(void) {
  int x = 1, y = 1;
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (MPI_Reduce(&y, &y, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_SELF) != MPI_SUCCESS) return;
  MPI_Reduce(&x, &x, 1, MPI_INT, MPI_SUM, 0, comm);
  CHECK(x == (rank == 0 ? size : 1), "send buffer is receive buffer: %d", x);
}

static int is_intel(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(version, &length);
  return strstr(version, "Intel") != NULL;
}

int main(int argc, char** argv) {
  served = argc > 2 && strcmp(argv[2], "served") == 0;
  const int longest = argc > 1 ? atoi(argv[1]) : 20000;
  const int sizes[] = {0, 1, 6, 1000, longest};
  /* Loaded before the MPI is or afterwards, and on every rank or on some. */
  if (getenv("DEVICE_EARLY") != NULL) open_gpu();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  ops[kSum] = MPI_SUM;
  MPI_Op_create(add, 1, &ops[kOwnSum]);
  MPI_Op_create(first, 0, &ops[kFirst]);
  if (gpu_allocate == NULL && (rank % 2 || getenv("DEVICE_ODD_RANKS") == NULL)) open_gpu();
  test_scattered();
  test_indexed();
  if (served) test_much_of_nothing(); /* an MPI alone gets out of step */
  test_aliased_at_the_root();
  for (form = kBlocking; form < kForms; form++) {
#ifndef HAVE_PERSISTENT
    if (form == kPersistent) continue;
#endif
    if (form == kPersistent && !served && is_intel()) continue; /* its own go wrong in MPI_Wait */
    for (int i = 0; i < 5; i++) {
      for (trial = 0; trial < (sizes[i] > 1000 ? kKinds : 2 * kKinds); trial++) test_all(sizes[i]);
    }
  }
  const int messages = getenv("DEVICE_LIBRARY") == NULL || getenv("TUTTI_P2P") != NULL;
  for (trial = 0; messages && trial < kKinds; trial++) {
    for (int i = 0; i < 5; i++) test_messages(sizes[i]);
  }
  if (gpu_copies != NULL) {
    CHECK(gpu_copies() > 100, "the device was copied from and to %ld times", gpu_copies());
    CHECK(gpu_contexts() == 0, "%d contexts are left", gpu_contexts());
  }
  MPI_Op_free(&ops[kOwnSum]);
  MPI_Op_free(&ops[kFirst]);
  MPI_Comm_free(&comm);
  return finish("equivalents");
}
