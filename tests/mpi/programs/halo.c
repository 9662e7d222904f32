/* What grid codes do at every step: the outermost layers of a block go to the neighbours' ghost
 * layers, in two and three dimensions, by MPI_Neighbor_alltoallw with a subarray for each face;
 * blocking, begun and awaited, and persistent. The first dimension is periodic, the others end. */
#include "check.h"

enum { kMostDims = 3, kSteps = 6 };

static int rank, size, ndims;
static int dims[kMostDims], periods[kMostDims], coords[kMostDims], inner[kMostDims];
static MPI_Comm grid;

/* A cell by its place in the local block, ghosts included. */
static int cell(const int* at) {
  int index = 0;
  for (int d = 0; d < ndims; d++) index = index * (inner[d] + 2) + at[d];
  return index;
}
static int cells(void) {
  int all = 1;
  for (int d = 0; d < ndims; d++) all *= inner[d] + 2;
  return all;
}
/* What a cell of the whole grid holds; -1 beyond its end. */
static int value_at(const int* at, int step) {
  int value = 0;
  for (int d = 0; d < ndims; d++) {
    const int length = inner[d] * dims[d];
    int place = coords[d] * inner[d] + at[d] - 1;
    if (periods[d]) place = (place + length) % length;
    if (place < 0 || place >= length) return -1;
    value = value * length + place;
  }
  return value * 16 + step;
}

/* Calls visit for all cells. */
static void each_cell(void (*visit)(const int* at, int* cell, int step), int* data, int step) {
  int at[kMostDims] = {0, 0, 0};
  for (;;) {
    visit(at, &data[cell(at)], step);
    int d = ndims - 1;
    while (d >= 0 && ++at[d] == inner[d] + 2) at[d--] = 0;
    if (d < 0) return;
  }
}
static int ghosts_of(const int* at) {
  int ghosts = 0;
  for (int d = 0; d < ndims; d++) ghosts += at[d] == 0 || at[d] == inner[d] + 1;
  return ghosts;
}
static void fill(const int* at, int* place, int step) {
  *place = ghosts_of(at) == 0 ? value_at(at, step) : -1;
}
static void compare(const int* at, int* place, int step) {
  const int wanted = ghosts_of(at) <= 1 ? value_at(at, step) : -1; /* edges are not exchanged */
  CHECK(*place == wanted, "%d dimensions, step %d: (%d, %d, %d) is %d, not %d", ndims, step, at[0],
        at[1], at[2], *place, wanted);
}

static MPI_Datatype face(int dimension, int layer) {
  int whole[kMostDims], part[kMostDims], start[kMostDims];
  for (int d = 0; d < ndims; d++) {
    whole[d] = inner[d] + 2;
    part[d] = d == dimension ? 1 : inner[d];
    start[d] = d == dimension ? layer : 1;
  }
  MPI_Datatype type;
  MPI_Type_create_subarray(ndims, whole, part, start, MPI_ORDER_C, MPI_INT, &type);
  MPI_Type_commit(&type);
  return type;
}

static void run(void) {
  int ones[2 * kMostDims];
  MPI_Aint zeros[2 * kMostDims];
  MPI_Datatype sent[2 * kMostDims], received[2 * kMostDims];
  for (int d = 0; d < ndims; d++) {
    sent[2 * d] = face(d, 1);
    received[2 * d] = face(d, 0);
    sent[2 * d + 1] = face(d, inner[d]);
    received[2 * d + 1] = face(d, inner[d] + 1);
  }
  for (int k = 0; k < 2 * ndims; k++) ones[k] = 1, zeros[k] = 0;
  int* data = malloc((size_t)cells() * sizeof(int));
  MPI_Request again = MPI_REQUEST_NULL, once;
#ifdef HAVE_PERSISTENT_COLLECTIVES
  MPI_Neighbor_alltoallw_init(data, ones, zeros, sent, data, ones, zeros, received, grid,
                              MPI_INFO_NULL, &again);
#endif
  for (int step = 0; step < kSteps; step++) {
    each_cell(fill, data, step);
    if (step % 3 == 0) {
      MPI_Neighbor_alltoallw(data, ones, zeros, sent, data, ones, zeros, received, grid);
    } else if (step % 3 == 1 || again == MPI_REQUEST_NULL) {
      MPI_Ineighbor_alltoallw(data, ones, zeros, sent, data, ones, zeros, received, grid, &once);
      MPI_Wait(&once, MPI_STATUS_IGNORE);
    } else {
      MPI_Start(&again);
      MPI_Wait(&again, MPI_STATUS_IGNORE);
    }
    each_cell(compare, data, step);
  }
  if (again != MPI_REQUEST_NULL) MPI_Request_free(&again);
  for (int k = 0; k < 2 * ndims; k++) {
    MPI_Type_free(&sent[k]);
    MPI_Type_free(&received[k]);
  }
  free(data);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (ndims = 2; ndims <= kMostDims; ndims++) {
    for (int d = 0; d < kMostDims; d++) dims[d] = 0, periods[d] = d == 0, inner[d] = 5 + 3 * d;
    MPI_Dims_create(size, ndims, dims);
    MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, ndims, coords);
    run();
    for (int d = 0; d < ndims; d++) inner[d] *= 30 / ndims; /* larger faces */
    run();
    MPI_Comm_free(&grid);
  }
  return finish("halo");
}
