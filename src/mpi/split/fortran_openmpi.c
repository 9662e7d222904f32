/* Open MPI's Fortran layers turn numbers into handles with PMPI_Comm_f2c, and then call PMPI
 * functions or work on what stands behind the handle. So the world is translated in PMPI_Comm_f2c.
 * C programs call MPI_Comm_f2c and get the handle that they compare with MPI_COMM_WORLD. */
#include "mpi/split/split.h"

#define CALLER __builtin_return_address(0)

typedef handle f2c_function(int);

static __thread int wants_the_world; /* while an attribute is looked for there */

EXPORT handle PMPI_Comm_f2c(int comm) {
  static void* native;
  handle found = ((f2c_function*)tutti_find_native("PMPI_Comm_f2c", &native))(comm);
  return wants_the_world || !tutti_program_calls(CALLER) ? found : tutti_world(found);
}

/* Attributes: as in attributes.c. */
typedef void get_function(const int*, const int*, void*, int*, int*);

static void get(get_function* next, const int* comm, const int* keyval, void* value, int* flag,
                int* code) {
  next(comm, keyval, value, flag, code);
  if (*comm != 0 || !tutti_is_split() || (code != NULL && *code != 0) || *flag) return;
  wants_the_world = 1;
  next(comm, keyval, value, flag, code);
  wants_the_world = 0;
}

/* Every spelling that Fortran compilers have for a name. */
#define GET_FUNCTION(name)                                                                  \
  EXPORT void name(const int* comm, const int* keyval, void* value, int* flag, int* code) { \
    static void* next;                                                                      \
    get((get_function*)tutti_find_next(#name, &next), comm, keyval, value, flag, code);     \
  }

GET_FUNCTION(mpi_comm_get_attr)
GET_FUNCTION(mpi_comm_get_attr_)
GET_FUNCTION(mpi_comm_get_attr__)
GET_FUNCTION(MPI_COMM_GET_ATTR)
GET_FUNCTION(pmpi_comm_get_attr)
GET_FUNCTION(pmpi_comm_get_attr_)
GET_FUNCTION(pmpi_comm_get_attr__)
GET_FUNCTION(PMPI_COMM_GET_ATTR)
GET_FUNCTION(mpi_attr_get)
GET_FUNCTION(mpi_attr_get_)
GET_FUNCTION(mpi_attr_get__)
GET_FUNCTION(MPI_ATTR_GET)
GET_FUNCTION(pmpi_attr_get)
GET_FUNCTION(pmpi_attr_get_)
GET_FUNCTION(pmpi_attr_get__)
GET_FUNCTION(PMPI_ATTR_GET)
