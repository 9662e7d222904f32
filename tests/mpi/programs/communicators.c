/* Communicators of every origin, by the thousand, and what may go wrong between their lives. */
#include "check.h"

static int rank, size;
static int* unweighted; /* hides the constant from a warning of gcc's */

/* A sum over the communicator of the members' world ranks, computed twice. */
static void use(MPI_Comm comm, const char* origin) {
  int mine = rank, sum = 0, expected = 0, n;
  MPI_Comm_size(comm, &n);
  int* all = malloc(sizeof(int) * (size_t)n);
  MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
  for (int i = 0; i < n; i++) expected += all[i];
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == expected, "%s: %d, not %d", origin, sum, expected);
  free(all);
}

static void test_many(int rounds) {
  for (int i = 0; i < rounds; i++) {
    MPI_Comm a, b;
    MPI_Comm_dup(MPI_COMM_WORLD, &a);
    MPI_Comm_split(a, rank % 2, -rank, &b);
    use(a, "dup");
    use(b, "split");
    MPI_Comm_free(&a);
    use(b, "split of a communicator that is gone");
    MPI_Comm_free(&b);
  }
}

static void test_origins(void) {
  MPI_Comm comm, other;
  MPI_Group world, group;
  MPI_Request request;
  MPI_Comm_group(MPI_COMM_WORLD, &world);

  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
  use(comm, "split_type");
  MPI_Comm_free(&comm);

  MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &comm);
  use(comm, "dup_with_info");
  MPI_Comm_free(&comm);

  MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Comm_idup(comm, &other, &request); /* of a communicator that has not been used yet */
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  use(other, "idup of idup");
  use(comm, "idup");
  MPI_Comm_free(&other);
  MPI_Comm_idup(comm, &other, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  int mine = 1, sum = 0;
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, other, &request); /* first use is non-blocking */
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(sum == size, "non-blocking on a new idup");
  use(other, "idup again");
  MPI_Comm_free(&other);
  MPI_Comm_free(&comm);

  int range[1][3] = {{size - 1, 0, -1}}; /* all, backwards */
  MPI_Group_range_incl(world, 1, range, &group);
  MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
  use(comm, "create");
  MPI_Comm_free(&comm);
  MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &comm);
  use(comm, "create_group");
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  if (size > 2) { /* some ranks only */
    int out[1] = {0};
    MPI_Group_excl(world, 1, out, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
    CHECK((comm == MPI_COMM_NULL) == (rank == 0), "create without rank 0");
    if (comm != MPI_COMM_NULL) {
      use(comm, "create of a part");
      MPI_Comm_free(&comm);
    }
    if (rank != 0) {
      MPI_Comm_create_group(MPI_COMM_WORLD, group, 9, &comm);
      use(comm, "create_group of a part");
      MPI_Comm_free(&comm);
    }
    MPI_Group_free(&group);
  }

  int dims[2] = {0, 0}, periods[2] = {1, 0}, remain[2] = {0, 1};
  MPI_Dims_create(size, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &comm);
  use(comm, "cart_create");
  MPI_Cart_sub(comm, remain, &other);
  use(other, "cart_sub");
  MPI_Comm_free(&other);
  MPI_Comm_free(&comm);

  int next = (rank + 1) % size, degree = 1;
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &next, unweighted, MPI_INFO_NULL, 0,
                        &comm);
  use(comm, "dist_graph_create");
  MPI_Comm_free(&comm);
  int previous = (rank + size - 1) % size;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &previous, unweighted, 1, &next, unweighted,
                                 MPI_INFO_NULL, 0, &comm);
  use(comm, "dist_graph_create_adjacent");
  MPI_Comm_free(&comm);

  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &comm);
  CHECK((comm == MPI_COMM_NULL) == (rank == 0), "split with undefined");
  if (comm != MPI_COMM_NULL) {
    use(comm, "split without rank 0");
    MPI_Comm_free(&comm);
  }
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  use(comm, "dup of self");
  MPI_Comm_free(&comm);
  MPI_Group_free(&world);
}

