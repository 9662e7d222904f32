/* The microbenchmark of CDCP-2008 (figure 5): an allreduce is started, the program computes, and
 * waits.
 *
 *     dcp --sizes 8,1024 --compute US[,US...] --time-ms T [--give-way 1] [--in-turn 1] --out FILE
 *
 * For each size and computation one line of JSON on rank 0: medians over the iterations of the time
 * to start and to wait, the larger sum over the ranks; without computation that is the collective's
 * latency, with enough of it the overhead. With --give-way 1 the computation gives its processor to
 * whoever else wants it, so that dedicated processors without cores of their own work in that time
 * as if they had some. With --in-turn 1 one rank after the other measures, while the others, which
 * have started their part of a few allreduces before, sleep: so a rank and the dedicated processors
 * have processors of their own where there are fewer than ranks. That is for what progresses by
 * itself; allreduces that the MPI moves inside its calls would wait for the sleepers.
 * Plain MPI, data change, results are checked. */
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 20000, AHEAD = 16 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* What one look at the clock takes: it is part of every interval. */
static double clock_us(void) {
  double all[1001];
  for (int i = 0; i < 1001; ++i) {
    const double begin = now_us();
    all[i] = now_us() - begin;
  }
  return median(all, 1001);
}

static int give_way, in_turn;

static void compute(double us) {
  const double end = now_us() + us;
  while (now_us() < end) {
    if (give_way) sched_yield();
  }
}

struct Cell {
  double start, wait, whole; /* us, medians of this rank */
  int iterations;
};

struct Buffers {
  double *in, *out;
  int count, rank, size;
};

static void fill(struct Buffers* b, int round) {
  for (int k = 0; k < b->count; ++k) b->in[k] = b->rank + round;
}

static int is_wrong(const struct Buffers* b, int round) {
  const double expected = (double)b->size * round + 0.5 * b->size * (b->size - 1);
  return b->out[0] != expected || b->out[b->count - 1] != expected;
}

/* The times of one allreduce, without what the clock takes. */
static void start_and_wait(struct Buffers* b, double compute_us, double tick, double* start,
                           double* wait) {
  MPI_Request request;
  const double begin = now_us();
  MPI_Iallreduce(b->in, b->out, b->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  *start = now_us() - begin - tick;
  if (compute_us > 0) compute(compute_us);
  const double again = now_us();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  *wait = now_us() - again - tick;
}

static void block(struct Buffers* b, double tick, double* start, double* wait) {
  const double begin = now_us();
  MPI_Allreduce(b->in, b->out, b->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  *start = now_us() - begin - tick;
  *wait = 0;
}

static void sleep_us(double us) {
  const struct timespec time = {(time_t)(us * 1e-6), (long)us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

/* AHEAD allreduces in each rank's turn, of which the others start theirs and then sleep. Returns
 * how many results were wrong; adds this rank's times at `done`. */
static int one_round_in_turn(struct Buffers* b, double compute_us, double tick, double* start,
                             double* wait, int done) {
  const double settled_us = 2000;
  struct Buffers each[AHEAD];
  MPI_Request requests[AHEAD];
  int wrong = 0;
  for (int i = 0; i < AHEAD; ++i) {
    each[i] = (struct Buffers){b->in + (size_t)i * b->count, b->out + (size_t)i * b->count,
                               b->count, b->rank, b->size};
  }
  for (int turn = 0; turn < b->size; ++turn) {
    for (int i = 0; i < AHEAD; ++i) fill(&each[i], done + turn + i);
    MPI_Barrier(MPI_COMM_WORLD);
    if (b->rank == turn) {
      sleep_us(settled_us);
      for (int i = 0; i < AHEAD; ++i)
        start_and_wait(&each[i], compute_us, tick, &start[done + i], &wait[done + i]);
    } else {
      for (int i = 0; i < AHEAD; ++i)
        MPI_Iallreduce(each[i].in, each[i].out, b->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                       &requests[i]);
      sleep_us(2 * settled_us + AHEAD * (compute_us + 10));
      MPI_Waitall(AHEAD, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < AHEAD; ++i) wrong += is_wrong(&each[i], done + turn + i);
  }
  return wrong;
}

/* `compute_us` below 0: blocking calls. Returns how many results were wrong. */
static int measure(int count, double compute_us, double budget_us, double tick, struct Cell* cell) {
  static double start[MOST], wait[MOST], whole[MOST];
  const int turns = in_turn && compute_us > 0;
  struct Buffers b = {malloc((size_t)count * AHEAD * sizeof(double)),
                      malloc((size_t)count * AHEAD * sizeof(double)), count, 0, 0};
  int done = 0, wrong = 0, more = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &b.size);
  const double end = now_us() + budget_us;
  while (more) {
    if (turns) {
      wrong += one_round_in_turn(&b, compute_us, tick, start, wait, done);
      done += AHEAD;
    }
    for (int i = 0; !turns && i < 50 && done < MOST; ++i, ++done) {
      fill(&b, done);
      if (compute_us < 0) {
        block(&b, tick, &start[done], &wait[done]);
      } else {
        start_and_wait(&b, compute_us, tick, &start[done], &wait[done]);
      }
      wrong += is_wrong(&b, done);
    }
    more = now_us() < end && done + AHEAD <= MOST;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  for (int i = 0; i < done; ++i) whole[i] = start[i] + wait[i];
  *cell = (struct Cell){median(start, done), median(wait, done), median(whole, done), done};
  free(b.in);
  free(b.out);
  return wrong;
}

static const char* option(int argc, char** argv, const char* name, const char* fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return fallback;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, wrong = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double budget = atof(option(argc, argv, "--time-ms", "50")) * 1e3;
  const char* path = option(argc, argv, "--out", "-");
  FILE* file = rank != 0 ? NULL : strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
  give_way = atoi(option(argc, argv, "--give-way", "0"));
  in_turn = atoi(option(argc, argv, "--in-turn", "0"));
  const double tick = clock_us();
  char* sizes = strdup(option(argc, argv, "--sizes", "8"));
  for (char *at, *size = strtok_r(sizes, ",", &at); size; size = strtok_r(NULL, ",", &at)) {
    const int count = atoi(size) / 8;
    struct Cell warm, blocking;
    if (count < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    wrong += measure(count, 0, budget * 0.1, tick, &warm);
    wrong += measure(count, -1, budget, tick, &blocking);
    char* computes = strdup(option(argc, argv, "--compute", "0,100"));
    for (char* in, *c = strtok_r(computes, ",", &in); c; c = strtok_r(NULL, ",", &in)) {
      struct Cell cell;
      wrong += measure(count, atof(c), budget, tick, &cell);
      double mine[4] = {cell.start, cell.wait, cell.whole, blocking.whole}, most[4];
      MPI_Reduce(mine, most, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
      if (file != NULL) {
        fprintf(file,
                "{\"bytes\": %d, \"compute_us\": %s, \"start_us\": %.4f, \"wait_us\": %.4f, "
                "\"both_us\": %.4f, \"blocking_us\": %.4f, \"iterations\": %d}\n",
                count * 8, c, most[0], most[1], most[2], most[3], cell.iterations);
        fflush(file);
      }
    }
    free(computes);
  }
  free(sizes);
  int all_wrong = 0;
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (all_wrong != 0 && rank == 0) fprintf(stderr, "%d results were wrong\n", all_wrong);
  MPI_Finalize();
  return all_wrong != 0;
}
