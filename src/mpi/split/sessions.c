/* Sessions: the set of processes "mpi://WORLD" without the dedicated processors. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "mpi/split/split.h"

#define CALLER __builtin_return_address(0)

static int is_world(const char* set) { return strcasecmp(set, "mpi://WORLD") == 0; }

typedef int group_function(handle, const char*, void*);
typedef int excl_function(handle, int, const int*, void*);
typedef int free_function(void*);
typedef int size_function(handle, int*);

static handle load(const void* place) {
  handle value = NULL;
  memcpy(&value, place, tutti_worlds.handle_bytes);
  return value;
}

EXPORT int MPI_Group_from_session_pset(handle session, const char* set, void* group) {
  static void *next, *native, *excl, *release;
  if (!tutti_program_calls(CALLER))
    return ((group_function*)tutti_find_native("PMPI_Group_from_session_pset", &native))(
        session, set, group);
  int code =
      ((group_function*)tutti_find_next("MPI_Group_from_session_pset", &next))(session, set, group);
  if (code != 0 || !tutti_is_split() || !is_world(set)) return code;
  unsigned char everybody[sizeof(handle)];
  memcpy(everybody, group, tutti_worlds.handle_bytes);
  code = ((excl_function*)tutti_find_native("PMPI_Group_excl", &excl))(
      load(everybody), tutti_worlds.processor_count, tutti_worlds.processors, group);
  ((free_function*)tutti_find_native("PMPI_Group_free", &release))(everybody);
  return code;
}
EXPORT group_function PMPI_Group_from_session_pset
    __attribute__((alias("MPI_Group_from_session_pset")));

typedef int info_set_function(handle, const char*, const char*);

EXPORT int MPI_Session_get_pset_info(handle session, const char* set, void* info) {
  static void *next, *native, *size_of, *set_value;
  if (!tutti_program_calls(CALLER))
    return ((group_function*)tutti_find_native("PMPI_Session_get_pset_info", &native))(session, set,
                                                                                       info);
  int code =
      ((group_function*)tutti_find_next("MPI_Session_get_pset_info", &next))(session, set, info);
  if (code != 0 || !tutti_is_split() || !is_world(set)) return code;
  int size = 0;
  char text[16];
  ((size_function*)tutti_find_native("PMPI_Comm_size", &size_of))((handle)tutti_worlds.apps, &size);
  snprintf(text, sizeof text, "%d", size);
  return ((info_set_function*)tutti_find_native("PMPI_Info_set", &set_value))(load(info),
                                                                              "mpi_size", text);
}
EXPORT group_function PMPI_Session_get_pset_info
    __attribute__((alias("MPI_Session_get_pset_info")));
