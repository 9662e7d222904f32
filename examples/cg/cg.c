/* Solves the Poisson equation on a square with the conjugate-gradient method: a plain MPI program
 * that knows nothing of tutti.
 *
 *   cg [--side POINTS] [--seconds TIME] [--solves N] [--form blocking|pipelined] [--json FILE]
 *
 * -laplace(u) = f on the unit square, u = 0 on its border, five-point differences; f is chosen such
 * that u(x, y) = x (1-x) e^x y (1-y) e^y is the solution, so the answer can be checked. Every rank
 * holds a band of rows. Each iteration exchanges one row with each neighbour (MPI_Sendrecv) and
 * sums two scalars over all ranks (MPI_Allreduce): where a problem is spread over many ranks, those
 * sums are what it waits for. In the pipelined form (Ghysels and Vanroose, Parallel Computing 40,
 * 2014) there is one sum of two scalars (MPI_Iallreduce) in an iteration, which is under way while
 * rows are exchanged and the operator is applied. Solves again until TIME is over and N solves are
 * done, to have something to measure; times are those of one solve. Exit status 1 when the answer
 * is wrong. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the residual, relative to the right-hand side: more than b - A x is exact to on large grids.
 */
static const double kTolerance = 1e-8;
static const int kReplaceEvery = 50; /* iterations of the pipelined form */

typedef struct {
  int side;               /* interior points per side */
  int rows;               /* of this rank */
  int first;              /* global index of the first of them */
  int rank, above, below; /* neighbours, or MPI_PROC_NULL */
  MPI_Comm comm;
} Grid;

typedef struct {
  double allreduce_s, exchange_s, total_s;
  long allreduces;
} Times;

static Grid make_grid(int side, MPI_Comm comm) {
  Grid grid = {.side = side, .comm = comm};
  int size;
  MPI_Comm_rank(comm, &grid.rank);
  MPI_Comm_size(comm, &size);
  const int base = side / size, longer = side % size;
  grid.rows = base + (grid.rank < longer);
  grid.first = grid.rank * base + (grid.rank < longer ? grid.rank : longer);
  grid.above = grid.rank > 0 ? grid.rank - 1 : MPI_PROC_NULL;
  grid.below = grid.rank < size - 1 ? grid.rank + 1 : MPI_PROC_NULL;
  return grid;
}

/* A band of rows with one more above and below, for the neighbours' values; zero. */
static double* make_band(const Grid* grid) {
  double* band = calloc((size_t)(grid->rows + 2) * (size_t)grid->side, sizeof *band);
  if (!band) MPI_Abort(grid->comm, 2);
  return band;
}

static size_t cells(const Grid* grid) { return (size_t)grid->rows * (size_t)grid->side; }
static double* inner(const Grid* grid, double* band) { return band + grid->side; }

static double sum_over_ranks(double mine, const Grid* grid, Times* times) {
  double all;
  const double start = MPI_Wtime();
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, grid->comm);
  times->allreduce_s += MPI_Wtime() - start;
  ++times->allreduces;
  return all;
}

static double dot(const double* a, const double* b, const Grid* grid, Times* times) {
  double sum = 0;
  for (size_t i = 0; i < cells(grid); ++i) sum += a[i] * b[i];
  return sum_over_ranks(sum, grid, times);
}

static void exchange(double* band, const Grid* grid, Times* times) {
  const int side = grid->side;
  double* rows = inner(grid, band);
  const double start = MPI_Wtime();
  MPI_Sendrecv(rows, side, MPI_DOUBLE, grid->above, 0, rows + cells(grid), side, MPI_DOUBLE,
               grid->below, 0, grid->comm, MPI_STATUS_IGNORE);
  MPI_Sendrecv(rows + cells(grid) - side, side, MPI_DOUBLE, grid->below, 1, band, side, MPI_DOUBLE,
               grid->above, 1, grid->comm, MPI_STATUS_IGNORE);
  times->exchange_s += MPI_Wtime() - start;
}

