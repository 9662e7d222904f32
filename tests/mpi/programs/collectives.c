/* Every handled collective in its blocking, non-blocking and (where the MPI has it) persistent
 * form, in place and not, with dense and with derived types, against values that each rank computes
 * itself. */
#include "check.h"

enum form { kBlocking, kNonblocking, kPersistent, kForms };

static int rank, size;
/* Given "served", tutti serves all of it; otherwise the MPI does, and then what it gets wrong by
 * itself is left out: MPICH 5.0.2 and Intel MPI 2021.18 write beyond the buffer in
 * MPI_Reduce_scatter_block with a padded type and an operator that is not commutative; Intel's
 * persistent collectives read buffers when they are made, not when they are started. */
static int served;
static MPI_Comm comm;
static enum form form;

/* Runs one collective in the form under test; a persistent one twice, the buffers reset in between.
 */
#ifdef HAVE_PERSISTENT_COLLECTIVES
#define RUN(reset, name, iname, ...)                           \
  do {                                                         \
    MPI_Request request = MPI_REQUEST_NULL;                    \
    reset;                                                     \
    if (form == kBlocking) {                                   \
      MPI_##name(__VA_ARGS__);                                 \
    } else if (form == kNonblocking) {                         \
      MPI_I##iname(__VA_ARGS__, &request);                     \
      MPI_Wait(&request, MPI_STATUS_IGNORE);                   \
    } else {                                                   \
      MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request); \
      for (int turn = 0; turn < 2; turn++) {                   \
        reset;                                                 \
        MPI_Start(&request);                                   \
        MPI_Wait(&request, MPI_STATUS_IGNORE);                 \
      }                                                        \
      MPI_Request_free(&request);                              \
    }                                                          \
    CHECK(request == MPI_REQUEST_NULL, "%s", #name);           \
  } while (0)
#else
#define RUN(reset, name, iname, ...)         \
  do {                                       \
    MPI_Request request = MPI_REQUEST_NULL;  \
    reset;                                   \
    if (form == kBlocking) {                 \
      MPI_##name(__VA_ARGS__);               \
    } else {                                 \
      MPI_I##iname(__VA_ARGS__, &request);   \
      MPI_Wait(&request, MPI_STATUS_IGNORE); \
    }                                        \
  } while (0)
#endif

static int value(int owner, int block, int i) { return owner * 1000003 + block * 1009 + i * 7 + 1; }

/* A type under test: `stride` ints apart, one int of data each; stride 1 is plain MPI_INT. */
static int stride;
static MPI_Datatype type;

static void make_type(int new_stride) {
  stride = new_stride;
  type = MPI_INT;
  if (stride > 1) {
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)(stride * (int)sizeof(int)), &type);
    MPI_Type_commit(&type);
  }
}

static int* alloc(int elements) {
  size_t bytes = sizeof(int) * (size_t)(elements * stride + 1);
  int* buffer = malloc(bytes);
  memset(buffer, 0xff, bytes);
  return buffer;
}

static void clear(int* buffer, int elements) {
  for (int i = 0; i < elements * stride + 1; i++) buffer[i] = -1;
}

static void fill(int* buffer, int owner, int block, int elements) {
  for (int i = 0; i < elements; i++) buffer[i * stride] = value(owner, block, i);
}

/* Compares, and looks whether the gaps are untouched. */
static void expect(const char* what, const int* buffer, int owner, int block, int elements) {
  for (int i = 0; i < elements; i++) {
    if (buffer[i * stride] != value(owner, block, i)) {
      CHECK(0, "%s form %d stride %d: element %d of %d is %d, not %d", what, form, stride, i,
            elements, buffer[i * stride], value(owner, block, i));
      return;
    }
    for (int gap = 1; gap < stride; gap++) {
      if (buffer[i * stride + gap] != -1) {
        CHECK(0, "%s form %d: gap %d of element %d was written", what, form, gap, i);
        return;
      }
    }
  }
}

