/* The preload: exports the MPI functions that tutti handles and passes each call either to the
 * plugin or to the MPI. Needs nothing but libc, so that it disturbs no library that the MPI brings.
 *
 * Handles are passed on as whole registers ("handle"): an int handle (MPICH ABI) and a pointer
 * handle (the others) travel in the same register or stack slot on every 64-bit Linux ABI, and the
 * callee reads the part that it knows. */
#ifndef TUTTI_MPI_PRELOAD_H_
#define TUTTI_MPI_PRELOAD_H_

#include <stddef.h>
#include <stdint.h>

#include "mpi/plugin_api.h"
#include "mpi/record/record.h"

#define EXPORT __attribute__((visibility("default")))

typedef void* handle;

#pragma GCC visibility push(hidden)

/* A predefined handle: a value, or for Open MPI the address of a symbol. */
struct tutti_constant {
  const char* symbol;
  uintptr_t value;
};

/* What the preload knows about an ABI (generated from tools/mpi). */
struct tutti_abi {
  const char* name;
  struct tutti_constant comm_world, request_null, type_int, op_min;
  size_t status_bytes;
  size_t status_error; /* offset of MPI_ERROR, an int */
  uintptr_t status_ignore;
  uintptr_t in_place;
  int root, cart, graph; /* MPI_ROOT, and two of MPI_Topo_test */
  int undefined, err_count, err_no_mem, err_unsupported;
};

/* ---- library.c: the MPI of this process */

/* Finds the library that defines PMPI_Init, starting from the module that `caller` lies in. Returns
 * 1 on success; later calls are free. Thread-safe. */
int tutti_find_library(void* caller);
/* The ABI of that library, or NULL when it is none that tutti knows. */
const struct tutti_abi* tutti_library_abi(void);
const char* tutti_library_path(void);
/* A symbol of the MPI, or NULL. */
void* tutti_library_symbol(const char* name);
handle tutti_constant_value(const struct tutti_constant* constant);

/* ---- native.c: the MPI's own functions */

/* The function that stands behind an exported one: the MPI's, or a replacement when it has none. */
void* tutti_native(enum tutti_mpi_function index, void* caller);
void* tutti_find(const char* name);

/* ---- caller.c: who calls */

/* True when `address` lies in the MPI itself or in one of its modules: such calls stay native. */
int tutti_caller_is_mpi(void* address);

/* ---- members.c: is the preload in every local rank? */

/* Before PMPI_Init: makes this rank visible to the others of its node, until
 * tutti_end_registration(), or to its end. */
void tutti_register(void);
/* When all ranks of the node have looked. */
void tutti_end_registration(void);
enum tutti_registered {
  TUTTI_NOT_REGISTERED,    /* some local rank is not; all that are find the same */
  TUTTI_MAY_BE_REGISTERED, /* this one cannot find out, and others may have */
  TUTTI_REGISTERED         /* all local ranks are */
};
/* After PMPI_Init; says what is wrong. */
enum tutti_registered tutti_all_registered(void);
/* After PMPI_Init: how many processes the launcher has started, where each of them has become a
 * world of its own (its MPI does not speak the launcher's protocol); 0 otherwise. */
int tutti_launched_apart(void);
/* True on the one local rank that prints messages which concern all of them. */
int tutti_speaks_for_node(void);

/* ---- init.c */

/* True from the first MPI_Init on. Written by the thread that calls it, read by any: only a report
 * hangs on it. */
extern int tutti_init_called;

/* Tells `tutti run` that an MPI program has met tutti, whatever came of it, and the line to print
 * when that is not for the plugin to say. */
void tutti_leave_stamp(const char* line);

/* ---- fallback.c: functions that the MPI lacks */

/* How many entries an array of counts or displacements has: one for each ... */
enum tutti_extent {
  TUTTI_PARTNERS, /* rank whose data it describes: of an intercommunicator, the remote ones */
  TUTTI_PARTNERS_OF_ROOT, /* the same; only the root has the array */
  TUTTI_MEMBERS,          /* rank of the own group */
  TUTTI_SOURCES,          /* neighbour */
  TUTTI_DESTINATIONS,
};
/* Counts and displacements of a large-count call, narrowed to int. */
enum { TUTTI_MOST_ARRAYS = 4 };
struct tutti_narrow {
  int* arrays[TUTTI_MOST_ARRAYS]; /* NULL where this rank has none */
  int* memory;
};
int tutti_narrow_arrays(struct tutti_narrow* narrow, const void* const wide[],
                        const enum tutti_extent extents[], int count, int root, handle comm);
/* Frees the arrays; with a request, when the MPI has surely done with them. */
void tutti_narrow_done(struct tutti_narrow* narrow, void* request);
/* Raises MPI_ERR_COUNT on the communicator. */
int tutti_count_error(handle comm);
/* The replacement for an exported function that this MPI does not have. */
void* tutti_replacement(enum tutti_mpi_function index);

/* ---- generated */
extern const char* const tutti_function_names[TUTTI_MPI_FUNCTION_COUNT];
extern void* const tutti_narrowing[TUTTI_MPI_FUNCTION_COUNT];