/* out = A in, with A the five-point Laplacian times -h^2. */
static void apply(double* in, double* out, const Grid* grid, Times* times) {
  exchange(in, grid, times);
  const int side = grid->side;
  for (int row = 1; row <= grid->rows; ++row) {
    const double* middle = in + (size_t)row * side;
    double* result = out + (size_t)(row - 1) * side;
    for (int column = 0; column < side; ++column) {
      const double left = column > 0 ? middle[column - 1] : 0;
      const double right = column < side - 1 ? middle[column + 1] : 0;
      result[column] =
          4 * middle[column] - left - right - middle[column - side] - middle[column + side];
    }
  }
}

/* One factor of the solution, and its second derivative. */
static double factor(double t) { return t * (1 - t) * exp(t); }
static double factor_second(double t) { return -t * (t + 3) * exp(t); }

static double solution(const Grid* grid, int row, int column) {
  const double h = 1.0 / (grid->side + 1);
  return factor((grid->first + row + 1) * h) * factor((column + 1) * h);
}

static double right_hand_side(const Grid* grid, int row, int column) {
  const double h = 1.0 / (grid->side + 1);
  const double y = (grid->first + row + 1) * h, x = (column + 1) * h;
  return -(factor_second(x) * factor(y) + factor(x) * factor_second(y));
}

/* h^2 times the right-hand side: the residual of x = 0. */
static void first_residual(const Grid* grid, double* residual) {
  const double h = 1.0 / (grid->side + 1);
  for (int row = 0; row < grid->rows; ++row) {
    for (int column = 0; column < grid->side; ++column) {
      residual[(size_t)row * grid->side + column] = h * h * right_hand_side(grid, row, column);
    }
  }
}

static int most_iterations(const Grid* grid) { return 20 * grid->side + 20; }

/* Conjugate gradients from x = 0; returns the number of iterations, and the final relative
 * residual. */
static int solve(double* x, const Grid* grid, Times* times, double* relative) {
  double* direction = make_band(grid);
  double* residual = malloc(cells(grid) * sizeof *residual);
  double* product = malloc(cells(grid) * sizeof *product);
  if (!residual || !product) MPI_Abort(grid->comm, 2);
  first_residual(grid, residual);
  double* p = inner(grid, direction);
  memcpy(p, residual, cells(grid) * sizeof *p);
  double square = dot(residual, residual, grid, times);
  const double first = square;
  int iteration = 0;
  while (sqrt(square / first) > kTolerance && iteration < most_iterations(grid)) {
    apply(direction, product, grid, times);
    const double alpha = square / dot(p, product, grid, times);
    for (size_t i = 0; i < cells(grid); ++i) {
      x[i] += alpha * p[i];
      residual[i] -= alpha * product[i];
    }
    const double next = dot(residual, residual, grid, times);
    const double beta = next / square;
    for (size_t i = 0; i < cells(grid); ++i) p[i] = residual[i] + beta * p[i];
    square = next;
    ++iteration;
  }
  *relative = sqrt(square / first);
  free(direction);
  free(residual);
  free(product);
  return iteration;
}

/* The vectors of the pipelined form: w = A r, s = A p, z = A s, q = A w; w and the band have the
 * neighbours' rows. */
typedef struct {
  double *r, *w, *p, *s, *z, *q;
  double *right, *band;
} Vectors;

/* (r, r) and (w, r), summed over all ranks while q = A w is formed. */
static void start_and_apply(Vectors* v, const Grid* grid, Times* times, double sums[2]) {
  const double* w = inner(grid, v->w);
  double mine[2] = {0, 0};
  for (size_t i = 0; i < cells(grid); ++i) {
    mine[0] += v->r[i] * v->r[i];
    mine[1] += w[i] * v->r[i];
  }
  MPI_Request request;
  double start = MPI_Wtime();
  MPI_Iallreduce(mine, sums, 2, MPI_DOUBLE, MPI_SUM, grid->comm, &request);
  times->allreduce_s += MPI_Wtime() - start;
  apply(v->w, v->q, grid, times);
  start = MPI_Wtime();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  times->allreduce_s += MPI_Wtime() - start;
  ++times->allreduces;
}

