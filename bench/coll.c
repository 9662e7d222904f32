/* Times MPI collectives. A plain MPI program: it knows nothing of tutti, and the same binary runs
 * on an MPI alone and under `tutti run`.
 *
 *   coll --ops bcast,iallreduce,allreduce_init --sizes 4,4096 [--time-ms 20] [--batches 5]
 *        [--sync none|barrier] [--roots fixed|rotate] [--calls 1000 --warm-up 100] --out FILE
 *
 * NAME is blocking, iNAME begun and awaited at once, NAME_init started and awaited, of a request
 * that is made once. With --calls each cell is measured once, by so many calls after so many to
 * warm up, as other benchmarks do; --time-ms and --batches say nothing then.
 *
 * What is timed (docs: bench/README.md): batches of calls that follow each other. The time of a
 * batch is the maximum over the ranks of what each measured, divided by its calls. Before every
 * call every rank rewrites the buffer that it sends (or receives a broadcast in), so that no cached
 * copy of an old message helps; for small messages that is one store inside the timed loop, for
 * larger ones it is done between the calls and not counted. Results are checked in every call (a
 * few words) and, in calls of their own before the timing, in full.
 *
 * Rank 0 writes one line of JSON per cell:
 *   {"op": "bcast", "bytes": 4, "iterations": 20000, "us": [..one per batch..]}
 * Exit status 1 when a result was wrong. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMaxOps = 80, kMaxSizes = 64, kMaxBatches = 100, kSmall = 1024 };

/* Of collectives with counts for each rank, which stay as they are: here all blocks are alike, or
 * most of them empty (alltoallv_sparse). */
typedef struct {
  int *counts, *displs, *byte_displs;
  MPI_Aint* wide_displs; /* in bytes */
  MPI_Datatype* types;
} Lists;

typedef struct {
  int rank, size;
  MPI_Comm comm;
  MPI_Comm ring; /* the same ranks, each with the one before and the one after as neighbours */
  size_t bytes;  /* as MPI benchmarks count: the vector, or one rank's block */
  size_t words;  /* 32-bit words in it, at least 1 */
  uint32_t* send;
  uint32_t* recv;
  int root;
  MPI_Request* persistent; /* of the cell's persistent collective */
  Lists lists;
} Cell;

typedef struct {
  const char* name;
  int is_bcast;                      /* one buffer, sent by the root and received by the others */
  int from_root;                     /* nobody else sends anything, though all have the buffer */
  int sends_blocks, receives_blocks; /* buffers of one block per rank */
  /* What recv[word] must be after call number `turn`, when every rank sent value_of(rank, turn,
   * ..). */
  uint32_t (*expected)(const Cell*, uint32_t turn, size_t word);
  int everywhere; /* results arrive on all ranks; otherwise at the root only */
  void (*call)(const Cell*);
  void (*init)(const Cell*); /* of persistent ones: makes *cell->persistent */
} Collective;

static int g_errors = 0;

/* ---- what is sent and what must arrive ----------------------------------------------------------
 */

static uint32_t value_of(int rank, uint32_t turn, size_t word) {
  return (turn * 2654435761u) ^ ((uint32_t)rank * 40503u) ^ (uint32_t)word;
}

static uint32_t sum_of_ranks(const Cell* cell, uint32_t turn, size_t word) {
  uint32_t sum = 0;
  for (int rank = 0; rank < cell->size; ++rank) sum += value_of(rank, turn, word);
  return sum;
}

