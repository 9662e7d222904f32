/* Preloaded beside tutti: the rank LATE_RANK loses LATE_S seconds when MPI_Init has returned in the
 * MPI, before it looks for the other ranks of its node. With BLIND it cannot look at all, as where
 * no file descriptor is left. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : -1;
}

FILE* fopen(const char* path, const char* mode) {
  static int once;
  const int rank = number("PMI_RANK") >= 0 ? number("PMI_RANK") : number("OMPI_COMM_WORLD_RANK");
  if (strcmp(path, "/proc/self/net/unix") == 0 && rank == number("LATE_RANK")) {
    if (getenv("BLIND") != NULL) {
      errno = EMFILE;
      return NULL;
    }
    if (!once++) sleep((unsigned)number("LATE_S"));
  }
  FILE* (*real)(const char*, const char*);
  void* found = dlsym(RTLD_NEXT, "fopen");
  memcpy(&real, &found, sizeof real);
  return real(path, mode);
}
