/* Attributes that the MPI has set on the world (MPI_TAG_UB, ...) are missing on the communicator
 * that stands in for it in Open MPI: what is not found there is looked for on the world, which has
 * none of the program's. */
#include "mpi/split/split.h"

#define CALLER __builtin_return_address(0)

typedef int get_function(handle, int, void*, int*);

static int get(get_function* next, handle comm, int keyval, void* value, int* flag) {
  handle own = tutti_world(comm);
  int code = next(own, keyval, value, flag);
  return own != comm && code == 0 && !*flag ? next(comm, keyval, value, flag) : code;
}

#define GET_FUNCTION(name)                                                                      \
  EXPORT int MPI_##name(handle comm, int keyval, void* value, int* flag) {                      \
    static void *next, *native;                                                                 \
    if (!tutti_program_calls(CALLER))                                                           \
      return ((get_function*)tutti_find_native("PMPI_" #name, &native))(comm, keyval, value,    \
                                                                        flag);                  \
    return get((get_function*)tutti_find_next("MPI_" #name, &next), comm, keyval, value, flag); \
  }                                                                                             \
  EXPORT get_function PMPI_##name __attribute__((alias("MPI_" #name)));

GET_FUNCTION(Comm_get_attr)
GET_FUNCTION(Attr_get)
