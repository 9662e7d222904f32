/* libtutti-split: where some of a job's processes are dedicated processors (--dcp-from-job), the
 * program's processes see a world of their own. The library stands in front of the preload and of
 * every other tool, and puts the communicator of the program's processes in the place of
 * MPI_COMM_WORLD in every call that takes a communicator. The program keeps the handle
 * MPI_COMM_WORLD; what is handed to its callbacks is translated back.
 *
 * Needs nothing but libc, like the preload, with which it shares library.c and caller.c. */
#ifndef TUTTI_MPI_SPLIT_SPLIT_H_
#define TUTTI_MPI_SPLIT_SPLIT_H_

#include "mpi/preload/preload.h"
#include "mpi/split/split_api.h"

#pragma GCC visibility push(hidden)

/* Written inside MPI_Init and MPI_Finalize by one thread, read by all. While nothing is split,
 * `mask` is 0 and `world` 1, which is equal to no handle. Handles that are ints travel in registers
 * whose upper half is not theirs, hence the mask. */
struct tutti_worlds {
  uintptr_t mask, world, apps;
  size_t handle_bytes;
  int* processors;
  int processor_count;
};
extern struct tutti_worlds tutti_worlds;

/* The communicator to use for one that the program gives. */
static inline handle tutti_world(handle comm) {
  return ((uintptr_t)comm & tutti_worlds.mask) == tutti_worlds.world ? (handle)tutti_worlds.apps
                                                                     : comm;
}

/* The other way round, for communicators that the program is given. */
static inline handle tutti_unworld(handle comm) {
  return tutti_worlds.mask != 0 && ((uintptr_t)comm & tutti_worlds.mask) == tutti_worlds.apps
             ? (handle)tutti_worlds.world
             : comm;
}

static inline int tutti_is_split(void) { return tutti_worlds.mask != 0; }

/* True unless the call comes from the MPI itself, whose communicators are its own affair. */
int tutti_classify(void* caller);
static inline int tutti_program_calls(void* caller) {
  uintptr_t bytes = __atomic_load_n(&tutti_program_bytes, __ATOMIC_ACQUIRE);
  return (uintptr_t)caller - tutti_program_begin < bytes || tutti_classify(caller);
}

/* True when a Fortran layer of the MPI calls: functions that it passes on are Fortran's. */
int tutti_is_fortran(void* caller);

/* Whoever comes next for "MPI_name": the preload, another tool, the MPI. Remembered in `*place`.
 * Never NULL: for a function that the MPI lacks, one that says so. */
void* tutti_find_next(const char* name, void** place);
/* The MPI's own "PMPI_name". */
void* tutti_find_native(const char* name, void** place);

#pragma GCC visibility pop

#endif