static void test_bcast(int n, int root) {
  int* buffer = alloc(n);
  RUN((clear(buffer, n), rank == root ? fill(buffer, root, 5, n) : (void)0), Bcast, bcast, buffer,
      n, type, root, comm);
  expect("bcast", buffer, root, 5, n);
  free(buffer);
}

static void test_allgather(int n, int in_place) {
  int* send = alloc(n);
  int* recv = alloc(n * size);
  fill(send, rank, 2, n);
  RUN((clear(recv, n * size), in_place ? fill(recv + rank * n * stride, rank, 2, n) : (void)0),
      Allgather, allgather, in_place ? MPI_IN_PLACE : send, n, type, recv, n, type, comm);
  for (int r = 0; r < size; r++) expect("allgather", recv + r * n * stride, r, 2, n);
  free(send);
  free(recv);
}

static void test_allgatherv(int n, int in_place) {
  int* counts = malloc(sizeof(int) * (size_t)size);
  int* displs = malloc(sizeof(int) * (size_t)size);
  int total = 0;
  for (int r = size - 1; r >= 0; r--) { /* blocks in reverse order, with gaps */
    counts[r] = n == 0 ? 0 : n + r;
    displs[r] = total;
    total += counts[r] + 1;
  }
  int* send = alloc(counts[rank]);
  int* recv = alloc(total);
  fill(send, rank, 3, counts[rank]);
  RUN((clear(recv, total),
       in_place ? fill(recv + displs[rank] * stride, rank, 3, counts[rank]) : (void)0),
      Allgatherv, allgatherv, in_place ? MPI_IN_PLACE : send, counts[rank], type, recv, counts,
      displs, type, comm);
  for (int r = 0; r < size; r++) {
    expect("allgatherv", recv + displs[r] * stride, r, 3, counts[r]);
    CHECK(recv[(displs[r] + counts[r]) * stride] == -1, "allgatherv wrote between blocks");
  }
  free(send);
  free(recv);
  free(counts);
  free(displs);
}

static void test_gather(int n, int root, int in_place) {
  int own = in_place && rank == root;
  int* send = alloc(n);
  int* recv = alloc(n * size);
  fill(send, rank, 4, n);
  RUN((clear(recv, n * size), own ? fill(recv + rank * n * stride, rank, 4, n) : (void)0), Gather,
      gather, own ? MPI_IN_PLACE : send, n, type, recv, n, type, root, comm);
  for (int r = 0; r < size && rank == root; r++) expect("gather", recv + r * n * stride, r, 4, n);
  free(send);
  free(recv);
}

static void test_scatter(int n, int root, int in_place) {
  int own = in_place && rank == root;
  int* send = alloc(n * size);
  int* recv = alloc(n);
  for (int r = 0; r < size; r++) fill(send + r * n * stride, root, r, n);
  RUN(clear(recv, n), Scatter, scatter, send, n, type, own ? MPI_IN_PLACE : recv, n, type, root,
      comm);
  if (!own) expect("scatter", recv, root, rank, n);
  for (int r = 0; r < size; r++) expect("scatter source", send + r * n * stride, root, r, n);
  free(send);
  free(recv);
}

static void test_alltoall(int n, int in_place) {
  int* send = alloc(n * size);
  int* recv = alloc(n * size);
  for (int r = 0; r < size; r++) fill(send + r * n * stride, rank, r, n);
  RUN(
      {
        clear(recv, n * size);
        for (int r = 0; r < size && in_place; r++) fill(recv + r * n * stride, rank, r, n);
      },
      Alltoall, alltoall, in_place ? MPI_IN_PLACE : send, n, type, recv, n, type, comm);
  for (int r = 0; r < size; r++) expect("alltoall", recv + r * n * stride, r, rank, n);
  free(send);
  free(recv);
}

/* ---- reductions */

static double term(int owner, int i) { return (double)((owner * 31 + i * 17) % 1000) - 300; }

