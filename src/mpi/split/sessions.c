/* Sessions: sets of processes ("mpi://WORLD", "mpix://SHARED") without the dedicated processors. */
#include <stdio.h>
#include <string.h>

#include "mpi/split/split.h"

#define CALLER __builtin_return_address(0)

typedef int group_function(handle, const char*, void*);
typedef int incl_function(handle, int, const int*, void*);
typedef int difference_function(handle, handle, void*);
typedef int free_function(void*);
typedef int size_function(handle, int*);

static handle load(const void* place) {
  handle value = NULL;
  memcpy(&value, place, tutti_worlds.handle_bytes);
  return value;
}

/* The processes of a set that are the program's. Groups of one session alone are compared: the
 * dedicated processors are named by their ranks in this session's own world. */
static int program_group(handle session, const char* set, void* group) {
  static void *native, *incl, *difference, *release;
  group_function* group_of = tutti_find_native("PMPI_Group_from_session_pset", &native);
  free_function* free_group = tutti_find_native("PMPI_Group_free", &release);
  unsigned char members[sizeof(handle)], world[sizeof(handle)], dedicated[sizeof(handle)];
  int code = group_of(session, set, members);
  if (code != 0) return code;
  code = group_of(session, "mpi://WORLD", world);
  if (code == 0) {
    code = ((incl_function*)tutti_find_native("PMPI_Group_incl", &incl))(
        load(world), tutti_worlds.processor_count, tutti_worlds.processors, dedicated);
    free_group(world);
  }
  if (code == 0) {
    code = ((difference_function*)tutti_find_native("PMPI_Group_difference", &difference))(
        load(members), load(dedicated), group);
    free_group(dedicated);
  }
  free_group(members);
  return code;
}

EXPORT int MPI_Group_from_session_pset(handle session, const char* set, void* group) {
  static void *next, *native, *release;
  if (!tutti_program_calls(CALLER))
    return ((group_function*)tutti_find_native("PMPI_Group_from_session_pset", &native))(
        session, set, group);
  int code =
      ((group_function*)tutti_find_next("MPI_Group_from_session_pset", &next))(session, set, group);
  if (code != 0 || !tutti_is_split()) return code;
  ((free_function*)tutti_find_native("PMPI_Group_free", &release))(group);
  return program_group(session, set, group);
}
EXPORT group_function PMPI_Group_from_session_pset
    __attribute__((alias("MPI_Group_from_session_pset")));

typedef int info_set_function(handle, const char*, const char*);

EXPORT int MPI_Session_get_pset_info(handle session, const char* set, void* info) {
  static void *next, *native, *size_of, *set_value, *release;
  if (!tutti_program_calls(CALLER))
    return ((group_function*)tutti_find_native("PMPI_Session_get_pset_info", &native))(session, set,
                                                                                       info);
  int code =
      ((group_function*)tutti_find_next("MPI_Session_get_pset_info", &next))(session, set, info);
  if (code != 0 || !tutti_is_split()) return code;
  unsigned char group[sizeof(handle)];
  int size = 0;
  char text[16];
  code = program_group(session, set, group);
  if (code != 0) return code;
  ((size_function*)tutti_find_native("PMPI_Group_size", &size_of))(load(group), &size);
  ((free_function*)tutti_find_native("PMPI_Group_free", &release))(group);
  snprintf(text, sizeof text, "%d", size);
  return ((info_set_function*)tutti_find_native("PMPI_Info_set", &set_value))(load(info),
                                                                              "mpi_size", text);
}
EXPORT group_function PMPI_Session_get_pset_info
    __attribute__((alias("MPI_Session_get_pset_info")));
