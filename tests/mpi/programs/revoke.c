/* Communicators that the program revokes (Open MPI's MPIX_Comm_revoke, in a job without fault
 * tolerance: local). */
#include "check.h"

#include <mpi-ext.h>

static int class_of(int code) {
  int class;
  MPI_Error_class(code, &class);
  return class;
}

/* Used, revoked, refused, freed. */
static void revoke_one(MPI_Comm parent, int rank, int size) {
  MPI_Comm comm;
  int sum = 0, one = 1, revoked = -1;
  MPI_Comm_dup(parent, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == size, "sum %d", sum);
  CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS, "revoke");
  MPIX_Comm_is_revoked(comm, &revoked);
  CHECK(revoked == 1, "is_revoked %d", revoked);
  int code = MPI_Barrier(comm);
  CHECK(class_of(code) == MPIX_ERR_REVOKED, "barrier: class %d", class_of(code));
  code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(class_of(code) == MPIX_ERR_REVOKED, "allreduce: class %d", class_of(code));
  code = MPI_Send(&one, 1, MPI_INT, (rank + 1) % size, 0, comm);
  CHECK(class_of(code) == MPIX_ERR_REVOKED, "send: class %d", class_of(code));
  CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS, "revoke again");
  MPI_Comm_free(&comm);
  sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent);
  CHECK(sum == size, "the parent after it: %d", sum);
}

/* Several at a time, so that the MPI does not use the memory of each again for the next. */
static void revoke_several(void) {
  MPI_Comm comms[8];
  for (int i = 0; i < 8; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int i = 0; i < 8; i++) MPIX_Comm_revoke(comms[i]);
  for (int i = 0; i < 8; i++) MPI_Comm_free(&comms[i]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size, failed, all = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  for (int i = 0; i < 50; i++) revoke_one(MPI_COMM_WORLD, rank, size);
  int half_rank, half_size;
  MPI_Comm_rank(half, &half_rank);
  MPI_Comm_size(half, &half_size);
  revoke_one(half, half_rank, half_size);
  MPI_Comm_free(&half);
  revoke_several();
  /* Last the world itself; what was counted goes by a copy. */
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPIX_Comm_revoke(MPI_COMM_WORLD);
  int code = MPI_Barrier(MPI_COMM_WORLD);
  CHECK(class_of(code) == MPIX_ERR_REVOKED, "barrier on the world: class %d", class_of(code));
  failed = failures;
  MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, copy);
  MPI_Comm_free(&copy);
  if (rank == 0) printf("revoke: %s\n", all == 0 ? "passed" : "FAILED");
  MPI_Finalize();
  return all != 0;
}
