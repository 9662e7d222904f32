/* MPI_COMM_WORLD wherever a program can meet it: its size is the first argument, and everything
 * that is made from it, handed to callbacks for it or asked about it must agree. */
#include <unistd.h>

#include "check.h"

static int rank, size;
static int copies, deletes, errors;
static int of_the_duplicate; /* its attribute */

static int copy(MPI_Comm comm, int keyval, void* extra, void* in, void* out, int* flag) {
  (void)keyval;
  CHECK(comm == MPI_COMM_WORLD && extra == &copies, "the copy callback got another communicator");
  CHECK(in == &rank, "the copy callback got another value");
  copies++;
  *(void**)out = &of_the_duplicate;
  *flag = 1;
  return MPI_SUCCESS;
}

static int delete_on_world(MPI_Comm comm, int keyval, void* value, void* extra) {
  (void)keyval, (void)extra;
  CHECK((comm == MPI_COMM_WORLD) == (value == &rank),
        "the delete callback got another communicator");
  deletes++;
  return MPI_SUCCESS;
}

static void handler(MPI_Comm* comm, int* code, ...) {
  CHECK(*comm == MPI_COMM_WORLD && *code == MPI_ERR_OTHER,
        "the error handler got another communicator");
  errors++;
}

static void attributes(void) {
  int keyval, found = 0, *tag;
  void* value = NULL;
  MPI_Comm dup;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag, &found);
  CHECK(found && *tag >= 32767, "MPI_TAG_UB");
  MPI_Comm_create_keyval(copy, delete_on_world, &keyval, &copies);
  MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &value, &found);
  CHECK(!found, "an attribute before it was set");
  MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &rank);
  MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &value, &found);
  CHECK(found && value == &rank, "an attribute");
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  MPI_Comm_get_attr(dup, keyval, &value, &found);
  CHECK(found && value == &of_the_duplicate && copies == 1, "an attribute of a duplicate");
  MPI_Comm_free(&dup);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  CHECK(deletes >= 2, "%d deletions", deletes);
  MPI_Comm_free_keyval(&keyval);
  MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
  MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  MPI_Comm_get_attr(dup, keyval, &value, &found);
  CHECK(found && value == &rank, "MPI_COMM_DUP_FN");
  MPI_Comm_free(&dup);
  MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  MPI_Comm_free_keyval(&keyval);
}

static void errhandlers(void) {
  MPI_Errhandler mine, found;
  MPI_Comm_create_errhandler(handler, &mine);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found);
  CHECK(found == mine, "the error handler");
  MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
  CHECK(errors == 1, "%d calls of the error handler", errors);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&found);
  MPI_Errhandler_free(&mine);
}

static void groups(void) {
  MPI_Group world, dup_group;
  MPI_Comm dup, made, self_and_world;
  int result, count, name_length;
  char name[MPI_MAX_OBJECT_NAME];
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_size(world, &count);
  CHECK(count == size, "the group has %d", count);
  MPI_Comm_dup(MPI_COMM_WORLD, &dup);
  MPI_Comm_compare(MPI_COMM_WORLD, dup, &result);
  CHECK(result == MPI_CONGRUENT, "a duplicate");
  MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
  CHECK(result == MPI_IDENT, "the same");
  MPI_Comm_group(dup, &dup_group);
  MPI_Group_compare(world, dup_group, &result);
  CHECK(result == MPI_IDENT, "the group of a duplicate");
  MPI_Comm_create(MPI_COMM_WORLD, world, &made);
  MPI_Comm_size(made, &count);
  CHECK(count == size, "MPI_Comm_create has %d", count);
  MPI_Comm_get_name(MPI_COMM_WORLD, name, &name_length);
  CHECK(strcmp(name, "MPI_COMM_WORLD") == 0, "the name is %s", name);
#ifdef MPI_ABI_VERSION
  CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD, "there and back");
#else
  CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD, "there and back");
#endif
  MPI_Comm_test_inter(MPI_COMM_WORLD, &result);
  CHECK(!result, "no intercommunicator");
  if (size > 1) { /* the world as the peer communicator */
    MPI_Comm half, inter;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &inter);
    MPI_Comm_remote_size(inter, &count);
    CHECK(count == (rank % 2 ? (size + 1) / 2 : size / 2), "the remote group has %d", count);
    MPI_Intercomm_merge(inter, rank % 2, &self_and_world);
    MPI_Comm_size(self_and_world, &count);
    CHECK(count == size, "merged: %d", count);
    MPI_Comm_free(&self_and_world);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
  }
  MPI_Comm_free(&made);
  MPI_Comm_free(&dup);
  MPI_Group_free(&world);
  MPI_Group_free(&dup_group);
}

