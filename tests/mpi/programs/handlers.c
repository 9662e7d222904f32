/* Where errors go whose call names no communicator: prints what the program's handlers on
 * MPI_COMM_WORLD and MPI_COMM_SELF saw, which must be the same with tutti and without. */
#include <mpi.h>
#include <stdio.h>

static int on_world, on_self;

static void world_handler(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  on_world++;
}

static void self_handler(MPI_Comm* comm, int* code, ...) {
  (void)comm, (void)code;
  on_self++;
}

static void provoke(const char* when, int rank) {
  int size = 0;
  on_world = on_self = 0;
  int code = MPI_Type_size(MPI_DATATYPE_NULL, &size);
  printf("%d %s: %s, handler of the world called %d times, of SELF %d times\n", rank, when,
         code == MPI_SUCCESS ? "success" : "an error", on_world, on_self);
}

int main(int argc, char** argv) {
  int rank;
  MPI_Errhandler world, self;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_create_errhandler(world_handler, &world);
  MPI_Comm_create_errhandler(self_handler, &self);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  provoke("world returns", rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, world);
  provoke("world handles", rank);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, self);
  provoke("both handle", rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  provoke("both return", rank);
  MPI_Errhandler_free(&world);
  MPI_Errhandler_free(&self);
  int in = 1, out = 0;
  MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d allreduce: %d\n", rank, out);
  MPI_Finalize();
  return 0;
}