static uint32_t expect_root(const Cell* cell, uint32_t turn, size_t word) {
  return value_of(cell->root, turn, word);
}
static uint32_t expect_sum(const Cell* cell, uint32_t turn, size_t word) {
  return sum_of_ranks(cell, turn, word);
}
static uint32_t expect_my_sum(const Cell* cell, uint32_t turn, size_t word) {
  return sum_of_ranks(cell, turn, (size_t)cell->rank * cell->words + word);
}
static uint32_t expect_prefix(const Cell* cell, uint32_t turn, size_t word) {
  uint32_t sum = 0;
  for (int rank = 0; rank <= cell->rank; ++rank) sum += value_of(rank, turn, word);
  return sum;
}
/* The first rank gets nothing: its buffer stays as it was filled. */
static uint32_t expect_prefix_before(const Cell* cell, uint32_t turn, size_t word) {
  if (cell->rank == 0) return cell->recv[word];
  return expect_prefix(cell, turn, word) - value_of(cell->rank, turn, word);
}
static uint32_t expect_blocks(const Cell* cell, uint32_t turn, size_t word) {
  return value_of((int)(word / cell->words), turn, word % cell->words);
}
static uint32_t expect_my_block(const Cell* cell, uint32_t turn, size_t word) {
  return value_of(cell->root, turn, (size_t)cell->rank * cell->words + word);
}
static uint32_t expect_exchange(const Cell* cell, uint32_t turn, size_t word) {
  return value_of((int)(word / cell->words), turn,
                  (size_t)cell->rank * cell->words + word % cell->words);
}

/* Of an exchange in which most counts are 0: who has something for whom, the same both ways. One
 * rank in a hundred, but one at least where there is one. */
static int are_partners(int rank, int other, int size) {
  const int most = size > 200 ? size / 100 : 1;
  return rank != other && (rank ^ other) <= most;
}
/* Where nothing arrives the buffer stays. */
static uint32_t expect_from_few(const Cell* cell, uint32_t turn, size_t word) {
  const int from = (int)(word / cell->words);
  return are_partners(cell->rank, from, cell->size) ? expect_exchange(cell, turn, word)
                                                    : cell->recv[word];
}

/* On the ring: the one before comes first. There are two blocks; behind them the buffer stays. */
static int beside(const Cell* cell, size_t word) {
  return (cell->rank + (word < cell->words ? cell->size - 1 : 1)) % cell->size;
}
static uint32_t expect_beside(const Cell* cell, uint32_t turn, size_t word) {
  if (word >= 2 * cell->words) return cell->recv[word];
  return value_of(beside(cell, word), turn, word % cell->words);
}
/* The one before has sent its second block, the one after its first. On a ring of two they are the
   same rank, whose blocks Intel MPI's alltoallv and alltoallw deliver in the other order. */
static uint32_t expect_from_beside(const Cell* cell, uint32_t turn, size_t word) {
  if (word >= 2 * cell->words) return cell->recv[word];
  const uint32_t other = value_of(beside(cell, word), turn, word);
  if (cell->size == 2 && cell->recv[word] == other) return other;
  return value_of(beside(cell, word), turn, (word + cell->words) % (2 * cell->words));
}

/* ---- the collectives ----------------------------------------------------------------------------
 */

#define N ((int)cell->words)
#define WORD MPI_UINT32_T

/* clang-format off */
#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define INIT_FORM(comm, name, Persistent, ...)                           \
  static void init_##name(const Cell* cell) {                            \
    Persistent(__VA_ARGS__ cell->comm, MPI_INFO_NULL, cell->persistent); \
  }
#define INIT(name) init_##name
#else
#define INIT_FORM(comm, name, Persistent, ...)
#define INIT(name) NULL
#endif

/* The forms of a collective from one list of arguments: blocking; begun and awaited at once
 * (iNAME); started and awaited, of a request that is made once (NAME_init). */
#define FORMS_ON(comm, name, Blocking, Nonblocking, Persistent, ...)              \
  static void call_##name(const Cell* cell) { Blocking(__VA_ARGS__ cell->comm); } \
  static void call_i##name(const Cell* cell) {                                    \
    MPI_Request request;                                                          \
    Nonblocking(__VA_ARGS__ cell->comm, &request);                                \
    MPI_Wait(&request, MPI_STATUS_IGNORE);                                        \
  }                                                                               \
  INIT_FORM(comm, name, Persistent, __VA_ARGS__)
#define FORMS(...) FORMS_ON(comm, __VA_ARGS__)

