/* MPICH's and Intel's Fortran layers call the C functions with C handles, which are the same
 * numbers, except for attributes: those go to functions of their own, with one more argument that
 * says how the value is to be understood. The MPI calls them too. */
#include "mpi/split/split.h"

#define CALLER __builtin_return_address(0)

typedef int get_function(handle, int, void*, int*, int);
typedef int set_function(handle, int, void*, int);

#define GET_FUNCTION(name)                                                                   \
  EXPORT int name(handle comm, int keyval, void* value, int* flag, int kind) {               \
    static void* native;                                                                     \
    get_function* get = (get_function*)tutti_find_native(#name, &native);                    \
    if (!tutti_program_calls(CALLER)) return get(comm, keyval, value, flag, kind);           \
    handle own = tutti_world(comm);                                                          \
    int code = get(own, keyval, value, flag, kind);                                          \
    return own != comm && code == 0 && !*flag ? get(comm, keyval, value, flag, kind) : code; \
  }

GET_FUNCTION(MPII_Comm_get_attr)
GET_FUNCTION(MPII_Comm_get_attr_fort)

EXPORT int MPII_Comm_set_attr(handle comm, int keyval, void* value, int kind) {
  static void* native;
  set_function* set = (set_function*)tutti_find_native("MPII_Comm_set_attr", &native);
  return set(tutti_program_calls(CALLER) ? tutti_world(comm) : comm, keyval, value, kind);
}
