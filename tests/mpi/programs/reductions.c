/* Every predefined operator on every predefined type that the MPI has: MPI_Allreduce and MPI_Reduce
 * must give what MPI_Reduce_local gives in rank order, or the same error class on all ranks. */
#include "check.h"

enum { kElements = 37, kMostBytes = 64 * kElements };

static int rank, size;

/* What MPI defines: C integers, Fortran and address integers (n), floating point, logical, complex,
 * byte, pairs (MPI-4.1 section 6.9.2). */
struct named_type {
  const char* name;
  MPI_Datatype type;
  char kind;
};
struct named_op {
  const char* name;
  MPI_Op op;
  const char* kinds;
};

/* Bytes of an element that hold a value: x86's long double has six bytes of padding. */
static int same(const char* name, const char* a, const char* b, size_t extent) {
  if (sizeof(long double) != 16 || strstr(name, "LONG_DOUBLE") == NULL)
    return memcmp(a, b, extent) == 0;
  size_t second = strstr(name, "COMPLEX") != NULL ? 10 : extent > 16 ? 4 : 0;
  return memcmp(a, b, 10) == 0 && memcmp(a + 16, b + 16, second) == 0;
}

/* Small numbers that are exact in every type, different on each rank. */
static void fill(const char* name, void* buffer, int owner, int type_size, MPI_Aint extent) {
  unsigned char* bytes = buffer;
  memset(bytes, 0, kMostBytes);
  for (int i = 0; i < kElements; i++) {
    unsigned char* at = bytes + i * extent;
    int value = 1 + (owner * 5 + i * 3) % 4;
#define PUT(c_type, count)                             \
  do {                                                 \
    for (int k = 0; k < (count); k++) {                \
      c_type x = (c_type)(value + k);                  \
      memcpy(at + (size_t)k * sizeof x, &x, sizeof x); \
    }                                                  \
  } while (0)
#define HAS(text) (strstr(name, text) != NULL)
    if (HAS("2REAL"))
      PUT(float, 2);
    else if (HAS("2DOUBLE_PRECISION"))
      PUT(double, 2);
    else if (HAS("2IN"))
      PUT(int, 2);
    else if (HAS("LONG_DOUBLE_INT")) {
      long double x = value;
      int n = owner;
      memcpy(at, &x, sizeof x);
      memcpy(at + sizeof x, &n, sizeof n);
    } else if (HAS("DOUBLE_INT")) {
      double x = value;
      int n = owner;
      memcpy(at, &x, sizeof x);
      memcpy(at + 8, &n, sizeof n);
    } else if (HAS("FLOAT_INT")) {
      float x = (float)value;
      int n = owner;
      memcpy(at, &x, sizeof x);
      memcpy(at + 4, &n, sizeof n);
    } else if (HAS("LONG_INT")) {
      long x = value;
      int n = owner;
      memcpy(at, &x, sizeof x);
      memcpy(at + 8, &n, sizeof n);
    } else if (HAS("SHORT_INT")) {
      short x = (short)value;
      int n = owner;
      memcpy(at, &x, sizeof x);
      memcpy(at + 4, &n, sizeof n);
    } else if (HAS("LONG_DOUBLE_COMPLEX"))
      PUT(long double, 2);
    else if (HAS("COMPLEX")) {
      if (type_size == 8)
        PUT(float, 2);
      else if (type_size == 16)
        PUT(double, 2);
      else
        return;
    } else if (HAS("LONG_DOUBLE"))
      PUT(long double, 1);
    else if (HAS("REAL") || HAS("FLOAT") || HAS("DOUBLE")) {
      if (type_size == 4)
        PUT(float, 1);
      else if (type_size == 8)
        PUT(double, 1);
      else
        return;
    } else if (HAS("BOOL") || HAS("LOGICAL"))
      at[0] = (unsigned char)(value % 2);
    else if (type_size == 1)
      PUT(signed char, 1);
    else if (type_size == 2)
      PUT(short, 1);
    else if (type_size == 4)
      PUT(int, 1);
    else if (type_size == 8)
      PUT(long, 1);
  }
}

