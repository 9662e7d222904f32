/* The two worlds, and who comes next for a call. */
#include "mpi/split/split.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct tutti_worlds tutti_worlds = {0, 1, 0, sizeof(void*), NULL, 0};

EXPORT int tutti_split_begin(const struct tutti_split* split) {
  int* processors = malloc(sizeof(int) * ((size_t)split->processor_count + 1));
  if (processors == NULL) return 0;
  memcpy(processors, split->processors, sizeof(int) * (size_t)split->processor_count);
  uintptr_t mask = split->handle_bytes == 4 ? 0xffffffffu : UINTPTR_MAX;
  tutti_worlds.world = (uintptr_t)split->world & mask;
  tutti_worlds.apps = (uintptr_t)split->apps & mask;
  tutti_worlds.handle_bytes = split->handle_bytes;
  tutti_worlds.processors = processors;
  tutti_worlds.processor_count = split->processor_count;
  tutti_worlds.mask = mask;
  return 1;
}

EXPORT void tutti_split_end(void) {
  tutti_worlds.mask = 0;
  tutti_worlds.world = 1;
  free(tutti_worlds.processors);
  tutti_worlds.processors = NULL;
}

int tutti_classify(void* caller) {
  return !tutti_find_library(caller) || !tutti_caller_is_mpi(caller);
}

int tutti_is_fortran(void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return 0;
  const char* slash = strrchr(info.dli_fname, '/');
  const char* name = slash != NULL ? slash + 1 : info.dli_fname;
  return strncmp(name, "libmpi", 6) == 0 &&
         (strstr(name, "fort") != NULL || strstr(name, "mpifh") || strstr(name, "usempi"));
}

static int unsupported(void) {
  const struct tutti_abi* abi = tutti_library_abi();
  return abi != NULL ? abi->err_unsupported : 1;
}

static void* found(void* function, const char* name, void** place) {
  if (function == NULL) {
    tutti_say("%s is called, and this MPI does not have it", name);
    int (*none)(void) = unsupported;
    memcpy(&function, &none, sizeof function);
  }
  __atomic_store_n(place, function, __ATOMIC_RELAXED);
  return function;
}

void* tutti_find_native(const char* name, void** place) {
  return found(tutti_find_library(NULL) ? tutti_library_symbol(name) : NULL, name, place);
}

/* An MPI that was opened with RTLD_LOCAL (mpi4py) is not among the next ones. */
void* tutti_find_next(const char* name, void** place) {
  void* function = dlsym(RTLD_NEXT, name);
  char native[128] = "P";
  if (function != NULL) return found(function, name, place);
  return tutti_find_native(strncat(native, name, sizeof native - 2), place);
}
