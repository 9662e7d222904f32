/* A program that calls collectives rarely, in bursts and with changing sizes: a plain MPI program
 * with a fixed amount of work, so that two runs can be compared by the time of the whole job.
 *
 *   phases [--phases N] [--calls MOST] [--seed SEED]
 *
 * A phase is a collective, a number of bytes and a number of calls, all drawn by the seed: the
 * bytes from 4 B to 1 MiB and the calls from one to MOST (at most 64 MiB a phase), both evenly by
 * their logarithm. One phase in three computes between its calls, each rank for a time of its own;
 * the others call in a burst. The first word of every result is checked. Exit status 1 when one is
 * wrong. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMostBytes = 1 << 20, kMostMoved = 64 << 20 };
enum { kBarrier, kBcast, kReduce, kAllreduce, kAllgather, kAlltoall, kGather, kOps };

typedef struct {
  int op, words, root; /* words: of each rank's block */
  long calls;
  int computes;
} Phase;

typedef struct {
  int rank, size;
  int *mine, *all;
  volatile double sink;
} Program;

static uint64_t g_state;

static uint64_t draw(void) { /* xorshift* (Vigna 2016) */
  g_state ^= g_state >> 12;
  g_state ^= g_state << 25;
  g_state ^= g_state >> 27;
  return g_state * 2685821657736338717u;
}

/* 1 to 2^bits, evenly by the logarithm. */
static long draw_size(int bits) {
  const long power = 1L << (draw() % (unsigned)bits);
  return power + (long)(draw() % (uint64_t)power);
}

static int bits_of(long most) {
  int bits = 1;
  while (2L << bits <= most) ++bits;
  return bits;
}

static Phase draw_phase(long most_calls, int size) {
  Phase phase = {.op = (int)(draw() % kOps),
                 .words = (int)draw_size(18),
                 .root = (int)(draw() % (unsigned)size)};
  const long moved = kMostMoved / ((long)phase.words * (long)sizeof(int));
  phase.calls = draw_size(bits_of(most_calls < moved ? most_calls : moved));
  phase.computes = draw() % 3 == 0;
  return phase;
}

/* Some microseconds of work, more on one rank than on the others. */
static void compute(Program* program, uint64_t what) {
  const long rounds =
      2000 + (long)(what % 3000) * (program->rank == (int)(what % (unsigned)program->size));
  double sum = 0;
  for (long i = 1; i <= rounds; ++i) sum += 1.0 / (double)i;
  program->sink = sum;
}

/* One call, and whether the first word of its result is right. */
static int call(Program* program, const Phase* phase, int turn) {
  const int n = phase->words, last = program->size - 1;
  int* mine = program->mine;
  int* all = program->all;
  mine[0] = turn + program->rank;
  switch (phase->op) {
    case kBarrier:
      MPI_Barrier(MPI_COMM_WORLD);
      return 1;
    case kBcast:
      MPI_Bcast(mine, n, MPI_INT, phase->root, MPI_COMM_WORLD);
      return mine[0] == turn + phase->root;
    case kReduce:
      MPI_Reduce(mine, all, n, MPI_INT, MPI_MAX, phase->root, MPI_COMM_WORLD);
      return program->rank != phase->root || all[0] == turn + last;
    case kAllreduce:
      MPI_Allreduce(mine, all, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      return all[0] == turn + last;
    case kAllgather:
      MPI_Allgather(mine, n, MPI_INT, all, n, MPI_INT, MPI_COMM_WORLD);
      return all[(size_t)last * (size_t)n] == turn + last;
    case kAlltoall:
      for (int i = 0; i < program->size; ++i) mine[(size_t)i * (size_t)n] = turn + program->rank;
      MPI_Alltoall(mine, n, MPI_INT, all, n, MPI_INT, MPI_COMM_WORLD);
      return all[(size_t)last * (size_t)n] == turn + last;
    default:
      MPI_Gather(mine, n, MPI_INT, all, n, MPI_INT, phase->root, MPI_COMM_WORLD);
      return program->rank != phase->root || all[(size_t)last * (size_t)n] == turn + last;
  }
}

static int run(Program* program, long phases, long most_calls) {
  int right = 1, turn = 0;
  for (long number = 0; number < phases; ++number) {
    const Phase phase = draw_phase(most_calls, program->size);
    const uint64_t what = draw();
    for (long i = 0; i < phase.calls; ++i) {
      if (phase.computes) compute(program, what + (uint64_t)i);
      right &= call(program, &phase, ++turn);
    }
  }
  return right;
}

int main(int argc, char** argv) {
  long phases = 100, most_calls = 10000, seed = 1;
  MPI_Init(&argc, &argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--phases") == 0) phases = atol(argv[i + 1]);
    if (strcmp(argv[i], "--calls") == 0) most_calls = atol(argv[i + 1]);
    if (strcmp(argv[i], "--seed") == 0) seed = atol(argv[i + 1]);
  }
  g_state = (uint64_t)seed * 2862933555777941757u + 3037000493u;
  Program program = {0};
  MPI_Comm_rank(MPI_COMM_WORLD, &program.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &program.size);
  const size_t bytes = (size_t)program.size * kMostBytes;
  program.mine = calloc(1, bytes);
  program.all = calloc(1, bytes);
  if (!program.mine || !program.all || phases < 1 || most_calls < 2) {
    fprintf(stderr, "usage: phases [--phases N] [--calls MOST] [--seed SEED], MOST at least 2\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int right = run(&program, phases, most_calls), all_right;
  MPI_Allreduce(&right, &all_right, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (program.rank == 0) {
    printf("%ld phases, seed %ld: %s\n", phases, seed, all_right ? "right" : "WRONG");
  }
  free(program.mine);
  free(program.all);
  MPI_Finalize();
  return all_right ? 0 : 1;
}