/* Of the ranks [0, ranks). */
static double sum_of(int ranks, int i) {
  double sum = 0;
  for (int r = 0; r < ranks; r++) sum += term(r, i);
  return sum;
}

/* n * size elements, of which the ranks get blocks of all lengths, some nothing. */
static int listed_blocks(int n, int* counts) {
  int left = n * size;
  for (int r = 0; r < size; r++) {
    counts[r] = r == size - 1 ? left : r % 3 == 1 ? 0 : r % 2 ? left / 2 : left / 3;
    left -= counts[r];
  }
  int begin = 0;
  for (int r = 0; r < rank; r++) begin += counts[r];
  return begin;
}

static void test_reduce_scatter(int n, int in_place, const double* send, double* recv) {
  int* counts = malloc(sizeof(int) * (size_t)size);
  const int begin = listed_blocks(n, counts);
  RUN(for (int i = 0; i < n * size; i++) recv[i] = in_place ? term(rank, i) : -1e9, Reduce_scatter,
      reduce_scatter, in_place ? MPI_IN_PLACE : send, recv, counts, MPI_DOUBLE, MPI_SUM, comm);
  for (int i = 0; i < counts[rank]; i++) {
    const double sum = sum_of(size, begin + i);
    CHECK(recv[i] == sum, "reduce_scatter form %d n %d element %d of %d: %g, not %g", form, n, i,
          counts[rank], recv[i], sum);
    if (recv[i] != sum) break;
  }
  for (int i = counts[rank]; i < n * size && !in_place; i++) {
    CHECK(recv[i] == -1e9, "reduce_scatter form %d n %d wrote behind its block", form, n);
    if (recv[i] != -1e9) break;
  }
  free(counts);
}

static void test_scans(int n, int in_place, const double* send, double* recv) {
#define RESET \
  for (int i = 0; i < n; i++) recv[i] = in_place ? term(rank, i) : -1e9
  for (int exclusive = 0; exclusive < 2; exclusive++) {
    if (exclusive) {
      RUN(RESET, Exscan, exscan, in_place ? MPI_IN_PLACE : send, recv, n, MPI_DOUBLE, MPI_SUM,
          comm);
    } else {
      RUN(RESET, Scan, scan, in_place ? MPI_IN_PLACE : send, recv, n, MPI_DOUBLE, MPI_SUM, comm);
    }
    for (int i = 0; i < n; i++) {
      /* The standard leaves the first rank's undefined, in place unchanged. */
      if (exclusive && rank == 0 && !in_place) break;
      const double sum = exclusive && rank == 0 ? term(0, i) : sum_of(rank + !exclusive, i);
      CHECK(recv[i] == sum, "%s form %d n %d element %d: %g, not %g", exclusive ? "exscan" : "scan",
            form, n, i, recv[i], sum);
      if (recv[i] != sum) break;
    }
  }
#undef RESET
}

static void test_reductions(int n, int root, int in_place) {
  double* send = malloc(sizeof(double) * (size_t)(n * size + 1));
  double* recv = malloc(sizeof(double) * (size_t)(n * size + 1));
  for (int i = 0; i < n * size; i++) send[i] = term(rank, i);
#define RESET \
  for (int i = 0; i < n * size; i++) recv[i] = in_place ? term(rank, i) : -1e9
  RUN(RESET, Allreduce, allreduce, in_place ? MPI_IN_PLACE : send, recv, n, MPI_DOUBLE, MPI_SUM,
      comm);
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int r = 0; r < size; r++) sum += term(r, i);
    CHECK(recv[i] == sum, "allreduce form %d n %d element %d: %g, not %g", form, n, i, recv[i],
          sum);
    if (recv[i] != sum) break;
  }
  int own = in_place && rank == root;
  RUN(RESET, Reduce, reduce, own ? MPI_IN_PLACE : send, recv, n, MPI_DOUBLE, MPI_MAX, root, comm);
  for (int i = 0; i < n && rank == root; i++) {
    double most = term(0, i);
    for (int r = 1; r < size; r++) most = term(r, i) > most ? term(r, i) : most;
    CHECK(recv[i] == most, "reduce form %d n %d element %d: %g, not %g", form, n, i, recv[i], most);
    if (recv[i] != most) break;
  }
  RUN(RESET, Reduce_scatter_block, reduce_scatter_block, in_place ? MPI_IN_PLACE : send, recv, n,
      MPI_DOUBLE, MPI_SUM, comm);
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int r = 0; r < size; r++) sum += term(r, rank * n + i);
    CHECK(recv[i] == sum, "reduce_scatter_block form %d n %d element %d: %g, not %g", form, n, i,
          recv[i], sum);
    if (recv[i] != sum) break;
  }
  test_reduce_scatter(n, in_place, send, recv);
  test_scans(n, in_place, send, recv);
  free(send);
  free(recv);
}

