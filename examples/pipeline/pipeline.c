/* Blocks of numbers that pass through all ranks, each of which changes them: a plain MPI program
 * that knows nothing of tutti.
 *
 *   mpicc -O2 examples/pipeline/pipeline.c -o pipeline
 *   mpiexec -n 2 ./pipeline [--bytes N] [--blocks N] [--passes N] [--out FILE]
 *
 * A rank receives the next block from the rank before it and sends the last one to the rank behind
 * it while it works on one, so it takes no longer than the work if the messages pass meanwhile.
 * Working on a block means that many passes over its numbers, x -> a x + b modulo 2^64 with an a
 * and a b of the rank's own. The last rank knows what must come out; exit status 1 where that is
 * something else. Rank 0 prints, and appends to FILE as a line of JSON, the time of all blocks and
 * how much of it was spent waiting (means of the ranks). Between nodes tutti takes over its
 * messages where TUTTI_P2P=1 says so. */
#include <errno.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int bytes, blocks, passes;
  const char* out;
} Options;

typedef struct {
  double total_s, wait_s;
} Times;

/* x -> factor x + summand */
typedef struct {
  uint64_t factor, summand;
} Map;

/* A block that is received into, worked on and sent in turn. */
typedef struct {
  uint64_t* numbers;
  MPI_Request receive, send;
} Slot;

enum { SLOTS = 3 }; /* one comes, one is worked on, one goes */

/* Whether `text` is a number from `least` to `most`, which is then written. */
static int is_number(const char* text, long least, long most, int* out) {
  char* end;
  errno = 0;
  const long value = strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || value < least || value > most) return 0;
  *out = (int)value;
  return 1;
}

static Options parse(int argc, char** argv) {
  Options options = {1 << 18, 20, 20, NULL};
  for (int i = 1; i < argc; i += 2) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    int good = 0;
    if (strcmp(name, "--bytes") == 0)
      good = is_number(value, 8, 1 << 30, &options.bytes) && options.bytes % 8 == 0;
    if (strcmp(name, "--blocks") == 0) good = is_number(value, 1, 1000000, &options.blocks);
    if (strcmp(name, "--passes") == 0) good = is_number(value, 1, 1000000, &options.passes);
    if (strcmp(name, "--out") == 0 && *value != '\0') good = 1, options.out = value;
    if (good) continue;
    fprintf(stderr,
            "pipeline: %s %s: expected --bytes 8 to 1073741824 in steps of 8, --blocks or --passes "
            "1 to 1000000, or --out FILE\n",
            name, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return options;
}

static size_t numbers_of(const Options* options) { return (size_t)options->bytes / 8; }

static Map map_of(int rank) {
  const Map map = {2862933555777941757u + 8 * (uint64_t)rank, 3037000493u + (uint64_t)rank};
  return map;
}

/* What a number of a block is before the first rank has worked on it. */
static uint64_t first_value(int block, size_t place) {
  return (uint64_t)block * 0x9e3779b97f4a7c15u + place;
}

static void work(const Options* options, Map map, uint64_t* numbers) {
  const size_t count = numbers_of(options);
  for (int pass = 0; pass < options->passes; ++pass)
    for (size_t i = 0; i < count; ++i) numbers[i] = map.factor * numbers[i] + map.summand;
}

/* All that the ranks do to a number, in one. */
static Map all_of_it(const Options* options, int ranks) {
  Map all = {1, 0};
  for (int rank = 0; rank < ranks; ++rank) {
    const Map map = map_of(rank);
    for (int pass = 0; pass < options->passes; ++pass) {
      all.factor *= map.factor;
      all.summand = map.factor * all.summand + map.summand;
    }
  }
  return all;
}

static int is_wrong(const Options* options, Map all, const uint64_t* numbers, int block) {
  for (size_t i = 0; i < numbers_of(options); ++i)
    if (numbers[i] != all.factor * first_value(block, i) + all.summand) return 1;
  return 0;
}

static double wait(MPI_Request* request) {
  const double begin = MPI_Wtime();
  MPI_Wait(request, MPI_STATUS_IGNORE);
  return MPI_Wtime() - begin;
}

/* Begins to receive a block into its slot, whose last block must have left. Seconds of waiting. */
static double ask_for(const Options* options, Slot* slot, int block, int before) {
  const double waited = wait(&slot->send);
  if (before == MPI_PROC_NULL) {
    for (size_t i = 0; i < numbers_of(options); ++i) slot->numbers[i] = first_value(block, i);
  } else {
    MPI_Irecv(slot->numbers, (int)numbers_of(options), MPI_UINT64_T, before, 0, MPI_COMM_WORLD,
              &slot->receive);
  }
  return waited;
}

/* Everything that one rank does. The last one counts the wrong blocks. */
static Times run(const Options* options, int rank, int ranks, int* wrong) {
  const int before = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int behind = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  const Map all = all_of_it(options, ranks);
  Slot slots[SLOTS];
  for (int i = 0; i < SLOTS; ++i) {
    slots[i].numbers = malloc(numbers_of(options) * 8);
    if (slots[i].numbers == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
    slots[i].receive = slots[i].send = MPI_REQUEST_NULL;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  Times times = {MPI_Wtime(), 0};
  times.wait_s += ask_for(options, &slots[0], 0, before);
  for (int block = 0; block < options->blocks; ++block) {
    Slot* slot = &slots[block % SLOTS];
    if (block + 1 < options->blocks)
      times.wait_s += ask_for(options, &slots[(block + 1) % SLOTS], block + 1, before);
    times.wait_s += wait(&slot->receive);
    work(options, map_of(rank), slot->numbers);
    MPI_Isend(slot->numbers, (int)numbers_of(options), MPI_UINT64_T, behind, 0, MPI_COMM_WORLD,
              &slot->send);
    if (behind == MPI_PROC_NULL) *wrong += is_wrong(options, all, slot->numbers, block);
  }
  for (int i = 0; i < SLOTS; ++i) times.wait_s += wait(&slots[i].send);
  times.total_s = MPI_Wtime() - times.total_s;
  for (int i = 0; i < SLOTS; ++i) free(slots[i].numbers);
  return times;
}

static void report(const Options* options, Times mean, int wrong) {
  printf("pipeline: %s, %.3f s for %d blocks, %.3f s of them waiting\n",
         wrong == 0 ? "verified" : "WRONG", mean.total_s, options->blocks, mean.wait_s);
  if (options->out == NULL) return;
  FILE* file = fopen(options->out, "a");
  if (file == NULL) {
    perror(options->out);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  fprintf(file, "{\"program\": \"pipeline\", \"seconds\": %.6f, \"wait_s\": %.6f}\n", mean.total_s,
          mean.wait_s);
  fclose(file);
}

int main(int argc, char** argv) {
  int rank, ranks, mine = 0, wrong = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Options options = parse(argc, argv);
  Times times = run(&options, rank, ranks, &mine), mean = {0, 0};
  MPI_Allreduce(&mine, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(&times, &mean, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  mean.total_s /= ranks;
  mean.wait_s /= ranks;
  if (rank == 0) report(&options, mean, wrong);
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
