/* The microbenchmark of CDCP-2008 (figure 5): an allreduce is started, the program computes, and
 * waits.
 *
 *     dcp --sizes 8,1024 --compute US[,US...] --time-ms T --out FILE
 *
 * For each size and computation one line of JSON on rank 0: medians over the iterations of the time
 * to start and to wait, the larger sum over the ranks; without computation that is the collective's
 * latency, with enough of it the overhead. Plain MPI, data change, results are checked. */
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 20000 };

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

static void compute(double us) {
  const double end = now_us() + us;
  while (now_us() < end) {
  }
}

struct Cell {
  double start, wait, whole; /* us, medians of this rank */
  int iterations;
};

static int measure(int count, double compute_us, double budget_us, double tick, struct Cell* cell) {
  static double start[MOST], wait[MOST], whole[MOST];
  double* in = malloc((size_t)count * sizeof *in);
  double* out = malloc((size_t)count * sizeof *out);
  int rank, size, done = 0, wrong = 0, more = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double end = now_us() + budget_us;
  while (more) {
    for (int i = 0; i < 50 && done < MOST; ++i, ++done) {
      for (int k = 0; k < count; ++k) in[k] = rank + done;
      MPI_Request request;
      const double a = now_us();
      MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
      const double b = now_us();
      if (compute_us > 0) compute(compute_us);
      const double c = now_us();
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      const double d = now_us();
      const double expected = (double)size * done + 0.5 * size * (size - 1);
      wrong += out[0] != expected || out[count - 1] != expected;
      start[done] = b - a - tick;
      wait[done] = d - c - tick;
      whole[done] = start[done] + wait[done];
    }
    more = now_us() < end && done < MOST;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  cell->iterations = done;
  cell->start = median(start, done);
  cell->wait = median(wait, done);
  cell->whole = median(whole, done);
  free(in);
  free(out);
  return wrong;
}

static double blocking(int count, double budget_us, double tick, int* wrong) {
  static double all[MOST];
  double* in = malloc((size_t)count * sizeof *in);
  double* out = malloc((size_t)count * sizeof *out);
  int rank, size, done = 0, more = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const double end = now_us() + budget_us;
  while (more) {
    for (int i = 0; i < 50 && done < MOST; ++i, ++done) {
      for (int k = 0; k < count; ++k) in[k] = rank + done;
      const double a = now_us();
      MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      all[done] = now_us() - a - tick;
      *wrong += out[0] != (double)size * done + 0.5 * size * (size - 1);
    }
    more = now_us() < end && done < MOST;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  free(in);
  free(out);
  return median(all, done);
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
  const double tick = clock_us();
  char* sizes = strdup(option(argc, argv, "--sizes", "8"));
  for (char *at, *size = strtok_r(sizes, ",", &at); size; size = strtok_r(NULL, ",", &at)) {
    const int count = atoi(size) / 8;
    struct Cell warm;
    if (count < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    wrong += measure(count, 0, budget * 0.1, tick, &warm);
    const double block = blocking(count, budget, tick, &wrong);
    char* computes = strdup(option(argc, argv, "--compute", "0,100"));
    for (char* in, *c = strtok_r(computes, ",", &in); c; c = strtok_r(NULL, ",", &in)) {
      struct Cell cell;
      wrong += measure(count, atof(c), budget, tick, &cell);
      double mine[4] = {cell.start, cell.wait, cell.whole, block}, most[4];
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
