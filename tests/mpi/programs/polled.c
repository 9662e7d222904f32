/* Rank 1 dies, or stays away for ever, before the first communication; the others only poll for it,
 * with the function that the first argument names. When they are told they say so in a file of
 * their rank (a launcher that stops a job may lose what is printed) and exit with status 7.
 * polled FUNCTION FOLDER [away] */
#include <signal.h>
#include <unistd.h>

#include "check.h"

static int poll_once(const char* what, MPI_Request* requests, int* flag) {
  int index, indices[2], count = 0, error;
  if (strcmp(what, "testany") == 0)
    return MPI_Testany(2, requests, &index, flag, MPI_STATUS_IGNORE);
  if (strcmp(what, "testall") == 0) return MPI_Testall(2, requests, flag, MPI_STATUSES_IGNORE);
  if (strcmp(what, "testsome") == 0) {
    error = MPI_Testsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
    *flag = count != 0;
    return error;
  }
  if (strcmp(what, "status") == 0) {
    error = MPI_Request_get_status(requests[0], flag, MPI_STATUS_IGNORE);
    return error != MPI_SUCCESS || !*flag ? error : MPI_Wait(requests, MPI_STATUS_IGNORE);
  }
  if (strcmp(what, "iprobe") == 0) return MPI_Iprobe(1, 1, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE);
  if (strcmp(what, "iprobe_any") == 0)
    return MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE);
  return MPI_Test(requests, flag, MPI_STATUS_IGNORE);
}

int main(int argc, char** argv) {
  const char* what = argv[1];
  char name[4096];
  int rank, error, flag = 0, class = 0, x = 0;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  signal(SIGTERM, SIG_IGN);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 1 && argc > 3) sleep(5);
  if (rank == 1) raise(SIGKILL);
  const double began = MPI_Wtime();
  if (strcmp(what, "receive") == 0) {
    error = MPI_Irecv(&x, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, requests);
  } else if (strcmp(what, "receive_any") == 0) {
    error = MPI_Irecv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, requests);
  } else {
    error = MPI_Ibcast(&x, 1, MPI_INT, 1, MPI_COMM_WORLD, requests);
  }
  while (error == MPI_SUCCESS && !flag) error = poll_once(what, requests, &flag);
  MPI_Error_class(error, &class);
  snprintf(name, sizeof name, "%s/%d", argv[2], rank);
  FILE* file = fopen(name, "w");
  fprintf(file, "was told after %.1f s: error class %d\n", MPI_Wtime() - began, class);
  fclose(file);
  _exit(7);
}
