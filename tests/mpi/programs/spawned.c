/* Two worlds that come together, by MPI_Comm_spawn, and two halves of one that connect by a port:
 * collectives between the groups and on what is merged of them, among others of the own world. The
 * processes that are spawned may be without tutti. */
#include "check.h"

static int rank, size;

/* Of the own world, as if nothing else were there. */
static void at_home(void) {
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == size * (size - 1) / 2, "at home: %d", sum);
}

/* Each member gives `mine`; those of the other group give `theirs` together. `first`: the group
 * that has the root. */
static void between(MPI_Comm inter, int first, int mine, int theirs) {
  int sum = 0, members, me, all[16] = {0}, token = first ? 7 : 0;
  MPI_Request request;
  MPI_Comm_remote_size(inter, &members);
  MPI_Comm_rank(inter, &me);
  MPI_Barrier(inter);
  MPI_Bcast(&token, 1, MPI_INT, !first ? 0 : me == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
  CHECK(token == 7, "a broadcast between groups: %d", token);
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter);
  CHECK(sum == theirs, "a sum between groups: %d, not %d", sum, theirs);
  at_home();
  MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, inter);
  sum = 0;
  for (int i = 0; i < members; i++) sum += all[i];
  CHECK(sum == theirs, "gathered between groups: %d, not %d", sum, theirs);
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, inter, &request);
  at_home();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(sum == theirs, "a pending sum between groups: %d, not %d", sum, theirs);
  MPI_Ibarrier(inter, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void sum_of(MPI_Comm comm, int mine, int all, const char* what) {
  int sum = 0;
  MPI_Request request;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == all, "%s: %d, not %d", what, sum, all);
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
  at_home();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(sum == all, "%s, pending: %d, not %d", what, sum, all);
}

/* What is made of both groups together. */
static void merged(MPI_Comm inter, int high, int mine, int all) {
  MPI_Comm whole, copy, half;
  MPI_Intercomm_merge(inter, high, &whole);
  sum_of(whole, mine, all, "merged");
  MPI_Comm_dup(whole, &copy);
  sum_of(copy, mine, all, "a duplicate of what was merged");
  MPI_Comm_split(whole, high, 0, &half);
  MPI_Barrier(half);
  MPI_Comm_free(&half);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&whole);
}

static void spawn(char* program) {
  MPI_Comm children;
  char child[] = "child";
  char* arguments[] = {child, NULL};
  MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                 MPI_ERRCODES_IGNORE);
  between(children, 1, 1, 2 * 100);
  merged(children, 0, 1, size + 2 * 100);
  MPI_Comm_disconnect(&children);
}

/* Ranks with even numbers open a port for those with odd ones. */
static void connect(void) {
  MPI_Comm half, inter;
  const int odd = rank % 2, evens = (size + 1) / 2, odds = size / 2;
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Comm_split(MPI_COMM_WORLD, odd, rank, &half);
  if (rank == 0) {
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (odd)
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
  else
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
  between(inter, !odd, odd ? 100 : 1, odd ? evens : odds * 100);
  merged(inter, odd, odd ? 100 : 1, evens + odds * 100);
  MPI_Comm_disconnect(&inter);
  MPI_Comm_free(&half);
  if (rank == 0) MPI_Close_port(port);
}

int main(int argc, char** argv) {
  MPI_Comm parent;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_get_parent(&parent);
  if (parent != MPI_COMM_NULL) {
    int parents;
    MPI_Comm_remote_size(parent, &parents);
    between(parent, 0, 100, parents);
    merged(parent, 1, 100, parents + 2 * 100);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return failures != 0;
  }
  at_home();
  if (argc > 1 && strcmp(argv[1], "connect") == 0)
    connect();
  else
    spawn(argv[0]);
  at_home();
  return finish("spawned");
}