/* Intercommunicators and what is merged from them are the MPI's. */
static void test_inter(void) {
  if (size < 2) return;
  MPI_Comm half, inter, merged;
  int side = rank % 2, sum = 0, mine = rank, expected = 0;
  MPI_Comm_split(MPI_COMM_WORLD, side, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 5, &inter);
  for (int r = 1 - side; r < size; r += 2) expected += r;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
  CHECK(sum == expected, "allreduce over an intercommunicator: %d, not %d", sum, expected);
  MPI_Barrier(inter);
  MPI_Intercomm_merge(inter, side, &merged);
  use(merged, "intercomm_merge");
  MPI_Comm_free(&merged);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

#ifdef HAVE_PERSISTENT_COLLECTIVES /* and with them sessions */
/* Of a session beside the world, of all ranks and of some; twice by the same name. */
static void test_sessions(void) {
  MPI_Session session;
  MPI_Group all, some;
  MPI_Comm comm;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) return;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
  for (int turn = 0; turn < 2; turn++) {
    MPI_Comm_create_from_group(all, "all", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    use(comm, "create_from_group");
    MPI_Comm_free(&comm);
  }
  int out[1] = {0};
  MPI_Group_excl(all, 1, out, &some);
  if (rank != 0) {
    MPI_Comm_create_from_group(some, "some", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    use(comm, "create_from_group of a part");
    MPI_Comm_free(&comm);
  }
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  MPI_Session_finalize(&session);
}
#endif

/* Freed while a collective on it is pending; disconnected after one. Open MPI 5.0.11 by itself
 * crashes when a communicator is freed under a pending collective, so that part needs "served". */
static int served;
static void test_pending(void) {
  MPI_Comm comm;
  MPI_Request request;
  int mine = rank, sum = 0;
  for (int i = 0; i < 50; i++) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    if (served) MPI_Comm_free(&comm);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!served) MPI_Comm_free(&comm);
    CHECK(sum == size * (size - 1) / 2, "freed while pending");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&comm);
  }
}

/* The user's own attributes are copied and deleted as before. */
static int copies, deletions;
static int on_copy(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key, (void)extra;
  copies++;
  *(void**)out = in;
  *flag = 1;
  return MPI_SUCCESS;
}
static int on_delete(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  deletions++;
  return MPI_SUCCESS;
}
static void test_attributes(void) {
  MPI_Comm a, b;
  int key, token = 5, found = 0, *value = NULL;
  MPI_Comm_create_keyval(on_copy, on_delete, &key, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &a);
  MPI_Comm_set_attr(a, key, &token);
  MPI_Comm_dup(a, &b);
  MPI_Comm_get_attr(b, key, &value, &found);
  CHECK(found && value == &token && copies == 1, "attribute was not copied");
  MPI_Comm_free(&a);
  MPI_Comm_free(&b);
  CHECK(deletions == 2, "%d attributes deleted", deletions);
  MPI_Comm_free_keyval(&key);
}

/* Callbacks of attributes may communicate, also over the communicator that is being copied or
 * freed. */
