/* Logistic regression by stochastic gradient descent over samples that are spread over the ranks: a
 * plain MPI program that knows nothing of tutti.
 *
 *   sgd [--form blocking|delayed] [--features N] [--batch SAMPLES] [--steps N]
 *
 * In each step every rank forms the gradient of its own batch, the gradients are summed over all
 * ranks, and the weights take a step against the sum. In the blocking form a step waits for its own
 * sum (MPI_Allreduce). In the delayed form the sum of a step is under way while the next gradient
 * is formed, which therefore lacks it (MPI_Iallreduce; Pipe-SGD, Li et al., NeurIPS 2018): what the
 * program computes meanwhile never enters MPI. Rank 0 then does all of it serially; exit status 1
 * when the weights differ or do not classify. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 512 }; /* of each rank */

typedef struct {
  int features, batch, steps, delayed;
} Options;

typedef struct {
  double total_s, sums_s; /* sums: in MPI calls */
} Times;

/* From -1 to 1, the same for the same number. */
static double drawn(unsigned long long number) {
  number = (number + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return (double)(number >> 11) / (double)(1ull << 52) - 1;
}

static void* reserve(size_t count, size_t bytes) {
  void* memory = calloc(count, bytes);
  if (!memory) MPI_Abort(MPI_COMM_WORLD, 2);
  return memory;
}

/* The samples of a rank, `features` values and a label (0 or 1) each. */
static double* make_samples(const Options* options, int rank) {
  const int n = options->features;
  double* samples = reserve((size_t)SAMPLES * (size_t)(n + 1), sizeof *samples);
  for (int i = 0; i < SAMPLES; ++i) {
    double* sample = samples + (size_t)i * (size_t)(n + 1);
    double side = 0;
    for (int j = 0; j < n; ++j) {
      sample[j] = drawn(((unsigned long long)rank * SAMPLES + (unsigned)i) * 4096 + (unsigned)j);
      side += sample[j] * drawn((unsigned long long)j + 1000000007u);
    }
    sample[n] = side > 0;
  }
  return samples;
}

static double predict(const double* sample, const double* weights, int n) {
  double side = 0;
  for (int j = 0; j < n; ++j) side += sample[j] * weights[j];
  return 1 / (1 + exp(-side));
}

/* Adds the gradient of one rank's batch of a step. */
static void add_gradient(const Options* options, const double* samples, const double* weights,
                         int step, double* gradient) {
  const int n = options->features;
  for (int i = 0; i < options->batch; ++i) {
    const int number = (int)(((long)step * options->batch + i) % SAMPLES);
    const double* sample = samples + (size_t)number * (size_t)(n + 1);
    const double error = predict(sample, weights, n) - sample[n];
    for (int j = 0; j < n; ++j) gradient[j] += error * sample[j];
  }
}

static void descend(const Options* options, double* weights, const double* gradient, int ranks) {
  const double rate = 0.5 / ((double)options->batch * ranks);
  for (int j = 0; j < options->features; ++j) weights[j] -= rate * gradient[j];
}

static Times train_blocking(const Options* options, const double* samples, double* weights,
                            int ranks) {
  const int n = options->features;
  double* gradient = reserve((size_t)n, sizeof *gradient);
  Times times = {0, 0};
  const double begin = MPI_Wtime();
  for (int step = 0; step < options->steps; ++step) {
    memset(gradient, 0, (size_t)n * sizeof *gradient);
    add_gradient(options, samples, weights, step, gradient);
    const double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, gradient, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    times.sums_s += MPI_Wtime() - start;
    descend(options, weights, gradient, ranks);
  }
  times.total_s = MPI_Wtime() - begin;
  free(gradient);
  return times;
}

static Times train_delayed(const Options* options, const double* samples, double* weights,
                           int ranks) {
  const int n = options->features;
  double* memory = reserve(4 * (size_t)n, sizeof *memory);
  double *mine[2] = {memory, memory + n}, *sum[2] = {memory + 2 * n, memory + 3 * n};
  MPI_Request request = MPI_REQUEST_NULL;
  Times times = {0, 0};
  const double begin = MPI_Wtime();
  for (int step = 0; step <= options->steps; ++step) {
    const int now = step % 2;
    if (step < options->steps) {
      memset(mine[now], 0, (size_t)n * sizeof **mine);
      add_gradient(options, samples, weights, step, mine[now]);
    }
    const double start = MPI_Wtime();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (step < options->steps)
      MPI_Iallreduce(mine[now], sum[now], n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    times.sums_s += MPI_Wtime() - start;
    if (step > 0) descend(options, weights, sum[1 - now], ranks);
  }
  times.total_s = MPI_Wtime() - begin;
  free(memory);
  return times;
}

/* The same by one process. */
static void train_serially(const Options* options, double* weights, int ranks) {
  const int n = options->features;
  double** samples = reserve((size_t)ranks, sizeof *samples);
  double* memory = reserve(2 * (size_t)n, sizeof *memory);
  for (int rank = 0; rank < ranks; ++rank) samples[rank] = make_samples(options, rank);
  for (int step = 0; step <= options->steps; ++step) {
    double* gradient = memory + (step % 2) * n;
    memset(gradient, 0, (size_t)n * sizeof *gradient);
    for (int rank = 0; step < options->steps && rank < ranks; ++rank)
      add_gradient(options, samples[rank], weights, step, gradient);
    if (!options->delayed) descend(options, weights, gradient, ranks);
    if (options->delayed && step > 0) descend(options, weights, memory + (1 - step % 2) * n, ranks);
  }
  for (int rank = 0; rank < ranks; ++rank) free(samples[rank]);
  free(samples);
  free(memory);
}

/* Whether the weights are those of the serial descent, and tell most samples apart. */
static int is_right(const Options* options, const double* samples, const double* weights,
                    int ranks) {
  double* serial = reserve((size_t)options->features, sizeof *serial);
  train_serially(options, serial, ranks);
  double difference = 0, largest = 0;
  for (int j = 0; j < options->features; ++j) {
    difference = fmax(difference, fabs(weights[j] - serial[j]));
    largest = fmax(largest, fabs(serial[j]));
  }
  free(serial);
  int right = 0;
  for (int i = 0; i < SAMPLES; ++i) {
    const double* sample = samples + (size_t)i * (size_t)(options->features + 1);
    right += (predict(sample, weights, options->features) > 0.5) == (sample[options->features] > 0);
  }
  printf("difference from the serial descent %.1e, %.1f %% of rank 0's samples told apart: ",
         difference / largest, 100.0 * right / SAMPLES);
  return difference <= 1e-9 * largest && right > 0.9 * SAMPLES;
}

/* Returns 0 for a command line that cannot be read. */
static int parse(int argc, char** argv, Options* options) {
  *options = (Options){.features = 32, .batch = 64, .steps = 2000};
  for (int i = 1; i + 1 < argc; i += 2) {
    const int value = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--features") == 0)
      options->features = value;
    else if (strcmp(argv[i], "--batch") == 0)
      options->batch = value;
    else if (strcmp(argv[i], "--steps") == 0)
      options->steps = value;
    else if (strcmp(argv[i], "--form") == 0)
      options->delayed = argv[i + 1][0] == 'd';
    else
      return 0;
  }
  return argc % 2 == 1 && options->features > 0 && options->features <= 4096 &&
         options->batch > 0 && options->steps > 0;
}

static int run(const Options* options, int rank, int ranks) {
  double* samples = make_samples(options, rank);
  double* weights = reserve((size_t)options->features, sizeof *weights);
  int right = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  const Times mine =
      (options->delayed ? train_delayed : train_blocking)(options, samples, weights, ranks);
  Times slowest = mine;
  MPI_Reduce(&mine, &slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    right = is_right(options, samples, weights, ranks);
    printf("%s\n%.2f us a step, of which %.2f us in sums, %d ranks\n", right ? "right" : "WRONG",
           1e6 * slowest.total_s / options->steps, 1e6 * slowest.sums_s / options->steps, ranks);
  }
  free(samples);
  free(weights);
  return right ? 0 : 1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, status = 2;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Options options;
  if (parse(argc, argv, &options)) {
    status = run(&options, rank, ranks);
  } else if (rank == 0) {
    fprintf(stderr,
            "usage: sgd [--form blocking|delayed] [--features N] [--batch SAMPLES] [--steps N]\n");
  }
  MPI_Finalize();
  return status;
}