#define TO_ALL cell->send, N, WORD, cell->recv, N, WORD,
#define ROOTED cell->send, N, WORD, cell->recv, N, WORD, cell->root,
#define SUMMED cell->send, cell->recv, N, WORD, MPI_SUM,
FORMS(barrier, MPI_Barrier, MPI_Ibarrier, MPI_Barrier_init, )
FORMS(bcast, MPI_Bcast, MPI_Ibcast, MPI_Bcast_init, cell->recv, N, WORD, cell->root, )
FORMS(reduce, MPI_Reduce, MPI_Ireduce, MPI_Reduce_init, SUMMED cell->root, )
FORMS(allreduce, MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init, SUMMED)
FORMS(allgather, MPI_Allgather, MPI_Iallgather, MPI_Allgather_init, TO_ALL)
FORMS(gather, MPI_Gather, MPI_Igather, MPI_Gather_init, ROOTED)
FORMS(scatter, MPI_Scatter, MPI_Iscatter, MPI_Scatter_init, ROOTED)
FORMS(alltoall, MPI_Alltoall, MPI_Ialltoall, MPI_Alltoall_init, TO_ALL)
FORMS(reduce_scatter_block, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block,
      MPI_Reduce_scatter_block_init, SUMMED)
FORMS(reduce_scatter, MPI_Reduce_scatter, MPI_Ireduce_scatter, MPI_Reduce_scatter_init,
      cell->send, cell->recv, cell->lists.counts, WORD, MPI_SUM,)
FORMS(scan, MPI_Scan, MPI_Iscan, MPI_Scan_init, SUMMED)
FORMS(exscan, MPI_Exscan, MPI_Iexscan, MPI_Exscan_init, SUMMED)
#define COUNTS cell->lists.counts, cell->lists.displs
#define TYPES cell->lists.counts, cell->lists.byte_displs, cell->lists.types
FORMS(gatherv, MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init,
      cell->send, N, WORD, cell->recv, COUNTS, WORD, cell->root, )
FORMS(scatterv, MPI_Scatterv, MPI_Iscatterv, MPI_Scatterv_init,
      cell->send, COUNTS, WORD, cell->recv, N, WORD, cell->root, )
FORMS(alltoallv, MPI_Alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init,
      cell->send, COUNTS, WORD, cell->recv, COUNTS, WORD, )
FORMS(alltoallv_sparse, MPI_Alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init,
      cell->send, COUNTS, WORD, cell->recv, COUNTS, WORD, )
FORMS(alltoallw, MPI_Alltoallw, MPI_Ialltoallw, MPI_Alltoallw_init,
      cell->send, TYPES, cell->recv, TYPES, )
#define WIDE_TYPES cell->lists.counts, cell->lists.wide_displs, cell->lists.types
FORMS_ON(ring, neighbor_allgather, MPI_Neighbor_allgather, MPI_Ineighbor_allgather,
         MPI_Neighbor_allgather_init, TO_ALL)
FORMS_ON(ring, neighbor_allgatherv, MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv,
         MPI_Neighbor_allgatherv_init, cell->send, N, WORD, cell->recv, COUNTS, WORD, )
FORMS_ON(ring, neighbor_alltoall, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall,
         MPI_Neighbor_alltoall_init, TO_ALL)
FORMS_ON(ring, neighbor_alltoallv, MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv,
         MPI_Neighbor_alltoallv_init, cell->send, COUNTS, WORD, cell->recv, COUNTS, WORD, )
FORMS_ON(ring, neighbor_alltoallw, MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw,
         MPI_Neighbor_alltoallw_init, cell->send, WIDE_TYPES, cell->recv, WIDE_TYPES, )
/* clang-format on */

static void call_persistent(const Cell* cell) {
  MPI_Start(cell->persistent);
  MPI_Wait(cell->persistent, MPI_STATUS_IGNORE);
}

