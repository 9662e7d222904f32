/* Multiplies square matrices that are spread over the ranks by rows: a plain MPI program, it knows
 * nothing of tutti.
 *
 *   matmul [N [TIMES]]
 *
 * Every rank holds as many rows of A, of B and of C = A B (those beyond N are zero). It gathers all
 * of B (MPI_Allgather) and multiplies its own rows, TIMES times, with a new A each time, as an
 * iteration would that needs the product for the next step. This is the application by which
 * ALLGATHER-2006 motivates its allgather: the message of a rank shrinks with their number, the
 * matrix does not.
 *
 * The last product is checked by Freivalds' method: C x = A (B x) for a vector x of random signs,
 * which holds for a wrong C with a probability of at most a half; with eight vectors, 1/256. Exit
 * status 1 when it does not hold. Prints the seconds of one multiplication and of its allgather, of
 * the slowest rank. */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { kVectors = 8 };

typedef struct {
  int n, rows, size, rank;
  double *a, *b, *c; /* rows x n, this rank's */
  double* all;       /* size * rows x n: the whole of B */
} Matrices;

static uint64_t g_state;
static uint64_t random_bits(void) { /* splitmix64 */
  uint64_t z = (g_state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static double* zeroes(size_t rows, size_t columns) {
  double* matrix = calloc(rows * columns, sizeof *matrix);
  if (matrix == NULL) {
    fprintf(stderr, "matmul: no memory for %zu x %zu numbers\n", rows, columns);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  return matrix;
}

static void fill(const Matrices* m, double* matrix) {
  for (int row = 0; row < m->rows && m->rank * m->rows + row < m->n; ++row) {
    for (int column = 0; column < m->n; ++column)
      matrix[(size_t)row * (size_t)m->n + (size_t)column] =
          (double)(random_bits() >> 11) * 0x1p-53 - 0.5;
  }
}

/* C = A B for this rank's rows. */
static void multiply(const Matrices* m) {
  const size_t n = (size_t)m->n;
  for (size_t row = 0; row < (size_t)m->rows; ++row) {
    double* out = m->c + row * n;
    for (size_t column = 0; column < n; ++column) out[column] = 0;
    for (size_t k = 0; k < n; ++k) {
      const double factor = m->a[row * n + k];
      const double* line = m->all + k * n;
      for (size_t column = 0; column < n; ++column) out[column] += factor * line[column];
    }
  }
}

/* The product of this rank's rows of `matrix` and x. */
static void apply(const Matrices* m, const double* matrix, const double* x, double* out) {
  for (int row = 0; row < m->rows; ++row) {
    out[row] = 0;
    for (int column = 0; column < m->n; ++column)
      out[row] += matrix[(size_t)row * (size_t)m->n + (size_t)column] * x[column];
  }
}

/* How far C x is from A (B x), at worst, of this rank's rows. */
static double distance(const Matrices* m) {
  double *x = zeroes(1, (size_t)m->n), *part = zeroes(1, (size_t)m->rows),
         *y = zeroes((size_t)m->size, (size_t)m->rows), *left = zeroes(1, (size_t)m->rows),
         *right = zeroes(1, (size_t)m->rows), worst = 0;
  for (int vector = 0; vector < kVectors; ++vector) {
    g_state = (uint64_t)vector; /* equal on all ranks */
    for (int i = 0; i < m->n; ++i) x[i] = random_bits() & 1 ? 1 : -1;
    apply(m, m->b, x, part);
    MPI_Allgather(part, m->rows, MPI_DOUBLE, y, m->rows, MPI_DOUBLE, MPI_COMM_WORLD);
    apply(m, m->a, y, left);
    apply(m, m->c, x, right);
    for (int row = 0; row < m->rows; ++row) worst = fmax(worst, fabs(left[row] - right[row]));
  }
  free(x), free(part), free(y), free(left), free(right);
  return worst;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Matrices m = {.n = argc > 1 ? atoi(argv[1]) : 512};
  const int times = argc > 2 ? atoi(argv[2]) : 10;
  if (m.n < 1 || m.n > 46340 || times < 1) {
    fprintf(stderr, "matmul: expected N from 1 to 46340 and how many times\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &m.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &m.size);
  m.rows = (m.n + m.size - 1) / m.size;
  const size_t n = (size_t)m.n, rows = (size_t)m.rows;
  m.a = zeroes(rows, n), m.b = zeroes(rows, n), m.c = zeroes(rows, n);
  m.all = zeroes(rows * (size_t)m.size, n);
  g_state = (uint64_t)m.rank + 1000;
  fill(&m, m.b);
  double mine[2] = {0, 0}, most[2];
  for (int time = 0; time < times; ++time) {
    fill(&m, m.a);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Allgather(m.b, m.rows * m.n, MPI_DOUBLE, m.all, m.rows * m.n, MPI_DOUBLE, MPI_COMM_WORLD);
    const double gathered = MPI_Wtime();
    multiply(&m);
    mine[0] += (MPI_Wtime() - start) / times;
    mine[1] += (gathered - start) / times;
  }
  MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  double here = distance(&m), worst;
  MPI_Allreduce(&here, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  const int right = worst < 1e-10 * m.n;
  if (m.rank == 0) {
    printf("matmul: %s (%g)\n", right ? "verified" : "WRONG", worst);
    printf("N %d, %d ranks, %zu bytes a rank: seconds %.6f, in MPI_Allgather %.6f\n", m.n, m.size,
           rows * n * sizeof(double), most[0], most[1]);
  }
  free(m.a), free(m.b), free(m.c), free(m.all);
  MPI_Finalize();
  return right ? 0 : 1;
}