static void step(Vectors* v, const Grid* grid, double* x, double alpha, double beta) {
  double* w = inner(grid, v->w);
  for (size_t i = 0; i < cells(grid); ++i) {
    v->z[i] = v->q[i] + beta * v->z[i];
    v->s[i] = w[i] + beta * v->s[i];
    v->p[i] = v->r[i] + beta * v->p[i];
    x[i] += alpha * v->p[i];
    v->r[i] -= alpha * v->s[i];
    w[i] -= alpha * v->z[i];
  }
}

static Vectors make_vectors(const Grid* grid) {
  const size_t n = cells(grid);
  double* memory = calloc(6 * n, sizeof *memory);
  if (!memory) MPI_Abort(grid->comm, 2);
  const Vectors v = {memory,         make_band(grid), memory + n,     memory + 2 * n,
                     memory + 3 * n, memory + 4 * n,  memory + 5 * n, make_band(grid)};
  first_residual(grid, v.right);
  memcpy(v.r, v.right, n * sizeof *v.r);
  return v;
}

static void free_vectors(Vectors* v) {
  free(v->w);
  free(v->band);
  free(v->r);
}

/* out = A in, for vectors without the neighbours' rows. */
static void apply_to(const double* in, double* out, const Vectors* v, const Grid* grid,
                     Times* times) {
  memcpy(inner(grid, v->band), in, cells(grid) * sizeof *in);
  apply(v->band, out, grid, times);
}

/* The recurrences drift from what they stand for, the more the larger the grid, and would never
 * reach the tolerance: now and then each vector is computed anew from x and p (residual
 * replacement, section 4 of the paper). */
static void replace(Vectors* v, const double* x, const Grid* grid, Times* times) {
  apply_to(x, v->r, v, grid, times);
  for (size_t i = 0; i < cells(grid); ++i) v->r[i] = v->right[i] - v->r[i];
  apply_to(v->r, inner(grid, v->w), v, grid, times);
  apply_to(v->p, v->s, v, grid, times);
  apply_to(v->s, v->z, v, grid, times);
}

/* The pipelined form of solve(). */
static int solve_pipelined(double* x, const Grid* grid, Times* times, double* relative) {
  Vectors v = make_vectors(grid);
  apply_to(v.r, inner(grid, v.w), &v, grid, times);
  double first = 0, before = 1, alpha = 0, sums[2];
  int iteration = 0;
  for (;; ++iteration) {
    if (iteration > 0 && iteration % kReplaceEvery == 0) replace(&v, x, grid, times);
    start_and_apply(&v, grid, times, sums);
    if (iteration == 0) first = before = sums[0];
    if (sqrt(sums[0] / first) <= kTolerance || iteration == most_iterations(grid)) break;
    const double beta = iteration == 0 ? 0 : sums[0] / before;
    alpha = sums[0] / (iteration == 0 ? sums[1] : sums[1] - beta * sums[0] / alpha);
    before = sums[0];
    step(&v, grid, x, alpha, beta);
  }
  *relative = sqrt(sums[0] / first);
  free_vectors(&v);
  return iteration;
}

static double largest_error(const double* x, const Grid* grid) {
  double mine = 0, all;
  for (int row = 0; row < grid->rows; ++row) {
    for (int column = 0; column < grid->side; ++column) {
      mine = fmax(mine, fabs(x[(size_t)row * grid->side + column] - solution(grid, row, column)));
    }
  }
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, grid->comm);
  return all;
}

static void write_json(const char* name, const Grid* grid, int size, int iterations,
                       double residual, double error, const Times* times) {
  FILE* file = fopen(name, "w");
  if (!file) {
    fprintf(stderr, "cg: cannot write %s\n", name);
    MPI_Abort(grid->comm, 2);
    return;
  }
  fprintf(file,
          "{\"ranks\": %d, \"side\": %d, \"iterations\": %d, \"residual\": %.3e, \"error\": %.3e, "
          "\"total_s\": %.6f, \"allreduce_s\": %.6f, \"exchange_s\": %.6f, \"allreduces\": %ld}\n",
          size, grid->side, iterations, residual, error, times->total_s, times->allreduce_s,
          times->exchange_s, times->allreduces);
  fclose(file);
}