/* Handlers: written by the plugin while one thread is in MPI_Init or MPI_Finalize, read by all.
 * Natives: written once each by whoever needs the function first; all write the same value. */
extern void* tutti_handlers[TUTTI_MPI_FUNCTION_COUNT];
extern void* tutti_natives[TUTTI_MPI_FUNCTION_COUNT];

/* The address range of the first module that called and is not the MPI: nearly always the only one.
 * Written once by tutti_caller_is_mpi, the size last. */
extern uintptr_t tutti_program_begin, tutti_program_bytes;

/* What a call goes to, or NULL when tutti_choose must decide. */
static inline void* tutti_target(enum tutti_mpi_function index, void* caller) {
  void* handler = __atomic_load_n(&tutti_handlers[index], __ATOMIC_ACQUIRE);
  if (handler == NULL) return __atomic_load_n(&tutti_natives[index], __ATOMIC_RELAXED);
  uintptr_t bytes = __atomic_load_n(&tutti_program_bytes, __ATOMIC_ACQUIRE);
  return (uintptr_t)caller - tutti_program_begin < bytes ? handler : NULL;
}

/* The same, slowly: classifies the caller, looks up the MPI's function. Never NULL. Thread-safe. */
void* tutti_choose(enum tutti_mpi_function index, void* caller);

/* ---- record.c: which call each thread is in, for others to see */

/* This thread's lane of the rank's record, or NULL: not asked for yet, or none is kept. */
extern __thread struct tutti_lane* tutti_lane __attribute__((tls_model("initial-exec")));
/* What lanes belong to, or NULL. Written by the plugin's thread in MPI_Init and MPI_Finalize, and
 * in a child of fork(); read by any thread that has no lane. */
extern struct tutti_record* tutti_record;
/* Takes one, if there is a record. */
struct tutti_lane* tutti_take_lane(void);
/* For the plugin, while it keeps a record. Never NULL. */
struct tutti_lane* tutti_lane_here(void);
/* Keeps a record from now on; NULL: none any more. */
void tutti_keep_record(struct tutti_record* record, void (*aborts)(void),
                       void (*counts)(struct tutti_lane* lane));
/* Writes down the call that this thread's lane is in: it ends. */
void tutti_note_event(struct tutti_lane* lane);
/* For the plugin: a collective of tutti's has sent what it has, and looks whether others have. So
 * it is written down while words are on their way. Its time is that of now, unless it waits longer.
 */
void tutti_note_early(struct tutti_lane* lane);
/* Where exact times are wanted: the call begins. */
void tutti_note_begin(struct tutti_lane* lane);

/* Notes that this thread enters a call of the program's. NULL where there is nothing to note: no
 * record, or the call comes from inside another one, whose frame then lies above. (A call that was
 * left by a jump is not one that this is inside of.) The stack grows downwards everywhere. */
static inline __attribute__((always_inline)) struct tutti_lane* tutti_enter(
    enum tutti_mpi_function function, const void* caller, const void* frame) {
  struct tutti_lane* lane = tutti_lane;
  if (__builtin_expect(lane == NULL, 0)) {
    if (__atomic_load_n(&tutti_record, __ATOMIC_RELAXED) == NULL) return NULL;
    if ((lane = tutti_take_lane()) == NULL) return NULL;
  }
  const uint64_t count = lane->count;
  if (__builtin_expect((count & 1) && (uintptr_t)frame < lane->frame, 0)) return NULL;
  TUTTI_SET(lane->frame, (uintptr_t)frame);
  TUTTI_SET(lane->site, (uintptr_t)caller);
  TUTTI_SET(lane->function, (uint32_t)function);
  __atomic_store_n(&lane->count, count + 1 + (count & 1), __ATOMIC_RELEASE);
  if (__builtin_expect(lane->exact, 0)) tutti_note_begin(lane);
  return lane;
}

/* The same of a call that tutti may not see the end of: with what it is about, and since when. */
static __attribute__((noinline, unused)) struct tutti_lane* tutti_enter_about(
    enum tutti_mpi_function function, const void* caller, const void* frame, handle comm, int peer,
    int tag) {
  struct tutti_lane* lane = tutti_enter(function, caller, frame);
  if (lane == NULL) return NULL;
  TUTTI_SET(lane->comm, (uintptr_t)comm);
  TUTTI_SET(lane->peer, peer);
  TUTTI_SET(lane->tag, tag);
  tutti_stamp(lane, tutti_time(lane));
  return lane;
}

static inline __attribute__((always_inline)) void tutti_leave(struct tutti_lane* lane) {
  if (__builtin_expect(lane == NULL, 0)) return;
  if (__builtin_expect(lane->events != 0, 1)) tutti_note_event(lane);
  __atomic_store_n(&lane->count, lane->count + 1, __ATOMIC_RELEASE);
}

/* ---- say.c */

/* One line on standard error, "tutti: ..." */
void tutti_say(const char* format, ...) __attribute__((format(printf, 1, 2)));

#pragma GCC visibility pop

#endif
