/* Stands in front of MPIX_Comm_revoke, so that the collectives and messages of a revoked
 * communicator are the MPI's, which refuses them. A library of its own, because programs look
 * whether an MPI has this function: it is preloaded only where the MPI does (Open MPI 5), see
 * tutti.launch.plan. */
#include "mpi/revoke/revoke_api.h"

#include <dlfcn.h>
#include <string.h>

#include "mpi/preload/preload.h"

static tutti_revoked_function* revoked;

typedef int revoke_function(void* comm);

EXPORT void tutti_set_revoked(tutti_revoked_function* function) {
  __atomic_store_n(&revoked, function, __ATOMIC_RELEASE);
}

EXPORT int MPIX_Comm_revoke(void* comm) {
  void* caller = __builtin_return_address(0);
  void* found = tutti_find_library(caller) ? tutti_library_symbol("PMPIX_Comm_revoke") : NULL;
  if (found == NULL) {
    tutti_say("MPIX_Comm_revoke is called, and this MPI does not have it");
    const struct tutti_abi* abi = tutti_library_abi();
    return abi != NULL ? abi->err_unsupported : 1;
  }
  revoke_function* native;
  memcpy(&native, &found, sizeof native);
  tutti_revoked_function* tell = __atomic_load_n(&revoked, __ATOMIC_ACQUIRE);
  return native(tell != NULL ? tell(comm) : comm);
}
