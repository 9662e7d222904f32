/* A program that wants to be told of floating-point exceptions, by a signal: what is computed inside
 * a call must raise none. Long enough that everything that is tried has been tried. */
#define _GNU_SOURCE
#include <fenv.h>

#include "check.h"

enum { kMost = 100000, kTrips = 1500, kCalls = 2000 };

static int rank, size;
static char* data;

/* Between each two neighbours at once. */
static void go_back_and_forth(int bytes) {
  const int other = rank ^ 1;
  if (other >= size) return;
  for (int trip = 0; trip < kTrips; trip++) {
    if (rank < other) MPI_Send(data, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD);
    MPI_Recv(data, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > other) MPI_Send(data, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD);
  }
}

static void call_collectives(int count, const double* in, double* out, const int* counts,
                             const int* displs) {
  MPI_Request request;
  MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  CHECK(out[0] == 0.5 * size && out[count - 1] == 0.5 * size, "%d doubles: %f", count, out[0]);
  MPI_Bcast(out, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Gatherv(in, count, MPI_DOUBLE, out, counts, displs, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Alltoall(in, count / size, MPI_DOUBLE, out, count / size, MPI_DOUBLE, MPI_COMM_WORLD);
  MPI_Ireduce(in, out, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  data = calloc(kMost, 1);
  feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
  static const int kBytes[] = {8, 4096, 9000, 16384, kMost};
  for (int i = 0; i < 5; i++) go_back_and_forth(kBytes[i]);
  static const int kCounts[] = {16, 4000};
  for (int i = 0; i < 2; i++) {
    const int count = kCounts[i];
    double* in = malloc(sizeof(double) * (size_t)count);
    double* out = malloc(sizeof(double) * (size_t)count * (size_t)size);
    int* counts = malloc(sizeof(int) * (size_t)size);
    int* displs = malloc(sizeof(int) * (size_t)size);
    for (int j = 0; j < count; j++) in[j] = 0.5;
    for (int r = 0; r < size; r++) counts[r] = count, displs[r] = r * count;
    for (int call = 0; call < kCalls; call++) call_collectives(count, in, out, counts, displs);
    free(in);
    free(out);
    free(counts);
    free(displs);
  }
  fedisableexcept(FE_ALL_EXCEPT);
  free(data);
  return finish("traps");
}
