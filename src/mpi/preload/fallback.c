/* Functions that tutti exports but this MPI does not have. A program such as mpi4py looks whether a
 * symbol exists and calls it when it does, so each must work: large counts are narrowed, the newer
 * request queries are made of MPI_Request_get_status, and what cannot be had is an MPI error. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/preload/preload.h"

static int raise_error(handle comm, int code) {
  int (*call)(handle, int) =
      (int (*)(handle, int))tutti_library_symbol("PMPI_Comm_call_errhandler");
  if (call != NULL) call(comm, code);
  return code;
}

int tutti_count_error(handle comm) {
  tutti_say("a count of more than 2147483647 elements, and this MPI has no large-count functions");
  return raise_error(comm, tutti_library_abi() != NULL ? tutti_library_abi()->err_count : 2);
}

/* ---- arrays of large-count calls */

typedef int comm_int(handle, int*);

/* A number that the MPI knows of a communicator. */
static int ask(const char* name, handle comm, int* out) {
  comm_int* function = (comm_int*)tutti_library_symbol(name);
  return function(comm, out);
}

static int neighbours(handle comm, int* sources, int* destinations) {
  const struct tutti_abi* abi = tutti_library_abi();
  int kind = 0, rank = 0, weighted = 0;
  int code = ask("PMPI_Topo_test", comm, &kind);
  if (code != 0) return code;
  if (kind == abi->cart) {
    code = ask("PMPI_Cartdim_get", comm, sources);
    *destinations = *sources *= 2;
  } else if (kind == abi->graph) {
    int (*count)(handle, int, int*) =
        (int (*)(handle, int, int*))tutti_library_symbol("PMPI_Graph_neighbors_count");
    code = ask("PMPI_Comm_rank", comm, &rank);
    if (code == 0) code = count(comm, rank, sources);
    *destinations = *sources;
  } else { /* or no topology at all, which is an error of the call */
    int (*count)(handle, int*, int*, int*) =
        (int (*)(handle, int*, int*, int*))tutti_library_symbol("PMPI_Dist_graph_neighbors_count");
    code = count(comm, sources, destinations, &weighted);
  }
  return code;
}

struct sizes {
  int partners, members, is_root, sources, destinations;
};

static int sizes_of(handle comm, int root, int topology, struct sizes* sizes) {
  int inter = 0, rank = 0;
  int code = ask("PMPI_Comm_test_inter", comm, &inter);
  if (code == 0) code = ask("PMPI_Comm_size", comm, &sizes->members);
  sizes->partners = sizes->members;
  if (code == 0 && inter) code = ask("PMPI_Comm_remote_size", comm, &sizes->partners);
  if (code == 0) code = ask("PMPI_Comm_rank", comm, &rank);
  sizes->is_root = inter ? root == tutti_library_abi()->root : root == rank;
  if (code == 0 && topology) code = neighbours(comm, &sizes->sources, &sizes->destinations);
  return code;
}

static int entries(const struct sizes* sizes, enum tutti_extent extent) {
  switch (extent) {
    case TUTTI_PARTNERS:
      return sizes->partners;
    case TUTTI_PARTNERS_OF_ROOT:
      return sizes->is_root ? sizes->partners : 0;
    case TUTTI_MEMBERS:
      return sizes->members;
    case TUTTI_SOURCES:
      return sizes->sources;
    default:
      return sizes->destinations;
  }
}

/* 0 when an entry does not fit. */
static int narrow_one(int* to, const long long* from, int count) {
  for (int i = 0; i < count; i++) {
    if (from[i] > 2147483647LL || from[i] < -2147483647LL) return 0;
    to[i] = (int)from[i];
  }
  return 1;
}

int tutti_narrow_arrays(struct tutti_narrow* narrow, const void* const wide[],
                        const enum tutti_extent extents[], int count, int root, handle comm) {
  struct sizes sizes = {0, 0, 0, 0, 0};
  size_t all = 0;
  int code = sizes_of(comm, root, extents[0] >= TUTTI_SOURCES, &sizes);
  if (code != 0) return code;
  for (int i = 0; i < count; i++) all += (size_t)entries(&sizes, extents[i]);
  narrow->memory = malloc(sizeof(int) * (all > 0 ? all : 1));
  if (narrow->memory == NULL) return raise_error(comm, tutti_library_abi()->err_no_mem);
  int* place = narrow->memory;
  for (int i = 0; i < count; i++) {
    int number = entries(&sizes, extents[i]);
    /* Not there: not the root, or a send side that MPI_IN_PLACE leaves out. */
    narrow->arrays[i] = wide[i] == NULL ? NULL : place;
    if (wide[i] != NULL && !narrow_one(place, wide[i], number)) {
      free(narrow->memory);
      return tutti_count_error(comm);
    }
    place += number;
  }
  return 0;
}

/* Arrays of calls that may still run, by request handle. A request handle that comes back from a
 * later call shows that the earlier one is over. Guarded by `lock`. */
struct kept {
  handle request;
  int* arrays;
  struct kept* next;
};
static struct kept* kept;
static atomic_flag lock = ATOMIC_FLAG_INIT;

