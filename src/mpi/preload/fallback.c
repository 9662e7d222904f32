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

int tutti_narrow_arrays(struct tutti_narrow* narrow, const void* recvcounts, const void* displs,
                        handle comm) {
  const struct tutti_abi* abi = tutti_library_abi();
  int (*size_of)(handle, int*) =
      (int (*)(handle, int*))tutti_library_symbol("PMPI_Comm_remote_size");
  int (*is_inter)(handle, int*) =
      (int (*)(handle, int*))tutti_library_symbol("PMPI_Comm_test_inter");
  int inter = 0, size = 0;
  int code = is_inter(comm, &inter);
  if (!inter) size_of = (int (*)(handle, int*))tutti_library_symbol("PMPI_Comm_size");
  if (code == 0) code = size_of(comm, &size);
  if (code != 0) return code;
  narrow->recvcounts = malloc(2 * sizeof(int) * (size_t)(size > 0 ? size : 1));
  if (narrow->recvcounts == NULL) return raise_error(comm, abi->err_no_mem);
  narrow->displs = narrow->recvcounts + size;
  const long long* counts = recvcounts;
  const intptr_t* offsets = displs;
  for (int i = 0; i < size; i++) {
    if (counts[i] > 2147483647LL || offsets[i] > 2147483647LL || offsets[i] < -2147483647LL) {
      free(narrow->recvcounts);
      return tutti_count_error(comm);
    }
    narrow->recvcounts[i] = (int)counts[i];
    narrow->displs[i] = (int)offsets[i];
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
    free(narrow->recvcounts);
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
    entry->arrays = narrow->recvcounts;
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
