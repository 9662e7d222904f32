/* Times of a halo exchange: `halo BATCH_MS BATCHES DIMS:EDGE...`. Each rank has a block of EDGE
 * doubles in each of DIMS dimensions, with a layer of ghosts around it, and its faces go to its
 * neighbours' ghosts, described by subarrays. Three ways: Isend and Irecv for each face (hand),
 * MPI_Neighbor_alltoallw (neighbor), and its persistent form (persistent). The ways take turns,
 * a batch each. Rank 0 prints a line for each block and way: microseconds of an exchange in the
 * median batch, of the slowest rank. A word of each face changes before every exchange; all ghosts
 * are compared after every batch. The grid ends in every dimension. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAVE_PERSISTENT_COLLECTIVES 1
#endif

enum { kMostDims = 3, kMostFaces = 2 * kMostDims, kMostBatches = 100, kWays = 3 };

typedef struct {
  int ndims, edge, nfaces;
  int dims[kMostDims], coords[kMostDims];
  int neighbours[kMostFaces]; /* of face 2 d below and of face 2 d + 1 above in dimension d */
  size_t first[kMostFaces];   /* a word of each face */
  MPI_Datatype sent[kMostFaces], received[kMostFaces];
  MPI_Comm grid;
  MPI_Request again;
  double* data;
} Block;

static int rank, size, errors;

/* ---- the block */

static size_t place(const Block* b, const int* at) {
  size_t index = 0;
  for (int d = 0; d < b->ndims; d++) index = index * (size_t)(b->edge + 2) + (size_t)at[d];
  return index;
}

/* What a cell of the whole grid holds. */
static double value_at(const Block* b, const int* at) {
  double value = 0;
  for (int d = 0; d < b->ndims; d++)
    value = value * (b->edge * b->dims[d]) + b->coords[d] * b->edge + at[d] - 1;
  return value;
}

/* Goes through the cells of one layer: the whole block's width in the other dimensions, without
 * their ghosts. */
static void each_of_layer(Block* b, int dimension, int layer,
                          void (*visit)(Block*, const int* at, double* cell)) {
  int at[kMostDims] = {1, 1, 1};
  at[dimension] = layer;
  for (;;) {
    visit(b, at, &b->data[place(b, at)]);
    int d = b->ndims - 1;
    while (d >= 0 && (d == dimension || ++at[d] == b->edge + 1)) {
      if (d != dimension) at[d] = 1;
      d--;
    }
    if (d < 0) return;
  }
}
static void fill(Block* b, const int* at, double* cell) { *cell = value_at(b, at); }
static void spoil(Block* b, const int* at, double* cell) {
  (void)b, (void)at;
  *cell = -1;
}
static void compare(Block* b, const int* at, double* cell) {
  if (*cell != value_at(b, at) && errors++ < 5)
    fprintf(stderr, "rank %d: ghost (%d, %d, %d) is %g, not %g\n", rank, at[0], at[1], at[2], *cell,
            value_at(b, at));
}