/* 2x2 matrix product: associative, not commutative. */
static void multiply(void* in, void* inout, int* count, MPI_Datatype* datatype) {
  (void)datatype;
  const unsigned* a = in;
  unsigned* b = inout;
  for (int i = 0; i < *count; i++, a += 4, b += 4) {
    unsigned r[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                     a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
    memcpy(b, r, sizeof r);
  }
}

static void matrix(int owner, int i, unsigned* m) {
  m[0] = 1u + (unsigned)(owner * 3 + i) % 5;
  m[1] = (unsigned)(owner + i * 7) % 11;
  m[2] = (unsigned)(owner * 13 + i) % 3;
  m[3] = 2u + (unsigned)owner;
}

/* The same on elements of 4 ints with 2 ints of padding behind. */
static void multiply_padded(void* in, void* inout, int* count, MPI_Datatype* datatype) {
  for (int i = 0; i < *count; i++) {
    int one = 1;
    multiply((unsigned*)in + i * 6, (unsigned*)inout + i * 6, &one, datatype);
  }
}

static void test_user_operator(int n, int root, int padded, int in_place) {
  MPI_Datatype contiguous, element;
  MPI_Op op;
  const int width = padded ? 6 : 4;
  MPI_Type_contiguous(4, MPI_UNSIGNED, &contiguous);
  MPI_Type_create_resized(contiguous, 0, (MPI_Aint)(sizeof(unsigned) * (size_t)width), &element);
  MPI_Type_commit(&element);
  MPI_Op_create(padded ? multiply_padded : multiply, 0, &op);
  unsigned* send = malloc(sizeof(unsigned) * (size_t)(n * size * width + 1));
  unsigned* recv = malloc(sizeof(unsigned) * (size_t)(n * size * width + 1));
  int* counts = malloc(sizeof(int) * (size_t)size);
  const int begin = listed_blocks(n, counts);
  for (int what = 0; what < 6; what++) {
    if (what >= 2 && padded && !served) continue;
    for (int i = 0; i < n * size * width; i++) send[i] = recv[i] = 77;
    for (int i = 0; i < n * size; i++) {
      matrix(rank, i, send + i * width);
      if (in_place) matrix(rank, i, recv + i * width);
    }
    if (what == 0) MPI_Allreduce(in_place ? MPI_IN_PLACE : send, recv, n, element, op, comm);
    if (what == 1) {
      MPI_Reduce(in_place && rank == root ? MPI_IN_PLACE : send, recv, n, element, op, root, comm);
      if (rank != root) continue;
    }
    if (what == 2)
      MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : send, recv, n, element, op, comm);
    if (what == 3)
      MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : send, recv, counts, element, op, comm);
    if (what == 4) MPI_Scan(in_place ? MPI_IN_PLACE : send, recv, n, element, op, comm);
    if (what == 5) MPI_Exscan(in_place ? MPI_IN_PLACE : send, recv, n, element, op, comm);
    const int last = what == 4 ? rank : what == 5 ? rank - 1 : size - 1; /* that is folded */
    if (last < 0) continue;
    for (int i = 0; i < (what == 3 ? counts[rank] : n); i++) {
      unsigned product[4], next[4];
      int where = what == 2 ? rank * n + i : what == 3 ? begin + i : i, one = 1;
      matrix(last, where, product);
      for (int r = last - 1; r >= 0; r--) {
        matrix(r, where, next);
        multiply(next, product, &one, NULL);
      }
      CHECK(memcmp(product, recv + i * width, sizeof product) == 0,
            "user operator, call %d, element %d of %d, padded %d", what, i, n, padded);
      for (int gap = 4; gap < width; gap++) CHECK(recv[i * width + gap] == 77, "gap written");
    }
  }
  free(counts);
  free(send);
  free(recv);
  MPI_Op_free(&op);
  MPI_Type_free(&element);
  MPI_Type_free(&contiguous);
}

