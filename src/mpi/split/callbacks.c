/* Callbacks of the program's that are handed a communicator: attributes and error handlers. Those
 * of Fortran programs go past here; they see the communicator that stands in for the world, which
 * serves as well but is not equal to MPI_COMM_WORLD. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/split/split.h"

#define CALLER __builtin_return_address(0)

/* ---- attributes */

typedef int copy_function(handle, int, void*, void*, void*, int*);
typedef int delete_function(handle, int, void*, void*);

/* What the program gave for a keyval. Attributes outlive their keyval, so this stays for good. */
struct keyval {
  copy_function* copy;
  delete_function* remove;
  void* extra;
};

/* The standard ABI has small numbers for the predefined functions, and NULL does nothing in all:
 * 0 copies nothing, 1 (MPI_COMM_DUP_FN) copies the pointer. Elsewhere they are functions. */
static int is_number(uintptr_t function) { return function < 16; }

static int copy_attribute(handle comm, int keyval, void* extra, void* in, void* out, int* flag) {
  const struct keyval* given = extra;
  if (!is_number((uintptr_t)given->copy))
    return given->copy(tutti_unworld(comm), keyval, given->extra, in, out, flag);
  *flag = (uintptr_t)given->copy == 1;
  if (*flag) memcpy(out, &in, sizeof in);
  return 0;
}

static int delete_attribute(handle comm, int keyval, void* value, void* extra) {
  const struct keyval* given = extra;
  if (is_number((uintptr_t)given->remove)) return 0;
  return given->remove(tutti_unworld(comm), keyval, value, given->extra);
}

typedef int create_keyval_function(void*, void*, int*, void*);

static int create_keyval(create_keyval_function* next, void* caller, void* copy, void* remove,
                         int* keyval, void* extra) {
  int wrapped = tutti_is_split() && !tutti_is_fortran(caller);
  struct keyval* given = wrapped ? malloc(sizeof *given) : NULL;
  if (given == NULL) return next(copy, remove, keyval, extra);
  memcpy(&given->copy, &copy, sizeof copy);
  memcpy(&given->remove, &remove, sizeof remove);
  given->extra = extra;
  copy_function* own_copy = copy_attribute;
  delete_function* own_delete = delete_attribute;
  memcpy(&copy, &own_copy, sizeof copy);
  memcpy(&remove, &own_delete, sizeof remove);
  return next(copy, remove, keyval, given);
}

#define KEYVAL_FUNCTION(name)                                                                     \
  EXPORT int MPI_##name(void* copy, void* remove, int* keyval, void* extra) {                     \
    static void *next, *native;                                                                   \
    if (!tutti_program_calls(CALLER))                                                             \
      return ((create_keyval_function*)tutti_find_native("PMPI_" #name, &native))(copy, remove,   \
                                                                                  keyval, extra); \
    return create_keyval((create_keyval_function*)tutti_find_next("MPI_" #name, &next), CALLER,   \
                         copy, remove, keyval, extra);                                            \
  }                                                                                               \
  EXPORT create_keyval_function PMPI_##name __attribute__((alias("MPI_" #name)));

KEYVAL_FUNCTION(Comm_create_keyval)
KEYVAL_FUNCTION(Keyval_create)

/* ---- error handlers: a handler has no state, so each function of the program's gets a function of
 * its own here. */

typedef void error_function(void* comm, int* code, ...);

#define HANDLERS 64
/* The program's functions, appended under `lock`, read without it: an entry is stored before its
 * function is handed to the MPI. */
static error_function* given_handlers[HANDLERS];
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void call_handler(int index, const void* comm, int* code) {
  handle value = NULL;
  memcpy(&value, comm, tutti_worlds.handle_bytes);
  value = tutti_unworld(value);
  given_handlers[index](&value, code);
}

#define ONE(n) \
  static void handler_##n(void* comm, int* code, ...) { call_handler(n, comm, code); }
#define EIGHT(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define ALL(X) \
  EIGHT(X, 0)  \
  EIGHT(X, 01) EIGHT(X, 02) EIGHT(X, 03) EIGHT(X, 04) EIGHT(X, 05) EIGHT(X, 06) EIGHT(X, 07)
ALL(ONE) /* octal numbers, 00 to 077 */
#define ADDRESS(n) handler_##n,
static error_function* const handlers[HANDLERS] = {ALL(ADDRESS)};

/* The function to give to the MPI in the place of the program's; NULL when there are too many. */
static error_function* handler_of(error_function* given) {
  error_function* result = NULL;
  while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {
  }
  for (int i = 0; i < HANDLERS && result == NULL; i++) {
    if (given_handlers[i] == NULL) given_handlers[i] = given;
    if (given_handlers[i] == given) result = handlers[i];
  }
  atomic_flag_clear_explicit(&lock, memory_order_release);
  return result;
}

typedef int create_errhandler_function(error_function*, void*);

static int create_errhandler(create_errhandler_function* next, void* caller, error_function* given,
                             void* out) {
  if (!tutti_is_split() || given == NULL || tutti_is_fortran(caller)) return next(given, out);
  error_function* own = handler_of(given);
  if (own != NULL) return next(own, out);
  tutti_say("more than %d different error handlers are too many with --dcp-from-job", HANDLERS);
  return tutti_library_abi()->err_no_mem;
}

#define ERRHANDLER_FUNCTION(name)                                                                  \
  EXPORT int MPI_##name(error_function* given, void* out) {                                        \
    static void *next, *native;                                                                    \
    if (!tutti_program_calls(CALLER))                                                              \
      return ((create_errhandler_function*)tutti_find_native("PMPI_" #name, &native))(given, out); \
    return create_errhandler((create_errhandler_function*)tutti_find_next("MPI_" #name, &next),    \
                             CALLER, given, out);                                                  \
  }                                                                                                \
  EXPORT create_errhandler_function PMPI_##name __attribute__((alias("MPI_" #name)));

ERRHANDLER_FUNCTION(Comm_create_errhandler)
ERRHANDLER_FUNCTION(Errhandler_create)

/* Errors that belong to no communicator are raised on the world (Open MPI, Intel MPI), and that is
 * the one which the program has set this for. */
typedef int set_errhandler_function(handle, handle);

static int set_errhandler(set_errhandler_function* next, handle comm, handle handler) {
  handle own = tutti_world(comm);
  if (own != comm) {
    static void* native;
    ((set_errhandler_function*)tutti_find_native("PMPI_Comm_set_errhandler", &native))(comm,
                                                                                       handler);
  }
  return next(own, handler);
}

#define SET_FUNCTION(name)                                                                         \
  EXPORT int MPI_##name(handle comm, handle handler) {                                             \
    static void *next, *native;                                                                    \
    if (!tutti_program_calls(CALLER))                                                              \
      return ((set_errhandler_function*)tutti_find_native("PMPI_" #name, &native))(comm, handler); \
    return set_errhandler((set_errhandler_function*)tutti_find_next("MPI_" #name, &next), comm,    \
                          handler);                                                                \
  }                                                                                                \
  EXPORT set_errhandler_function PMPI_##name __attribute__((alias("MPI_" #name)));

SET_FUNCTION(Comm_set_errhandler)
SET_FUNCTION(Errhandler_set)