static MPI_Datatype face_type(const Block* b, int dimension, int layer) {
  int whole[kMostDims], part[kMostDims], start[kMostDims];
  MPI_Datatype type;
  for (int d = 0; d < b->ndims; d++) {
    whole[d] = b->edge + 2;
    part[d] = d == dimension ? 1 : b->edge;
    start[d] = d == dimension ? layer : 1;
  }
  MPI_Type_create_subarray(b->ndims, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

static const int ones[kMostFaces] = {1, 1, 1, 1, 1, 1};
static const MPI_Aint zeros[kMostFaces];

static void make(Block* b, int ndims, int edge) {
  const int periods[kMostDims] = {0, 0, 0};
  size_t cells = 1;
  memset(b, 0, sizeof *b);
  b->ndims = ndims;
  b->edge = edge;
  b->nfaces = 2 * ndims;
  for (int d = 0; d < ndims; d++) cells *= (size_t)edge + 2;
  b->data = calloc(cells, sizeof(double));
  MPI_Dims_create(size, ndims, b->dims);
  MPI_Cart_create(MPI_COMM_WORLD, ndims, b->dims, periods, 0, &b->grid);
  MPI_Cart_coords(b->grid, rank, ndims, b->coords);
  for (int face = 0; face < b->nfaces; face++) {
    const int d = face / 2, above = face % 2;
    int at[kMostDims] = {1, 1, 1};
    at[d] = above ? edge : 1;
    b->first[face] = place(b, at);
    b->sent[face] = face_type(b, d, above ? edge : 1);
    b->received[face] = face_type(b, d, above ? edge + 1 : 0);
    if (!above) MPI_Cart_shift(b->grid, d, 1, &b->neighbours[face], &b->neighbours[face + 1]);
  }
  b->again = MPI_REQUEST_NULL;
#ifdef HAVE_PERSISTENT_COLLECTIVES
  MPI_Neighbor_alltoallw_init(b->data, ones, zeros, b->sent, b->data, ones, zeros, b->received,
                              b->grid, MPI_INFO_NULL, &b->again);
#endif
}

static void destroy(Block* b) {
  if (b->again != MPI_REQUEST_NULL) MPI_Request_free(&b->again);
  for (int face = 0; face < b->nfaces; face++) {
    MPI_Type_free(&b->sent[face]);
    MPI_Type_free(&b->received[face]);
  }
  MPI_Comm_free(&b->grid);
  free(b->data);
}

/* ---- the ways */

/* What leaves below arrives above. */
static void exchange_by_hand(Block* b) {
  MPI_Request requests[2 * kMostFaces];
  for (int face = 0; face < b->nfaces; face++)
    MPI_Irecv(b->data, 1, b->received[face], b->neighbours[face], face ^ 1, b->grid,
              &requests[face]);
  for (int face = 0; face < b->nfaces; face++)
    MPI_Isend(b->data, 1, b->sent[face], b->neighbours[face], face, b->grid,
              &requests[b->nfaces + face]);
  MPI_Waitall(2 * b->nfaces, requests, MPI_STATUSES_IGNORE);
}
static void exchange_with_neighbours(Block* b) {
  MPI_Neighbor_alltoallw(b->data, ones, zeros, b->sent, b->data, ones, zeros, b->received, b->grid);
}
static void exchange_again(Block* b) {
  MPI_Start(&b->again);
  MPI_Wait(&b->again, MPI_STATUS_IGNORE);
}
static const char* const kNames[kWays] = {"hand", "neighbor", "persistent"};
static void (*const kExchanges[kWays])(Block*) = {exchange_by_hand, exchange_with_neighbours,
                                                  exchange_again};

/* ---- time */

/* Seconds of so many exchanges. A face's word has its value in the last of them. */
static double time_calls(Block* b, int way, int calls) {
  double values[kMostFaces];
  for (int d = 0; d < b->ndims; d++) {
    for (int above = 0; above < 2; above++) {
      each_of_layer(b, d, above ? b->edge : 1, fill);
      each_of_layer(b, d, above ? b->edge + 1 : 0, spoil);
    }
  }
  for (int face = 0; face < b->nfaces; face++) values[face] = b->data[b->first[face]];
  MPI_Barrier(b->grid);
  const double begin = MPI_Wtime();
  for (int left = calls; left-- > 0;) {
    for (int face = 0; face < b->nfaces; face++) b->data[b->first[face]] = values[face] + left;
    kExchanges[way](b);
  }
  const double took = MPI_Wtime() - begin;
  for (int face = 0; face < b->nfaces; face++) {
    if (b->neighbours[face] == MPI_PROC_NULL) continue;
    each_of_layer(b, face / 2, face % 2 ? b->edge + 1 : 0, compare);
  }
  return took;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(int ndims, int edge, double batch_s, int batches) {
  Block b;
  double us[kWays][kMostBatches], once;
  int calls[kWays];
  make(&b, ndims, edge);
  const int ways = b.again == MPI_REQUEST_NULL ? kWays - 1 : kWays;
  for (int way = 0; way < ways; way++) {
    time_calls(&b, way, 20);
    const double warm = time_calls(&b, way, 20) / 20;
    MPI_Allreduce(&warm, &once, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    calls[way] = once <= 0 || batch_s / once > 1e6 ? 1000000 : (int)(batch_s / once) + 1;
  }
  for (int batch = 0; batch < batches; batch++) {
    for (int way = 0; way < ways; way++) {
      const double mine = time_calls(&b, way, calls[way]) * 1e6 / calls[way];
      MPI_Allreduce(&mine, &us[way][batch], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
  }
  for (int way = 0; way < ways && rank == 0; way++) {
    qsort(us[way], (size_t)batches, sizeof us[way][0], ascending);
    printf("halo %d %d %s %.4f\n", ndims, edge, kNames[way], us[way][batches / 2]);
  }
  destroy(&b);
}

int main(int argc, char** argv) {
  int all = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 4) {
    if (rank == 0) fprintf(stderr, "halo BATCH_MS BATCHES DIMS:EDGE...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const int wanted = atoi(argv[2]), batches = wanted < kMostBatches ? wanted : kMostBatches;
  for (int i = 3; i < argc; i++) {
    int ndims = 0, edge = 0;
    if (sscanf(argv[i], "%d:%d", &ndims, &edge) != 2 || ndims < 1 || ndims > kMostDims ||
        edge < 1) {
      if (rank == 0) fprintf(stderr, "halo: DIMS:EDGE, not %s\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    measure(ndims, edge, atof(argv[1]) * 1e-3, batches);
  }
  MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all != 0;
}