/* Ranks describe the same signature differently: odd ranks as one vector, even ones as plain ints.
 */
static void test_different_types(int n) {
  MPI_Datatype vector;
  MPI_Type_vector(n, 1, 3, MPI_INT, &vector);
  MPI_Type_commit(&vector);
  int* plain = malloc(sizeof(int) * (size_t)(3 * n + 1));
  int* all = malloc(sizeof(int) * (size_t)(n * size + 1));
  for (int root = 0; root < size; root++) {
    int odd = rank % 2, step = odd ? 3 : 1;
    for (int i = 0; i < 3 * n; i++) plain[i] = -1;
    for (int i = 0; i < n && rank == root; i++) plain[i * step] = value(root, 9, i);
    if (form == kBlocking) {
      MPI_Bcast(plain, odd ? 1 : n, odd ? vector : MPI_INT, root, comm);
    } else {
      MPI_Request request;
      MPI_Ibcast(plain, odd ? 1 : n, odd ? vector : MPI_INT, root, comm, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < n; i++)
      CHECK(plain[i * step] == value(root, 9, i), "bcast with different types");
    MPI_Gather(plain, odd ? 1 : n, odd ? vector : MPI_INT, all, n, MPI_INT, root, comm);
    for (int i = 0; i < n * size && rank == root; i++) {
      CHECK(all[i] == value(root, 9, i % n), "gather with different types");
    }
  }
  free(plain);
  free(all);
  MPI_Type_free(&vector);
}

static void test_barrier(void) { RUN((void)0, Barrier, barrier, comm); }

static int is_intel(void) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(version, &length);
  return strstr(version, "Intel") != NULL;
}

int main(int argc, char** argv) {
  static const int counts[] = {0, 1, 2, 3, 15, 16, 17, 100, 1000, 4096, 20011, 70000};
  int most = argc > 1 ? atoi(argv[1]) : 70000;
  served = argc > 2 && strcmp(argv[2], "served") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (int f = 0; f < kForms; f++) {
#ifndef HAVE_PERSISTENT_COLLECTIVES
    if (f == kPersistent) continue;
#endif
    if (f == kPersistent && !served && is_intel()) continue;
    form = (enum form)f;
    test_barrier();
    for (size_t c = 0; c < sizeof counts / sizeof counts[0] && counts[c] <= most; c++) {
      const int n = counts[c];
      for (int in_place = 0; in_place < 2; in_place++) {
        test_reductions(n, (int)c % size, in_place);
        if (n <= 1000) test_user_operator(n, (int)c % size, (int)c % 2, in_place);
      }
      for (int s = 1; s <= 3; s += 2) {
        make_type(s);
        test_bcast(n, (int)c % size);
        for (int in_place = 0; in_place < 2; in_place++) {
          test_allgather(n, in_place);
          test_allgatherv(n, in_place);
          test_gather(n, (int)c % size, in_place);
          test_scatter(n, (int)c % size, in_place);
          test_alltoall(n, in_place);
        }
        if (s > 1) MPI_Type_free(&type);
      }
      if (n > 0) test_different_types(n);
    }
  }
  MPI_Comm_free(&comm);
  return finish("collectives");
}
