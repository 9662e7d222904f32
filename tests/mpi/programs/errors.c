/* Wrong arguments give the MPI's own error classes, on the communicator's error handler; on all
 * ranks alike, so that nobody waits. */
#include <sys/resource.h>

#include "check.h"

static int rank, size, called;

static void handler(MPI_Comm* comm, int* code, ...) {
  (void)comm;
  called = *code;
}

static void expect(const char* what, int code, int wanted) {
  int class = -1;
  MPI_Error_class(code, &class);
  CHECK(code != MPI_SUCCESS && class == wanted, "%s: class %d, not %d", what, class, wanted);
  CHECK(called == code, "%s: the handler saw %d, the call returned %d", what, called, code);
  called = 0;
}

/* tutti packs what has gaps; without memory for that the call fails, and is not the MPI's. */
static void test_no_memory(MPI_Comm parent) {
  struct rlimit before, now;
  MPI_Datatype type;
  MPI_Comm comm;
  int x;
  MPI_Comm_dup(parent, &comm);
  MPI_Type_create_resized(MPI_INT, 0, 8, &type);
  MPI_Type_commit(&type);
  getrlimit(RLIMIT_AS, &before);
  now = before;
  now.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_AS, &now);
  const int code = MPI_Bcast(&x, 1 << 29, type, 0, comm);
  setrlimit(RLIMIT_AS, &before);
  expect("no memory", code, MPI_ERR_NO_MEM);
  MPI_Type_free(&type);
  MPI_Comm_free(&comm);
}

/* Of which only this rank knows. */
static void test_lists(MPI_Comm comm) {
  int mine[64], all[64], ones[64], places[64], wrong[64];
  MPI_Datatype types[64], null[64];
  for (int i = 0; i < size; i++) {
    ones[i] = 1;
    places[i] = i;
    wrong[i] = i == size - 1 ? -1 : 1;
    mine[i] = 10 * rank + i;
    types[i] = MPI_INT;
    null[i] = MPI_DATATYPE_NULL;
  }
  if (rank == 1) {
    expect("a negative count of many",
           MPI_Alltoallv(mine, ones, places, MPI_INT, all, wrong, places, MPI_INT, comm),
           MPI_ERR_COUNT);
    expect("a null type of many",
           MPI_Alltoallw(mine, ones, places, null, all, ones, places, types, comm), MPI_ERR_TYPE);
  }
  if (rank == 0)
    expect("a negative count for the root",
           MPI_Gatherv(mine, 1, MPI_INT, all, wrong, places, MPI_INT, 0, comm), MPI_ERR_COUNT);
  MPI_Alltoallv(mine, ones, places, MPI_INT, all, ones, places, MPI_INT, comm);
  for (int i = 0; i < size; i++) CHECK(all[i] == 10 * i + rank, "after errors in lists");
}

int main(int argc, char** argv) {
  MPI_Comm comm;
  MPI_Errhandler errors;
  int a = 1, b = 0, all[64];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_create_errhandler(handler, &errors);
  MPI_Comm_set_errhandler(comm, errors);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, errors);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, errors);
  expect("negative count", MPI_Allreduce(&a, &b, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
  expect("root out of range", MPI_Bcast(&a, 1, MPI_INT, size, comm), MPI_ERR_ROOT);
  /* MPICH 5.0.2 aborts on an assertion for a null type in MPI_Bcast. */
  expect("null type", MPI_Allgather(&a, 1, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm), MPI_ERR_TYPE);
  expect("null operator", MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_OP_NULL, comm), MPI_ERR_OP);
  double x = 1, y = 0;
  expect("bits of a double", MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_BAND, comm), MPI_ERR_OP);
  int code = MPI_Barrier(MPI_COMM_NULL), class = -1;
  MPI_Error_class(code, &class);
  CHECK(class == MPI_ERR_COMM, "barrier on the null communicator: class %d", class);
  /* And everything still works. */
  MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_SUM, comm);
  CHECK(b == size, "after the errors");
  /* On one rank alone it is told there, calls again as it should have, and nobody is out of step.
   */
  if (rank == 1) {
    code = MPI_Allreduce(&a, &b, -1, MPI_INT, MPI_SUM, comm);
    expect("negative count on one rank", code, MPI_ERR_COUNT);
  }
  b = 0;
  MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_SUM, comm);
  CHECK(b == size, "after an error on one rank");
  if (rank == 0)
    expect("wrong root on one rank", MPI_Bcast(&a, 1, MPI_INT, -7, comm), MPI_ERR_ROOT);
  if (rank == 0) {
    code = MPI_Gather(&a, 1, MPI_INT, all, -1, MPI_INT, 0, comm);
    expect("negative count at the root", code, MPI_ERR_COUNT);
  }
  b = rank + 5;
  MPI_Gather(&b, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
  CHECK(rank != 0 || (all[0] == 5 && all[size - 1] == size + 4), "after an error at the root");
  test_lists(comm);
  if (argc > 2 && strcmp(argv[2], "served") == 0) test_no_memory(comm);
  MPI_Comm_free(&comm);
  MPI_Errhandler_free(&errors);
  return finish("errors");
}
