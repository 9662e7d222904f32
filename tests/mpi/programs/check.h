/* For the MPI test programs: they are compiled with a real mpi.h and know nothing of tutti. */
#ifndef TUTTI_TESTS_MPI_CHECK_H_
#define TUTTI_TESTS_MPI_CHECK_H_

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Open MPI 5 has them, though it calls itself 3.1. */
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAVE_PERSISTENT_COLLECTIVES 1
#endif

static int failures = 0;

#define CHECK(condition, ...)                                                                \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      int check_rank;                                                                        \
      MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);                                            \
      if (failures++ < 20) {                                                                 \
        fprintf(stderr, "rank %d, %s:%d: %s: ", check_rank, __FILE__, __LINE__, #condition); \
        fprintf(stderr, __VA_ARGS__);                                                        \
        fputc('\n', stderr);                                                                 \
      }                                                                                      \
    }                                                                                        \
  } while (0)

/* To be called by all ranks at the end, before MPI_Finalize. Returns the exit status: not 0 on any
 * rank when something failed on one. */
__attribute__((unused)) static int finish(const char* name) {
  int all = 0, rank;
  MPI_Reduce(&failures, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Bcast(&all, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("%s: %s (%d failures)\n", name, all == 0 ? "passed" : "FAILED", all);
  MPI_Finalize();
  return all != 0;
}

#endif
