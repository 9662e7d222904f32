/* Memory for the tests: the processor's, or with DEVICE_LIBRARY (tests/mpi/standin) in turn that of
 * a device, managed and pinned memory. */
#ifndef TUTTI_TESTS_MPI_GPU_H_
#define TUTTI_TESTS_MPI_GPU_H_

#include <dlfcn.h>

#include "check.h"

enum memory_kind { kHostMemory, kDeviceMemory, kManagedMemory, kPinnedMemory };

struct memory {
  char* address; /* what the MPI is given */
  char* view;    /* where the program reads and writes it */
  enum memory_kind kind;
};

static void* gpu_library;
static void* (*gpu_allocate)(int kind, size_t bytes, void** view);
static void (*gpu_free)(void* address);
static long (*gpu_copies)(void);
static long (*gpu_questions)(void);
static int (*gpu_contexts)(void);

__attribute__((unused)) static void open_gpu(void) {
  const char* path = getenv("DEVICE_LIBRARY");
  if (path == NULL) return;
  void* library = gpu_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  *(void**)&gpu_allocate = dlsym(library, "standin_allocate");
  *(void**)&gpu_free = dlsym(library, "standin_free");
  *(void**)&gpu_copies = dlsym(library, "standin_copies");
  *(void**)&gpu_questions = dlsym(library, "standin_questions");
  *(void**)&gpu_contexts = dlsym(library, "standin_contexts");
  void (*init)(void);
  *(void**)&init = dlsym(library, "standin_init");
  init();
}

__attribute__((unused)) static struct memory take_memory(enum memory_kind kind, size_t bytes) {
  struct memory m = {NULL, NULL, gpu_allocate == NULL ? kHostMemory : kind};
  void* view = NULL;
  if (m.kind == kHostMemory) {
    m.address = m.view = malloc(bytes);
  } else {
    m.address = gpu_allocate((int)kind, bytes, &view);
    m.view = view;
  }
  return m;
}

__attribute__((unused)) static void free_memory(struct memory* m) {
  if (m->kind == kHostMemory)
    free(m->address);
  else
    gpu_free(m->address);
}

#endif