/* clang-format off */
#define ROWS(name, ...)                             \
  {#name, __VA_ARGS__, call_##name, NULL},          \
  {"i" #name, __VA_ARGS__, call_i##name, NULL},     \
  {#name "_init", __VA_ARGS__, call_persistent, INIT(name)}
/* clang-format on */

static const Collective kCollectives[] = {
    ROWS(barrier, 0, 0, 0, 0, NULL, 1),
    ROWS(bcast, 1, 1, 0, 0, expect_root, 1),
    ROWS(reduce, 0, 0, 0, 0, expect_sum, 0),
    ROWS(allreduce, 0, 0, 0, 0, expect_sum, 1),
    ROWS(allgather, 0, 0, 0, 1, expect_blocks, 1),
    ROWS(gather, 0, 0, 0, 1, expect_blocks, 0),
    ROWS(scatter, 0, 1, 1, 0, expect_my_block, 1),
    ROWS(alltoall, 0, 0, 1, 1, expect_exchange, 1),
    ROWS(reduce_scatter_block, 0, 0, 1, 0, expect_my_sum, 1),
    ROWS(reduce_scatter, 0, 0, 1, 0, expect_my_sum, 1),
    ROWS(scan, 0, 0, 0, 0, expect_prefix, 1),
    ROWS(exscan, 0, 0, 0, 0, expect_prefix_before, 1),
    ROWS(gatherv, 0, 0, 0, 1, expect_blocks, 0),
    ROWS(scatterv, 0, 1, 1, 0, expect_my_block, 1),
    ROWS(alltoallv, 0, 0, 1, 1, expect_exchange, 1),
    ROWS(alltoallv_sparse, 0, 0, 1, 1, expect_from_few, 1),
    ROWS(alltoallw, 0, 0, 1, 1, expect_exchange, 1),
    ROWS(neighbor_allgather, 0, 0, 0, 1, expect_beside, 1),
    ROWS(neighbor_allgatherv, 0, 0, 0, 1, expect_beside, 1),
    ROWS(neighbor_alltoall, 0, 0, 1, 1, expect_from_beside, 1),
    ROWS(neighbor_alltoallv, 0, 0, 1, 1, expect_from_beside, 1),
    ROWS(neighbor_alltoallw, 0, 0, 1, 1, expect_from_beside, 1),
};

/* ---- time ---------------------------------------------------------------------------------------
 */

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* Cycles of the time-stamp counter where there is one: reading it costs a third of clock_gettime.
 */
#if defined(__x86_64__)
static inline uint64_t ticks(void) { return __builtin_ia32_rdtsc(); }
#else
static inline uint64_t ticks(void) { return (uint64_t)(now_us() * 1e3); }
#endif

static double us_per_tick(void) {
  const double start_us = now_us();
  const uint64_t start = ticks();
  while (now_us() - start_us < 2000) {
  }
  return (now_us() - start_us) / (double)(ticks() - start);
}

/* ---- one cell -----------------------------------------------------------------------------------
 */

static size_t send_words(const Collective* op, const Cell* cell) {
  return cell->words * (size_t)(op->sends_blocks ? cell->size : 1);
}
static size_t recv_words(const Collective* op, const Cell* cell) {
  return cell->words * (size_t)(op->receives_blocks ? cell->size : 1);
}

static int sends(const Collective* op, const Cell* cell) {
  return !op->from_root || cell->rank == cell->root;
}

/* Rewrites the buffer that this rank sends; a broadcast's receivers put garbage into theirs. */
static void fill(const Collective* op, const Cell* cell, uint32_t turn) {
  uint32_t* buffer = op->is_bcast ? cell->recv : cell->send;
  const uint32_t base = value_of(cell->rank, turn, 0);
  const size_t words = send_words(op, cell);
  if (op->is_bcast && cell->rank != cell->root) {
    for (size_t word = 0; word < words; ++word) buffer[word] = ~base;
  } else if (sends(op, cell)) {
    for (size_t word = 0; word < words; ++word) buffer[word] = base ^ (uint32_t)word;
  }
}

/* The same for the first word of every block only: small messages, inside the timed loop. */
static inline void touch(const Cell* cell, uint32_t turn, int bcast, int blocks) {
  uint32_t* buffer = bcast ? cell->recv : cell->send;
  const uint32_t value = value_of(cell->rank, turn, 0);
  if (bcast && cell->rank != cell->root) {
    buffer[0] = ~value;
  } else {
    for (int block = 0; block < blocks; ++block) {
      const size_t word = (size_t)block * cell->words;
      buffer[word] = value ^ (uint32_t)word;
    }
  }
}

static void check(const Collective* op, const Cell* cell, uint32_t turn, size_t step) {
  if (op->expected == NULL || (!op->everywhere && cell->rank != cell->root)) return;
  const size_t words = recv_words(op, cell);
  for (size_t word = 0; word < words; word += step) {
    const uint32_t want = op->expected(cell, turn, word);
    if (cell->recv[word] != want && g_errors++ < 5) {
      fprintf(stderr, "coll: %s of %zu bytes, rank %d of %d, call %u: word %zu is %u, not %u\n",
              op->name, cell->bytes, cell->rank, cell->size, turn, word, cell->recv[word], want);
    }
  }
}

/* Whole calls with every word checked, none of it timed. */
static void verify(const Collective* op, Cell* cell, uint32_t* turn, int rotate) {
  for (int i = 0; i < 3; ++i, ++*turn) {
    cell->root = rotate ? (int)(*turn % (uint32_t)cell->size) : 0;
    fill(op, cell, *turn);
    if (!op->is_bcast) memset(cell->recv, 0xA5, recv_words(op, cell) * sizeof *cell->recv);
    op->call(cell);
    check(op, cell, *turn, 1);
  }
}

typedef struct {
  int barrier; /* a barrier, not timed, before every call */
  int rotate;  /* another root in every call */
} Mode;

/* The ticks of `calls` calls on this rank. Small messages: the loop is timed as a whole. */
static uint64_t time_small(const Collective* op, Cell* cell, uint32_t* turn, long calls,
                           Mode mode) {
  const int bcast = op->is_bcast;
  const int checked = op->expected != NULL;
  const int blocks = op->sends_blocks ? cell->size : 1;
  uint32_t wrong = 0;
  const uint64_t start = ticks();
  for (long i = 0; i < calls; ++i, ++*turn) {
    if (mode.rotate) cell->root = (int)(*turn % (uint32_t)cell->size);
    if (checked && (bcast || sends(op, cell))) touch(cell, *turn, bcast, blocks);
    op->call(cell);
    if (bcast) wrong |= cell->recv[0] ^ value_of(cell->root, *turn, 0);
  }
  const uint64_t elapsed = ticks() - start;
  if (wrong) {
    ++g_errors;
    fprintf(stderr, "coll: bcast of %zu bytes delivered an old or wrong word\n", cell->bytes);
  }
  if (checked && (op->everywhere || cell->rank == cell->root) &&
      cell->recv[0] != op->expected(cell, *turn - 1, 0)) {
    ++g_errors;
    fprintf(stderr, "coll: %s of %zu bytes: the first word of the last result is wrong\n", op->name,
            cell->bytes);
  }
  return elapsed;
}

/* Larger messages, or a barrier before each call: every call is timed by itself. */
static uint64_t time_each(const Collective* op, Cell* cell, uint32_t* turn, long calls, Mode mode) {
  uint64_t elapsed = 0;
  const size_t words = recv_words(op, cell);
  for (long i = 0; i < calls; ++i, ++*turn) {
    if (mode.rotate) cell->root = (int)(*turn % (uint32_t)cell->size);
    fill(op, cell, *turn);
    if (mode.barrier) MPI_Barrier(cell->comm);
    const uint64_t start = ticks();
    op->call(cell);
    elapsed += ticks() - start;
    check(op, cell, *turn, words > 2 ? words - 1 : 1); /* the first and the last word */
  }
  return elapsed;
}

static double batch_us(const Collective* op, Cell* cell, uint32_t* turn, long calls, Mode mode,
                       double tick) {
  const int whole_loop = cell->bytes <= kSmall && !mode.barrier;
  MPI_Barrier(cell->comm);
  const uint64_t mine = (whole_loop ? time_small : time_each)(op, cell, turn, calls, mode);
  double us = (double)mine * tick / (double)calls, slowest = 0;
  MPI_Allreduce(&us, &slowest, 1, MPI_DOUBLE, MPI_MAX, cell->comm);
  return slowest;
}

/* What a batch takes the slowest rank, preparations included. */
static double whole_batch_us(const Collective* op, Cell* cell, uint32_t* turn, long calls,
                             Mode mode, double tick) {
  const double start = now_us();
  batch_us(op, cell, turn, calls, mode, tick);
  double took = now_us() - start, slowest = 0;
  MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, cell->comm);
  return slowest;
}

/* Calls per batch such that a batch takes about its budget; agreed by all ranks. The calls of the
 * trial double until two trials of so many take a tenth of it: one could be an interruption. */
static long calibrate(const Collective* op, Cell* cell, uint32_t* turn, Mode mode, double tick,
                      double batch_budget_us) {
  for (long calls = 1;; calls *= 2) {
    double took = whole_batch_us(op, cell, turn, calls, mode, tick);
    if (took < batch_budget_us / 10 && calls <= 100000000) continue;
    const double again = whole_batch_us(op, cell, turn, calls, mode, tick);
    if (again < took) took = again;
    if (took < batch_budget_us / 10 && calls <= 100000000) continue;
    const double wanted = (double)calls * batch_budget_us / (took > 0 ? took : 1);
    return wanted < 1 ? 1 : (long)wanted;
  }
}

/* ---- command line -------------------------------------------------------------------------------
 */

static void die(const char* message, const char* what) {
  fprintf(stderr, "coll: %s%s\n", message, what);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

static const Collective* find_collective(const char* name) {
  for (size_t i = 0; i < sizeof kCollectives / sizeof *kCollectives; ++i) {
    const Collective* op = &kCollectives[i];
    if (strcmp(op->name, name) != 0) continue;
    if (op->call == call_persistent && !op->init)
      die("this MPI has no persistent collectives: ", name);
    return op;
  }
  die("unknown collective: ", name);
  return NULL;
}

typedef struct {
  const Collective* ops[kMaxOps];
  size_t sizes[kMaxSizes];
  int op_count, size_count, batches;
  long calls, warm_up; /* calls > 0: cold */
  double time_ms;
  Mode mode;
  const char* out;
} Options;

static Options parse(int argc, char** argv) {
  Options options = {.batches = 5, .time_ms = 20};
  for (int i = 1; i + 1 < argc; i += 2) {
    const char* name = argv[i];
    char* value = argv[i + 1];
    if (strcmp(name, "--ops") == 0) {
      for (char* word = strtok(value, ","); word; word = strtok(NULL, ",")) {
        if (options.op_count == kMaxOps) die("too many collectives", "");
        options.ops[options.op_count++] = find_collective(word);
      }
    } else if (strcmp(name, "--sizes") == 0) {
      for (char* word = strtok(value, ","); word; word = strtok(NULL, ",")) {
        if (options.size_count == kMaxSizes) die("too many sizes", "");
        char* end = word;
        options.sizes[options.size_count++] = strtoull(word, &end, 10);
        if (*end || end == word || options.sizes[options.size_count - 1] % 4 ||
            !options.sizes[options.size_count - 1]) {
          die("not a positive multiple of 4 bytes: ", word);
        }
      }
    } else if (strcmp(name, "--time-ms") == 0) {
      options.time_ms = atof(value);
    } else if (strcmp(name, "--batches") == 0) {
      options.batches = atoi(value);
    } else if (strcmp(name, "--sync") == 0) {
      options.mode.barrier = strcmp(value, "barrier") == 0;
    } else if (strcmp(name, "--roots") == 0) {
      options.mode.rotate = strcmp(value, "rotate") == 0;
    } else if (strcmp(name, "--calls") == 0) {
      options.calls = atol(value);
    } else if (strcmp(name, "--warm-up") == 0) {
      options.warm_up = atol(value);
    } else if (strcmp(name, "--out") == 0) {
      options.out = value;
    } else {
      die("unknown option: ", name);
    }
  }
  if (argc % 2 == 0) die("an option without a value: ", argv[argc - 1]);
  if (!options.op_count || !options.size_count || !options.out)
    die("--ops, --sizes and --out are needed", "");
  for (int i = 0; i < options.op_count; ++i) {
    if (options.mode.rotate && options.ops[i]->init)
      die("a persistent one has one root: ", options.ops[i]->name);
  }
  if (options.batches < 1 || options.batches > kMaxBatches) die("--batches: 1 to 100", "");
  return options;
}

/* What the sweeps have brought for one cell. */
typedef struct {
  const Collective* op;
  size_t bytes;
  long calls; /* in a batch */
  double us[kMaxBatches], spent_us;
  int batches;
  MPI_Request persistent;
  Lists lists;
} Record;

static Lists make_lists(const Collective* op, int rank, int size, int words) {
  const size_t n = (size_t)size;
  Lists lists = {malloc(n * sizeof(int)), malloc(n * sizeof(int)), malloc(n * sizeof(int)),
                 malloc(n * sizeof(MPI_Aint)), malloc(n * sizeof(MPI_Datatype))};
  if (!lists.counts || !lists.displs || !lists.byte_displs || !lists.wide_displs || !lists.types)
    die("not enough memory", "");
  for (int i = 0; i < size; ++i) {
    const int empty = op->expected == expect_from_few && !are_partners(rank, i, size);
    lists.counts[i] = empty ? 0 : words;
    lists.displs[i] = i * words;
    lists.byte_displs[i] = i * words * (int)sizeof(uint32_t);
    lists.wide_displs[i] = lists.byte_displs[i];
    lists.types[i] = WORD;
  }
  return lists;
}

static void free_lists(Lists* lists) {
  free(lists->counts);
  free(lists->displs);
  free(lists->byte_displs);
  free(lists->wide_displs);
  free(lists->types);
}

static void enter(Record* record, Cell* cell) {
  cell->persistent = &record->persistent;
  cell->bytes = record->bytes;
  cell->words = record->bytes ? record->bytes / 4 : 1;
  cell->root = 0;
  if (!record->lists.counts) record->lists = make_lists(record->op, cell->rank, cell->size, N);
  cell->lists = record->lists;
}

/* One cell for the first time: verified and calibrated. */
static void prepare(Record* record, Cell* cell, const Options* options, uint32_t* turn,
                    double tick) {
  const Collective* op = record->op;
  enter(record, cell);
  if (op->init) op->init(cell);
  if (options->calls > 0) return;
  memset(cell->send, 0, send_words(op, cell) * sizeof *cell->send);
  verify(op, cell, turn, options->mode.rotate);
  enter(record, cell);
  fill(op, cell, *turn);
  const double batch_budget_us = options->time_ms * 1e3 / options->batches;
  record->calls = calibrate(op, cell, turn, options->mode, tick, batch_budget_us);
}

/* One batch of one cell. None any more when its calls are so slow that even the smallest batches
 * exceed the cell's time; every rank sees the same times and so leaves it at the same batch. */
static void time_batch(Record* record, Cell* cell, const Options* options, uint32_t* turn,
                       double tick) {
  if (record->spent_us >= 2 * options->time_ms * 1e3) return;
  enter(record, cell);
  fill(record->op, cell, *turn);
  const long warm_up = record->calls / 10 < 1 ? 1 : record->calls / 10;
  if (record->calls > 1) batch_us(record->op, cell, turn, warm_up, options->mode, tick);
  const double us = batch_us(record->op, cell, turn, record->calls, options->mode, tick);
  record->us[record->batches++] = us;
  record->spent_us += us * (double)record->calls;
}

/* As other benchmarks do: few calls to warm up, and the mean of the next ones. */
static void time_cold(Record* record, Cell* cell, const Options* options, uint32_t* turn,
                      double tick) {
  prepare(record, cell, options, turn, tick);
  if (options->warm_up > 0) batch_us(record->op, cell, turn, options->warm_up, options->mode, tick);
  record->calls = options->calls;
  record->us[record->batches++] =
      batch_us(record->op, cell, turn, record->calls, options->mode, tick);
  verify(record->op, cell, turn, options->mode.rotate);
}

static void write_record(const Record* record, FILE* out) {
  fprintf(out, "{\"op\": \"%s\", \"bytes\": %zu, \"iterations\": %ld, \"us\": [", record->op->name,
          record->bytes, record->calls);
  for (int batch = 0; batch < record->batches; ++batch) {
    fprintf(out, "%s%.5f", batch ? ", " : "", record->us[batch]);
  }
  fprintf(out, "]}\n");
}

/* The batches of a cell are spread over the launch, one in each sweep over all cells: a host that
 * changes its pace for a while then slows one batch of every cell and not all batches of one. */
static void measure_all(Record* records, int count, Cell* cell, const Options* options,
                        double tick) {
  uint32_t turn = 1;
  if (options->calls > 0) {
    for (int i = 0; i < count; ++i) time_cold(&records[i], cell, options, &turn, tick);
    return;
  }
  for (int i = 0; i < count; ++i) prepare(&records[i], cell, options, &turn, tick);
  for (int sweep = 0; sweep < options->batches; ++sweep) {
    for (int i = 0; i < count; ++i) time_batch(&records[i], cell, options, &turn, tick);
  }
}

static MPI_Comm make_ring(MPI_Comm all) {
  MPI_Comm ring;
  int size;
  const int periodic = 1;
  MPI_Comm_size(all, &size);
  MPI_Cart_create(all, 1, &size, &periodic, 0, &ring);
  return ring;
}

static int list_cells(const Options* options, Record* records) {
  int count = 0;
  for (int i = 0; i < options->op_count; ++i) {
    const Collective* op = options->ops[i];
    for (int j = 0; j < (op->expected ? options->size_count : 1); ++j) {
      records[count++] = (Record){.op = op, .bytes = op->expected ? options->sizes[j] : 0};
    }
  }
  return count;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options = parse(argc, argv);
  Cell cell = {.comm = MPI_COMM_WORLD, .ring = make_ring(MPI_COMM_WORLD)};
  MPI_Comm_rank(cell.comm, &cell.rank);
  MPI_Comm_size(cell.comm, &cell.size);

  size_t largest = 4;
  for (int i = 0; i < options.size_count; ++i) {
    if (options.sizes[i] > largest) largest = options.sizes[i];
  }
  const size_t capacity = largest * (size_t)cell.size;
  cell.send = aligned_alloc(4096, (capacity + 4095) / 4096 * 4096);
  cell.recv = aligned_alloc(4096, (capacity + 4095) / 4096 * 4096);
  if (!cell.send || !cell.recv) die("not enough memory for the largest size", "");
  memset(cell.send, 1, capacity);
  memset(cell.recv, 1, capacity);

  FILE* out = NULL;
  if (cell.rank == 0) {
    out = fopen(options.out, "w");
    if (!out) die("cannot write ", options.out);
  }
  const double tick = us_per_tick();
  static Record records[kMaxOps * kMaxSizes];
  const int count = list_cells(&options, records);
  measure_all(records, count, &cell, &options, tick);
  for (int i = 0; i < count; ++i) {
    if (records[i].op->init) MPI_Request_free(&records[i].persistent);
    if (out) write_record(&records[i], out);
    free_lists(&records[i].lists);
  }
  if (out) fclose(out);

  int errors = 0;
  MPI_Allreduce(&g_errors, &errors, 1, MPI_INT, MPI_SUM, cell.comm);
  free(cell.send);
  free(cell.recv);
  MPI_Comm_free(&cell.ring);
  MPI_Finalize();
  return errors ? 1 : 0;
}
