/* Legal programs that hang when a collective waits on memory alone: rank 0 has sends pending inside
 * the MPI when it enters the collective, and rank 1 receives them before it does. Also the
 * converse: a non-blocking collective is pending while the program blocks in the MPI. */
#include "check.h"

static int rank, size;
static char* out;
static char* in;

/* `messages` of `bytes` from every even rank to the next odd one. */
static void sends_pending(int messages, size_t bytes) {
  int partner = rank ^ 1, mine = rank, sum = 0;
  MPI_Request* requests = malloc(sizeof *requests * (size_t)messages);
  if (partner >= size) {
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  } else if (rank % 2 == 0) {
    for (int i = 0; i < messages; i++)
      MPI_Isend(out, (int)bytes, MPI_CHAR, partner, 1, MPI_COMM_WORLD, &requests[i]);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
  } else {
    for (int i = 0; i < messages; i++)
      MPI_Recv(in, (int)bytes, MPI_CHAR, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  CHECK(sum == size * (size - 1) / 2, "sum with %d sends of %zu pending", messages, bytes);
  free(requests);
}

/* The same inside MPI_Waitany on a mixed array, and in polling loops. */
static void wait_mixed(size_t bytes, int polling) {
  int partner = rank ^ 1, mine = rank, sum = 0, flag = 0;
  MPI_Request requests[2];
  if (partner < size && rank % 2 == 0) {
    MPI_Isend(out, (int)bytes, MPI_CHAR, partner, 2, MPI_COMM_WORLD, &requests[0]);
  } else if (partner < size) {
    MPI_Recv(in, (int)bytes, MPI_CHAR, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    requests[0] = MPI_REQUEST_NULL;
  } else {
    requests[0] = MPI_REQUEST_NULL;
  }
  MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
  while (polling && !flag) MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
  if (polling)
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  else
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(sum == size * (size - 1) / 2, "sum with %zu bytes, mixed", bytes);
}

/* A non-blocking collective of everybody, then a message that the other side sends only once it has
 * completed the collective: the receiver blocks in the MPI, so tutti must progress by itself. */
static void blocked_in_mpi(int elements) {
  int partner = rank ^ 1, token = 0;
  double* mine = malloc(sizeof(double) * (size_t)elements);
  double* sum = malloc(sizeof(double) * (size_t)elements);
  for (int i = 0; i < elements; i++) mine[i] = rank + i;
  MPI_Request request;
  MPI_Iallreduce(mine, sum, elements, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  if (partner < size && rank % 2 == 1) {
    MPI_Recv(&token, 1, MPI_INT, partner, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else {
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (partner < size) MPI_Send(&token, 1, MPI_INT, partner, 3, MPI_COMM_WORLD);
  }
  for (int i = 0; i < elements; i++) {
    if (sum[i] == size * (size - 1) / 2.0 + (double)size * i) continue;
    CHECK(0, "sum while blocked in the MPI, element %d", i);
    break;
  }
  free(mine);
  free(sum);
}

int main(int argc, char** argv) {
  static const size_t sizes[] = {1, 1024, 4096, 16384, 65536, 1 << 20, 1 << 24};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  out = calloc(1, 1 << 24);
  in = calloc(1, 1 << 24);
  sends_pending(5000, 1024);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    sends_pending(4, sizes[i]);
    wait_mixed(sizes[i], 0);
    wait_mixed(sizes[i], 1);
  }
  for (int elements = 1; elements <= 1000000; elements *= 10) blocked_in_mpi(elements);
  free(out);
  free(in);
  return finish("deadlock");
}