static void messages(void) {
  int next = (rank + 1) % size, got = -1, flag = 0, packed = 0;
  char buffer[64];
  MPI_Status status;
  MPI_Sendrecv(&rank, 1, MPI_INT, next, 3, &got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD,
               &status);
  CHECK(got == (rank + size - 1) % size && status.MPI_SOURCE == got, "from %d", got);
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  CHECK(!flag, "a message that nobody sent");
  MPI_Pack(&rank, 1, MPI_INT, buffer, sizeof buffer, &packed, MPI_COMM_WORLD);
  packed = 0;
  MPI_Unpack(buffer, sizeof buffer, &packed, &got, 1, MPI_INT, MPI_COMM_WORLD);
  CHECK(got == rank, "packed");
}

static void objects(void) {
  int dims[1] = {0}, periods[1] = {1}, from, to, counts[64], displs[64], sum = 0;
  MPI_Comm ring;
  MPI_File file;
  char path[] = "/tmp/tutti-world-XXXXXX";
  MPI_Dims_create(size, 1, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
  MPI_Cart_shift(ring, 0, 1, &from, &to);
  CHECK(to == (rank + 1) % size, "the next in the ring is %d", to);
  MPI_Comm_free(&ring);
#if !defined(MPICH_NUMVERSION) || MPICH_NUMVERSION >= 40100000 /* Debian's 4.0 loses puts */
  MPI_Win window;
  int* cell = NULL;
  MPI_Win_allocate(sizeof *cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &cell, &window);
  *cell = -1;
  MPI_Win_fence(0, window);
  MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  CHECK(*cell == (rank + size - 1) % size, "the window has %d", *cell);
  MPI_Win_free(&window);
#endif
  for (int i = 0; i < size && i < 64; i++) counts[i] = 1, displs[i] = i;
  int all[64];
  MPI_Allgatherv(&rank, 1, MPI_INT, all, counts, displs, MPI_INT, MPI_COMM_WORLD);
  MPI_Exscan(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(rank == 0 || sum == rank * (rank - 1) / 2, "the sum before is %d", sum);
  int made = rank == 0 ? mkstemp(path) : -1;
  if (made >= 0) close(made);
  MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
  CHECK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE,
                      MPI_INFO_NULL, &file) == MPI_SUCCESS,
        "the file");
  MPI_File_write_at_all(file, (MPI_Offset)(rank * 4), &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_Offset bytes = 0;
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File_get_size(file, &bytes);
  CHECK(bytes == 4 * size, "the file has %d bytes", (int)bytes);
  MPI_File_close(&file);
}

#if MPI_VERSION >= 4
/* Every set that the MPI names has only processes of the program: its communicator can be used. */
static void sets(MPI_Session session) {
  int sets = 0;
  MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets);
  for (int i = 0; i < sets; i++) {
    int length = 0, told = 0, count = 0, flag = 0, text_length = 16;
    char name[MPI_MAX_PSET_NAME_LEN], text[16] = "";
    MPI_Group group;
    MPI_Info info;
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL);
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name);
    MPI_Group_from_session_pset(session, name, &group);
    MPI_Group_size(group, &count);
    CHECK(count <= size, "the set %s has %d", name, count);
    MPI_Session_get_pset_info(session, name, &info);
    MPI_Info_get_string(info, "mpi_size", &text_length, text, &flag);
    CHECK(flag && atoi(text) == count, "mpi_size of %s is %s, not %d", name, text, count);
    MPI_Info_free(&info);
    if (count > 0) {
      MPI_Comm comm;
      MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
      MPI_Comm_size(comm, &told);
      CHECK(told == count, "the communicator of %s has %d, not %d", name, told, count);
      MPI_Barrier(comm);
      MPI_Comm_free(&comm);
    }
    MPI_Group_free(&group);
  }
}

static void sessions(void) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  int count = 0, flag = 0, length = 16;
  char text[16] = "";
  MPI_Info info;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) return;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Group_size(group, &count);
  CHECK(count == size, "mpi://WORLD has %d", count);
  MPI_Session_get_pset_info(session, "mpi://WORLD", &info);
  MPI_Info_get_string(info, "mpi_size", &length, text, &flag);
  CHECK(flag && atoi(text) == size, "mpi_size is %s", text);
  MPI_Info_free(&info);
  MPI_Comm_create_from_group(group, "world", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  MPI_Comm_size(comm, &count);
  CHECK(count == size, "the communicator of a session has %d", count);
  MPI_Barrier(comm);
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  sets(session);
  MPI_Session_finalize(&session);
}
#endif

/* What is told of how the program was started. */
static void environment(void) {
  const char* const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "OMPI_WORLD_SIZE",
                                   "OMPI_MCA_num_procs"};
  const char* const keys[] = {"maxprocs", "soft", "ompi_np"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char* shown = getenv(variables[i]);
    CHECK(shown == NULL || atoi(shown) == size, "%s says %s", variables[i], shown);
  }
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    char value[64] = "";
    int found = 0;
    MPI_Info_get(MPI_INFO_ENV, keys[i], 63, value, &found);
    CHECK(!found || atoi(value) == size, "MPI_INFO_ENV: %s is %s", keys[i], value);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(size == atoi(argv[1]), "the world has %d", size);
  environment();
  attributes();
  errhandlers();
  groups();
  messages();
  objects();
#if MPI_VERSION >= 4
  sessions();
#endif
  return finish("world");
}