typedef struct {
  int side;
  double seconds;
  int solves; /* at least */
  int pipelined;
  const char* json;
} Options;

/* Returns 0 for a command line that cannot be read. */
static int parse(int argc, char** argv, Options* options) {
  *options = (Options){.side = 256};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return 0;
    if (strcmp(argv[i], "--side") == 0) {
      options->side = atoi(argv[i + 1]);
    } else if (strcmp(argv[i], "--seconds") == 0) {
      options->seconds = atof(argv[i + 1]);
    } else if (strcmp(argv[i], "--solves") == 0) {
      options->solves = atoi(argv[i + 1]);
    } else if (strcmp(argv[i], "--form") == 0) {
      options->pipelined = strcmp(argv[i + 1], "pipelined") == 0;
      if (!options->pipelined && strcmp(argv[i + 1], "blocking") != 0) return 0;
    } else if (strcmp(argv[i], "--json") == 0) {
      options->json = argv[i + 1];
    } else {
      return 0;
    }
  }
  return options->side > 0;
}

/* Whether to solve once more: rank 0's clock decides for all. */
static int again(double start, double seconds, MPI_Comm comm) {
  int more = MPI_Wtime() - start < seconds;
  MPI_Bcast(&more, 1, MPI_INT, 0, comm);
  return more;
}

static void per_solve(Times* times, int solves) {
  times->total_s /= solves;
  times->allreduce_s /= solves;
  times->exchange_s /= solves;
  times->allreduces /= solves;
}

/* Solves, checks and reports; returns the exit status. */
static int run(const Options* options, const Grid* grid, int size) {
  Times times = {0}, slowest;
  double residual = 0;
  int iterations = 0, solves = 0;
  double* x = calloc(cells(grid), sizeof *x);
  if (!x) MPI_Abort(grid->comm, 2);
  MPI_Barrier(grid->comm);
  const double first = MPI_Wtime();
  do {
    memset(x, 0, cells(grid) * sizeof *x);
    const double start = MPI_Wtime();
    iterations = (options->pipelined ? solve_pipelined : solve)(x, grid, &times, &residual);
    times.total_s += MPI_Wtime() - start;
    ++solves;
  } while (solves < options->solves || again(first, options->seconds, grid->comm));
  per_solve(&times, solves);
  const double error = largest_error(x, grid);
  free(x);
  slowest = times;
  MPI_Reduce(&times.allreduce_s, &slowest.allreduce_s, 3, MPI_DOUBLE, MPI_MAX, 0, grid->comm);

  /* Five-point differences are of second order; the constant for this solution is below 1. */
  const double h = 1.0 / (grid->side + 1);
  const int right = residual <= kTolerance && error <= h * h;
  if (grid->rank == 0) {
    printf("%d x %d points, %d ranks: residual %.2e after %d iterations, largest error %.2e: %s\n",
           grid->side, grid->side, size, residual, iterations, error, right ? "right" : "WRONG");
    printf(
        "%.4f s a solve, of which %.4f s in %ld sums over all ranks (%.2f us each), %.4f s with "
        "neighbours\n",
        slowest.total_s, slowest.allreduce_s, times.allreduces,
        1e6 * slowest.allreduce_s / (double)times.allreduces, slowest.exchange_s);
    if (options->json) write_json(options->json, grid, size, iterations, residual, error, &slowest);
  }
  return right ? 0 : 1;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size, status = 2;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Options options;
  const int readable = parse(argc, argv, &options);
  const Grid grid = make_grid(options.side, MPI_COMM_WORLD);
  if (readable && options.side >= size) {
    status = run(&options, &grid, size);
  } else if (grid.rank == 0) {
    fprintf(stderr,
            "usage: cg [--side POINTS] [--seconds TIME] [--solves N] [--form blocking|pipelined] "
            "[--json FILE], POINTS at least %d\n",
            size);
  }
  MPI_Finalize();
  return status;
}
