/* Heat in a box whose planes are divided among the ranks: a plain MPI program that knows nothing of
 * tutti.
 *
 *   mpicc -O2 examples/stencil/stencil.c -o stencil -lm
 *   mpiexec -n 2 ./stencil [--edge N] [--planes N] [--steps N] [--out FILE]
 *
 * Every rank has `planes` planes of edge x edge points. In each step (Jacobi) it begins to exchange
 * its outermost planes with its neighbours, computes all points that need none of theirs, waits for
 * the messages and computes the rest. So it takes no longer than the computation if the messages
 * pass meanwhile. The temperature begins as a product of sines, which each step makes smaller by a
 * factor that is known: every rank compares its points with that; exit status 1 where they differ.
 * Rank 0 prints, and appends to FILE as a line of JSON, the time of all steps and how much of it
 * was spent waiting (means of the ranks). Between nodes tutti takes over its messages where
 * TUTTI_P2P=1 says so. */
#include <errno.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int edge, planes, steps;
  const char* out;
} Options;

typedef struct {
  double total_s, wait_s;
} Times;

static const double kPi = 3.14159265358979323846;
static const double kDiffusion = 1.0 / 8;

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
  Options options = {128, 32, 20, NULL};
  for (int i = 1; i < argc; i += 2) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    int good = 0;
    if (strcmp(name, "--edge") == 0) good = is_number(value, 1, 4000, &options.edge);
    if (strcmp(name, "--planes") == 0) good = is_number(value, 2, 100000, &options.planes);
    if (strcmp(name, "--steps") == 0) good = is_number(value, 1, 1000000, &options.steps);
    if (strcmp(name, "--out") == 0 && *value != '\0') good = 1, options.out = value;
    if (good) continue;
    fprintf(stderr,
            "stencil: %s %s: expected --edge 1 to 4000, --planes 2 to 100000, --steps 1 to 1000000 "
            "or --out FILE\n",
            name, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return options;
}

/* A plane with its border of zeros. */
static size_t plane_points(const Options* options) {
  return (size_t)(options->edge + 2) * (size_t)(options->edge + 2);
}

static double sine(int place, int points) { return sin(kPi * place / (points + 1)); }

/* The sines along both edges of a plane: what is the same in all planes. */
static void fill_plane(const Options* options, double* plane, double factor) {
  const int n = options->edge;
  for (int j = 1; j <= n; ++j)
    for (int i = 1; i <= n; ++i)
      plane[(size_t)j * (size_t)(n + 2) + (size_t)i] = factor * sine(i, n) * sine(j, n);
}

static void step_plane(const Options* options, const double* in, double* out) {
  const size_t n = (size_t)options->edge, row = n + 2, plane = row * row;
  for (size_t j = 1; j <= n; ++j) {
    const double *here = in + j * row, *below = here - plane, *above = here + plane;
    for (size_t i = 1; i <= n; ++i)
      out[j * row + i] = here[i] + kDiffusion * (here[i - 1] + here[i + 1] + here[i - row] +
                                                 here[i + row] + below[i] + above[i] - 6 * here[i]);
  }
}

/* One step from `in` to `out`; planes 0 and planes + 1 are the neighbours'. Seconds of waiting. */
static double step(const Options* options, double* in, double* out, int below, int above) {
  const size_t plane = plane_points(options), last = (size_t)options->planes;
  const int count = (int)plane;
  MPI_Request requests[4];
  MPI_Irecv(in, count, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(in + (last + 1) * plane, count, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(in + plane, count, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(in + last * plane, count, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[3]);
  for (size_t k = 2; k < last; ++k) step_plane(options, in + k * plane, out + k * plane);
  const double begin = MPI_Wtime();
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  const double waited = MPI_Wtime() - begin;
  step_plane(options, in + plane, out + plane);
  step_plane(options, in + last * plane, out + last * plane);
  return waited;
}

/* What all steps together make of the temperature. */
static double factor_of(const Options* options, int ranks) {
  const int n = options->edge, all = options->planes * ranks;
  return pow(1 - 2 * kDiffusion * (3 - 2 * cos(kPi / (n + 1)) - cos(kPi / (all + 1))),
             options->steps);
}

/* The largest difference from what is known, as a part of the largest value. */
static double difference(const Options* options, const double* field, int rank, int ranks) {
  const int n = options->edge, planes = options->planes, all = planes * ranks;
  const double factor = factor_of(options, ranks);
  double largest = 0;
  for (int k = 1; k <= planes; ++k) {
    const double across = sine(rank * planes + k, all);
    for (int j = 1; j <= n; ++j)
      for (int i = 1; i <= n; ++i) {
        const size_t place = (size_t)k * plane_points(options) + (size_t)j * (size_t)(n + 2);
        const double wanted = factor * across * sine(i, n) * sine(j, n);
        const double differs = fabs(field[place + (size_t)i] - wanted);
        if (!(differs <= largest)) largest = differs;
      }
  }
  return largest / factor;
}

static void report(const Options* options, Times mean, double differs) {
  printf("stencil: %s, %.3f s for %d steps, %.3f s of them waiting\n",
         differs < 1e-9 ? "verified" : "WRONG", mean.total_s, options->steps, mean.wait_s);
  if (options->out == NULL) return;
  FILE* file = fopen(options->out, "a");
  if (file == NULL) {
    perror(options->out);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  fprintf(file, "{\"program\": \"stencil\", \"seconds\": %.6f, \"wait_s\": %.6f}\n", mean.total_s,
          mean.wait_s);
  fclose(file);
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Options options = parse(argc, argv);
  if (factor_of(&options, ranks) < 1e-200) {
    fprintf(stderr, "stencil: nothing is left to compare after so many steps: take fewer\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const size_t plane = plane_points(&options), points = (size_t)(options.planes + 2) * plane;
  double* fields[2] = {calloc(points, sizeof(double)), calloc(points, sizeof(double))};
  if (fields[0] == NULL || fields[1] == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int k = 1; k <= options.planes; ++k)
    fill_plane(&options, fields[0] + (size_t)k * plane,
               sine(rank * options.planes + k, options.planes * ranks));
  const int below = rank > 0 ? rank - 1 : MPI_PROC_NULL;
  const int above = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  MPI_Barrier(MPI_COMM_WORLD);
  Times times = {MPI_Wtime(), 0}, mean = {0, 0};
  for (int s = 0; s < options.steps; ++s)
    times.wait_s += step(&options, fields[s % 2], fields[(s + 1) % 2], below, above);
  times.total_s = MPI_Wtime() - times.total_s;
  const double mine = difference(&options, fields[options.steps % 2], rank, ranks);
  double differs = 0;
  MPI_Allreduce(&mine, &differs, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Reduce(&times, &mean, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  mean.total_s /= ranks;
  mean.wait_s /= ranks;
  if (rank == 0) report(&options, mean, differs);
  free(fields[0]);
  free(fields[1]);
  MPI_Finalize();
  return differs < 1e-9 ? 0 : 1;
}