void tutti_narrow_done(struct tutti_narrow* narrow, void* request) {
  if (request == NULL) {
    free(narrow->memory);
    return;
  }
  handle value = NULL;
  /* Only Open MPI lacks large counts, and its handles are pointers. */
  memcpy(&value, request, sizeof value);
  while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) {
  }
  struct kept* entry = kept;
  while (entry != NULL && entry->request != value) entry = entry->next;
  if (entry == NULL && (entry = malloc(sizeof *entry)) != NULL) {
    *entry = (struct kept){value, NULL, kept};
    kept = entry;
  }
  if (entry != NULL) {
    free(entry->arrays);
    entry->arrays = narrow->memory;
  }
  atomic_flag_clear_explicit(&lock, memory_order_release);
}

/* ---- request queries of MPI-4.1, for older MPIs */

static handle request_at(const void* requests, int index) {
  if (strcmp(tutti_library_abi()->name, "mpich") == 0) {
    return (handle)(uintptr_t)(unsigned)((const int*)requests)[index];
  }
  return ((const handle*)requests)[index];
}

static void* status_at(void* statuses, int index) {
  const struct tutti_abi* abi = tutti_library_abi();
  if ((uintptr_t)statuses == abi->status_ignore) return statuses;
  return (char*)statuses + abi->status_bytes * (size_t)index;
}

typedef int get_status_function(handle, int*, void*);

static get_status_function* get_status(void) {
  return (get_status_function*)tutti_native(TUTTI_MPI_Request_get_status, NULL);
}

static int get_status_all(int count, const void* requests, int* flag, void* statuses) {
  void* ignore = (void*)tutti_library_abi()->status_ignore;
  *flag = 1;
  for (int i = 0; i < count && *flag; i++) {
    int code = get_status()(request_at(requests, i), flag, ignore);
    if (code != 0) return code;
  }
  for (int i = 0; i < count && *flag && statuses != ignore; i++) {
    int done = 0;
    int code = get_status()(request_at(requests, i), &done, status_at(statuses, i));
    if (code != 0) return code;
  }
  return 0;
}

static handle null_request(void) {
  return tutti_constant_value(&tutti_library_abi()->request_null);
}

static int get_status_any(int count, const void* requests, int* index, int* flag, void* status) {
  *flag = 0;
  *index = tutti_library_abi()->undefined;
  int live = 0;
  for (int i = 0; i < count; i++) {
    handle request = request_at(requests, i);
    if (request == null_request()) continue;
    live = 1;
    int code = get_status()(request, flag, status);
    if (code != 0) return code;
    if (*flag) {
      *index = i;
      return 0;
    }
  }
  if (live) return 0;
  /* Nothing but null requests: true, and the empty status, whose error is MPI_SUCCESS, while
   * MPI_Request_get_status leaves the error alone. */
  int code = get_status()(null_request(), flag, status);
  const struct tutti_abi* abi = tutti_library_abi();
  if (code == 0 && (uintptr_t)status != abi->status_ignore) {
    memset((char*)status + abi->status_error, 0, sizeof(int));
  }
  return code;
}

static int get_status_some(int count, const void* requests, int* outcount, int* indices,
                           void* statuses) {
  *outcount = 0;
  int live = 0;
  for (int i = 0; i < count; i++) {
    handle request = request_at(requests, i);
    if (request == null_request()) continue;
    live = 1;
    int flag = 0;
    int code = get_status()(request, &flag, status_at(statuses, *outcount));
    if (code != 0) return code;
    if (flag) indices[(*outcount)++] = i;
  }
  if (!live) *outcount = tutti_library_abi()->undefined;
  return 0;
}

/* ---- what cannot be had */

static int unsupported(void) {
  const struct tutti_abi* abi = tutti_library_abi();
  tutti_say("this MPI lacks a function that the program calls");
  return raise_error(tutti_constant_value(&abi->comm_world), abi->err_unsupported);
}

/* Older MPICHs convert request handles by macros in mpi.h: they are integers. */
static int same_integer(int handle_or_index) { return handle_or_index; }

static void* conversion(const char* name) {
  void* found = tutti_library_symbol(name);
  const int integers = strcmp(tutti_library_abi()->name, "mpich") == 0;
  return found == NULL && integers ? (void*)same_integer : found;
}

void* tutti_replacement(enum tutti_mpi_function index) {
  switch (index) {
    case TUTTI_MPI_Request_get_status_all:
      return (void*)get_status_all;
    case TUTTI_MPI_Request_get_status_any:
      return (void*)get_status_any;
    case TUTTI_MPI_Request_get_status_some:
      return (void*)get_status_some;
    case TUTTI_MPI_Request_toint: /* the same conversion under its newer name */
      return conversion("PMPI_Request_c2f");
    case TUTTI_MPI_Request_fromint:
      return conversion("PMPI_Request_f2c");
    case TUTTI_MPI_Request_c2f:
      return conversion("PMPI_Request_toint");
    case TUTTI_MPI_Request_f2c:
      return conversion("PMPI_Request_fromint");
    case TUTTI_MPI_Message_toint:
      return conversion("PMPI_Message_c2f");
    case TUTTI_MPI_Message_fromint:
      return conversion("PMPI_Message_f2c");
    case TUTTI_MPI_Message_c2f:
      return conversion("PMPI_Message_toint");
    case TUTTI_MPI_Message_f2c:
      return conversion("PMPI_Message_fromint");
    default:
      return (void*)unsupported;
  }
}
