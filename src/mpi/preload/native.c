/* The MPI's own functions, looked up when first needed. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/preload/preload.h"

void* tutti_handlers[TUTTI_MPI_FUNCTION_COUNT];
void* tutti_natives[TUTTI_MPI_FUNCTION_COUNT];

int tutti_init_called;

/* A program that has not called MPI_Init speaks to its MPI by sessions. */
static void note_sessions(void) {
  static int noted;
  if (__atomic_load_n(&tutti_init_called, __ATOMIC_RELAXED) ||
      __atomic_exchange_n(&noted, 1, __ATOMIC_RELAXED))
    return;
  tutti_leave_stamp(
      "nothing was taken over: the program uses MPI sessions without MPI_Init, and their "
      "communicators stay with the MPI\n");
}

void* tutti_native(enum tutti_mpi_function index, void* caller) {
  void* function = __atomic_load_n(&tutti_natives[index], __ATOMIC_RELAXED);
  if (function != NULL) return function;
  if (!tutti_find_library(caller)) {
    tutti_say("%s was called, but no MPI library is loaded in this process",
              tutti_function_names[index] + 1);
    abort();
  }
  note_sessions();
  function = tutti_library_symbol(tutti_function_names[index]);
  if (function == NULL) function = tutti_narrowing[index];
  if (function == NULL) function = tutti_replacement(index);
  __atomic_store_n(&tutti_natives[index], function, __ATOMIC_RELAXED);
  return function;
}

void* tutti_choose(enum tutti_mpi_function index, void* caller) {
  void* handler = __atomic_load_n(&tutti_handlers[index], __ATOMIC_ACQUIRE);
  return handler != NULL && !tutti_caller_is_mpi(caller) ? handler : tutti_native(index, caller);
}

void* tutti_find(const char* name) {
  for (int i = 0; i < TUTTI_MPI_FUNCTION_COUNT; i++) {
    if (strcmp(tutti_function_names[i], name) == 0)
      return tutti_native((enum tutti_mpi_function)i, NULL);
  }
  return tutti_library_symbol(name);
}