static void test(const struct named_type* t, const struct named_op* o) {
  int type_size = 0, code, code2, local = MPI_SUCCESS;
  MPI_Aint lb, extent;
  if (strchr(o->kinds, t->kind) == NULL) return;
  if (t->type == MPI_DATATYPE_NULL || MPI_Type_size(t->type, &type_size) != MPI_SUCCESS ||
      type_size == 0)
    return;
  MPI_Type_get_extent(t->type, &lb, &extent);
  if (extent * kElements > kMostBytes) return;
  char* mine = calloc(1, kMostBytes);
  char* result = calloc(1, kMostBytes);
  char* expected = calloc(1, kMostBytes);
  char* left = calloc(1, kMostBytes);
  char* reduced = calloc(1, kMostBytes);
  fill(t->name, mine, rank, type_size, extent);
  fill(t->name, expected, size - 1, type_size, extent);
  for (int r = size - 2; r >= 0 && local == MPI_SUCCESS; r--) {
    fill(t->name, left, r, type_size, extent);
    local = MPI_Reduce_local(left, expected, kElements, t->type, o->op);
  }
  code = MPI_Allreduce(mine, result, kElements, t->type, o->op, MPI_COMM_WORLD);
  code2 = MPI_Reduce(mine, reduced, kElements, t->type, o->op, size - 1, MPI_COMM_WORLD);
  CHECK((code == MPI_SUCCESS) == (code2 == MPI_SUCCESS), "%s on %s: allreduce %d, reduce %d",
        o->name, t->name, code, code2);
  if (local == MPI_SUCCESS && code == MPI_SUCCESS) {
    for (int i = 0; i < kElements; i++) {
      CHECK(same(t->name, result + i * extent, expected + i * extent, (size_t)extent),
            "%s on %s, element %d", o->name, t->name, i);
      if (rank == size - 1) {
        CHECK(same(t->name, reduced + i * extent, expected + i * extent, (size_t)extent),
              "reduce %s on %s, element %d", o->name, t->name, i);
      }
    }
  } else {
    CHECK((local == MPI_SUCCESS) == (code == MPI_SUCCESS),
          "%s on %s: reduce_local %d, allreduce %d", o->name, t->name, local, code);
  }
  free(mine);
  free(result);
  free(expected);
  free(left);
  free(reduced);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
#define T(x, kind) \
  { #x, x, kind }
  const struct named_type types[] = {T(MPI_SIGNED_CHAR, 'i'),
                                     T(MPI_UNSIGNED_CHAR, 'i'),
                                     T(MPI_BYTE, 'b'),
                                     T(MPI_SHORT, 'i'),
                                     T(MPI_UNSIGNED_SHORT, 'i'),
                                     T(MPI_INT, 'i'),
                                     T(MPI_UNSIGNED, 'i'),
                                     T(MPI_LONG, 'i'),
                                     T(MPI_UNSIGNED_LONG, 'i'),
                                     T(MPI_LONG_LONG, 'i'),
                                     T(MPI_UNSIGNED_LONG_LONG, 'i'),
                                     T(MPI_FLOAT, 'f'),
                                     T(MPI_DOUBLE, 'f'),
                                     T(MPI_LONG_DOUBLE, 'f'),
                                     T(MPI_INT8_T, 'i'),
                                     T(MPI_INT16_T, 'i'),
                                     T(MPI_INT32_T, 'i'),
                                     T(MPI_INT64_T, 'i'),
                                     T(MPI_UINT8_T, 'i'),
                                     T(MPI_UINT16_T, 'i'),
                                     T(MPI_UINT32_T, 'i'),
                                     T(MPI_UINT64_T, 'i'),
                                     T(MPI_AINT, 'n'),
                                     T(MPI_OFFSET, 'n'),
                                     T(MPI_COUNT, 'n'),
                                     T(MPI_C_BOOL, 'l'),
                                     T(MPI_CXX_BOOL, 'l'),
                                     T(MPI_C_FLOAT_COMPLEX, 'c'),
                                     T(MPI_C_DOUBLE_COMPLEX, 'c'),
                                     T(MPI_C_LONG_DOUBLE_COMPLEX, 'c'),
                                     T(MPI_FLOAT_INT, 'p'),
                                     T(MPI_DOUBLE_INT, 'p'),
                                     T(MPI_LONG_INT, 'p'),
                                     T(MPI_SHORT_INT, 'p'),
                                     T(MPI_2INT, 'p'),
                                     T(MPI_LONG_DOUBLE_INT, 'p'),
                                     T(MPI_INTEGER, 'n'),
                                     T(MPI_REAL, 'f'),
                                     T(MPI_LOGICAL, 'l'),
                                     T(MPI_COMPLEX, 'c'),
                                     T(MPI_DOUBLE_PRECISION, 'f'),
                                     T(MPI_DOUBLE_COMPLEX, 'c'),
                                     T(MPI_2INTEGER, 'p'),
                                     T(MPI_2REAL, 'p'),
                                     T(MPI_2DOUBLE_PRECISION, 'p'),
                                     T(MPI_INTEGER4, 'n'),
                                     T(MPI_INTEGER8, 'n'),
                                     T(MPI_REAL4, 'f'),
                                     T(MPI_REAL8, 'f')};
  const struct named_op ops[] = {T(MPI_SUM, "infc"), T(MPI_PROD, "infc"), T(MPI_MIN, "inf"),
                                 T(MPI_MAX, "inf"),  T(MPI_LAND, "il"),   T(MPI_LOR, "il"),
                                 T(MPI_LXOR, "il"),  T(MPI_BAND, "inb"),  T(MPI_BOR, "inb"),
                                 T(MPI_BXOR, "inb"), T(MPI_MINLOC, "p"),  T(MPI_MAXLOC, "p")};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++) test(&types[i], &ops[k]);
  }
  return finish("reductions");
}
