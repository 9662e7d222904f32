/* MPI_Init and MPI_Init_thread: the MPI first, then the plugin, on all ranks or on none. */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi/preload/preload.h"

static int is_disabled(void) {
  const char* text = getenv("TUTTI_DISABLE");
  return text != NULL && (strcmp(text, "1") == 0 || strcasecmp(text, "true") == 0 ||
                          strcasecmp(text, "on") == 0 || strcasecmp(text, "yes") == 0);
}

/* The fabric of a node registers its process for barriers that others ask the kernel for. That
 * takes microseconds in a process of one thread and a grace period of the kernel, 15 ms, in one of
 * several, so it is done while there is one: an MPI may start its threads in MPI_Init, and Python
 * those of numpy before. A second registration costs nothing, and a missing one is noticed there.
 */
__attribute__((constructor)) static void register_for_barriers(void) {
  if (!is_disabled()) syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

static tutti_mpi_ending_function* ending;

/* What is registered last runs first: before the destructors of the libraries that the MPI has
 * loaded. */
static void end(void) { ending(); }

static void tell_at_exit(void* plugin) {
  void* found = dlsym(plugin, TUTTI_MPI_ENDING);
  memcpy(&ending, &found, sizeof ending);
  if (ending != NULL) atexit(end);
}

/* The plugin lies beside the preload. */
static tutti_mpi_attach_function* open_plugin(char* path, size_t size, void** plugin) {
  Dl_info own;
  if (dladdr((void*)&open_plugin, &own) == 0) return NULL;
  const char* slash = strrchr(own.dli_fname, '/');
  int directory = slash != NULL ? (int)(slash - own.dli_fname) : 0;
  snprintf(path, size, "%.*s/libtutti-mpi-%s.so", directory, slash != NULL ? own.dli_fname : ".",
           tutti_library_abi()->name);
  *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* attach = *plugin != NULL ? dlsym(*plugin, TUTTI_MPI_ATTACH) : NULL;
  if (attach == NULL) {
    tutti_say("cannot load %s (%s); the program runs on its own MPI", path, dlerror());
  }
  tutti_mpi_attach_function* function;
  memcpy(&function, &attach, sizeof function);
  return function;
}

/* Tells the plugins of the other ranks that this one has none, or must not use it. */
static void decline(void) {
  const struct tutti_abi* abi = tutti_library_abi();
  int none[TUTTI_FIRST_EXCHANGE_INTS] = {0}, least[TUTTI_FIRST_EXCHANGE_INTS];
  int (*allreduce)(const void*, void*, int, handle, handle, handle) = (int (*)(
      const void*, void*, int, handle, handle, handle))tutti_library_symbol("PMPI_Allreduce");
  const int counts[] = {TUTTI_FIRST_EXCHANGE_INTS, 1};
  for (int i = 0; i < 2; i++) {
    allreduce(none, least, counts[i], tutti_constant_value(&abi->type_int),
              tutti_constant_value(&abi->op_min), tutti_constant_value(&abi->comm_world));
  }
}

void tutti_leave_stamp(const char* line) {
  const char* name = getenv("TUTTI_RUN_STAMP");
  if (name == NULL || !tutti_speaks_for_node()) return;
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return; /* `tutti run` is on another node */
  ssize_t written = write(fd, line, strlen(line));
  (void)written;
  close(fd);
}

/* The usual mistake under srun, flux and another MPI's mpiexec: the program runs as often as there
 * are processes. It may be meant, so it is a note, and nothing else changes. */
static void note_worlds_apart(void) {
  char line[400];
  const int launched = tutti_launched_apart();
  if (launched == 0) return;
  snprintf(line, sizeof line,
           "nothing was taken over: each of the %d processes is an MPI job of its own; unless that "
           "is meant, the MPI does not know this launcher: use the MPI's own mpiexec, or with srun "
           "another --mpi (srun --mpi=list shows them)\n",
           launched);
  tutti_leave_stamp(line);
}

static void activate(int thread_level) {
  static char path[4096];
  tutti_leave_stamp("");
  if (tutti_library_abi() == NULL) {
    if (tutti_speaks_for_node()) {
      tutti_say(
          "%s is not an MPI that tutti knows (MPICH since 3.1 and what shares its interface, Open "
          "MPI with libmpi.so.40, or the standard interface); the program runs on it without tutti",
          tutti_library_path());
    }
    return;
  }
  note_worlds_apart();
  const enum tutti_registered registered = tutti_all_registered();
  if (registered == TUTTI_NOT_REGISTERED) return;
  void* plugin = NULL;
  tutti_mpi_attach_function* attach =
      registered == TUTTI_REGISTERED ? open_plugin(path, sizeof path, &plugin) : NULL;
  if (attach == NULL) {
    decline();
    tutti_end_registration();
    return;
  }
  struct tutti_preload preload = {TUTTI_MPI_TABLE_SIGNATURE,
                                  thread_level,
                                  path,
                                  tutti_find,
                                  tutti_handlers,
                                  tutti_keep_record,
                                  tutti_lane_here,
                                  tutti_note_early};
  if (attach(&preload)) tell_at_exit(plugin);
  /* All ranks have looked: attach() does not return before they have been in its first exchange. */
  tutti_end_registration();
}

static int initialise(void* argc, void* argv, int required, int* provided, int threaded,
                      void* caller) {
  static int busy; /* some MPIs implement one of the two by calling the other */
  if (!tutti_find_library(caller)) {
    tutti_say("MPI_Init was called, but no MPI library is loaded in this process");
    abort();
  }
  int outermost = !busy && !is_disabled();
  busy = 1;
  __atomic_store_n(&tutti_init_called, 1, __ATOMIC_RELAXED);
  if (outermost) tutti_register();
  int code;
  if (threaded) {
    code = ((int (*)(void*, void*, int, int*))tutti_library_symbol("PMPI_Init_thread"))(
        argc, argv, required, provided);
  } else {
    code = ((int (*)(void*, void*))tutti_library_symbol("PMPI_Init"))(argc, argv);
  }
  busy = !outermost;
  if (code == 0 && outermost) {
    int level = 0;
    ((int (*)(int*))tutti_library_symbol("PMPI_Query_thread"))(&level);
    activate(level);
  }
  if (code != 0 && outermost) tutti_end_registration();
  return code;
}

EXPORT int MPI_Init(void* argc, void* argv) {
  return initialise(argc, argv, 0, NULL, 0, __builtin_return_address(0));
}
EXPORT int PMPI_Init(void* argc, void* argv) __attribute__((alias("MPI_Init")));

EXPORT int MPI_Init_thread(void* argc, void* argv, int required, int* provided) {
  return initialise(argc, argv, required, provided, 1, __builtin_return_address(0));
}
EXPORT int PMPI_Init_thread(void* argc, void* argv, int required, int* provided)
    __attribute__((alias("MPI_Init_thread")));