static MPI_Comm late;
static void sum_over(MPI_Comm comm, const char* where) {
  int one = 1, sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == size, "in %s: %d, not %d", where, sum, size);
}
static int copy_and_sum(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)key, (void)extra;
  sum_over(comm, "a copy callback");
  *(void**)out = in;
  *flag = 1;
  return MPI_SUCCESS;
}
static int sum_and_delete(MPI_Comm comm, int key, void* value, void* extra) {
  (void)key, (void)value, (void)extra;
  sum_over(comm, "a delete callback");
  return MPI_SUCCESS;
}
/* Inside MPI_Finalize, where a failure can only end the program. */
static int end_of_self(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  sum_over(late, "the delete callback of MPI_COMM_SELF");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_free(&late);
  if (failures != 0) MPI_Abort(MPI_COMM_WORLD, 3);
  return MPI_SUCCESS;
}
static void test_callbacks(void) {
  MPI_Comm a, b;
  int key, end, token = 1;
  MPI_Comm_create_keyval(copy_and_sum, sum_and_delete, &key, NULL);
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_of_self, &end, NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &late);
  MPI_Comm_set_attr(MPI_COMM_SELF, end, &token);
  for (int i = 0; i < 20; i++) {
    MPI_Comm_dup(MPI_COMM_WORLD, &a);
    MPI_Comm_set_attr(a, key, &token);
    sum_over(a, "a duplicate");
    MPI_Comm_dup(a, &b);
    MPI_Comm_free(&a);
    sum_over(b, "a duplicate of one that is gone");
    MPI_Comm_free(&b);
  }
  MPI_Comm_free_keyval(&key);
}

/* MPI_Comm_idup does not communicate, nor does what follows it have to come in one order of
 * blocking and non-blocking: each rank has its own here. */
static void test_idup_orders(void) {
  for (int i = 0; i < 10; i++) {
    MPI_Comm comm;
    MPI_Request request;
    int one = 1, sum = 0;
    MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if ((rank + i) % 2 == 0) {
      MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
      MPI_Barrier(comm);
    } else {
      MPI_Barrier(comm);
      MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(sum == size, "on an idup, in two orders: %d", sum);
    MPI_Comm_free(&comm);
  }
}

/* Many alive at once: used for messages only, for one kind of collective, for all. */
static void test_alive(int count) {
  MPI_Comm* comms = malloc(sizeof(MPI_Comm) * (size_t)count);
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (int i = 0; i < count; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  for (int i = 0; i < count; i++) {
    int out = i, in = -1, sum = 0, one = 1;
    MPI_Request request;
    MPI_Sendrecv(&out, 1, MPI_INT, next, 0, &in, 1, MPI_INT, previous, 0, comms[i],
                 MPI_STATUS_IGNORE);
    CHECK(in == i, "message %d over communicator %d", in, i);
    if (i % 4 == 0) continue;
    if (i % 4 != 1) {
      MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[i], &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      CHECK(sum == size, "non-blocking, communicator %d: %d", i, sum);
    }
    if (i % 4 != 2) sum_over(comms[i], "one of many communicators");
  }
  for (int i = 0; i < count; i++) MPI_Comm_free(&comms[rank % 2 ? i : count - 1 - i]);
  free(comms);
}

/* MPI_Comm_create_group is called by the group alone: several groups of one parent, in orders of
 * their own, with one tag and with others. */
static void test_groups(void) {
  MPI_Group world, group;
  MPI_Comm comm;
  if (size < 3) return;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  for (int i = 0; i < 6; i++) {
    for (int k = 0; k < size; k++) { /* all but one, whom it does not concern */
      const int out = (k + i) % size;
      if (out == rank) continue;
      MPI_Group_excl(world, 1, &out, &group);
      MPI_Comm_create_group(MPI_COMM_WORLD, group, i % 2 ? out : 3, &comm);
      use(comm, "one of many groups");
      MPI_Comm_free(&comm);
      MPI_Group_free(&group);
    }
  }
  MPI_Group_free(&world);
}

int main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 2500; /* more than MPICH has communicators at a time */
  served = argc > 2 && strcmp(argv[2], "served") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  use(MPI_COMM_WORLD, "world");
  use(MPI_COMM_SELF, "self");
  unweighted = MPI_UNWEIGHTED;
  test_origins();
  test_inter();
#ifdef HAVE_PERSISTENT_COLLECTIVES
  test_sessions();
#endif
  test_pending();
  test_attributes();
  /* Intel MPI 2021.18 by itself hangs in them with 4 ranks. */
  if (served || size < 4) test_callbacks();
  test_idup_orders();
  test_groups();
  test_alive(rounds < 300 ? rounds : 300);
  test_many(rounds);
  return finish("communicators");
}
