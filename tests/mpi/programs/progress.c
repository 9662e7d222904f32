/* Legal programs that hang where messages move only while their own rank is inside the library that
 * carries them: a rank blocks in a call of another kind, and what others wait for is still under
 * way. */
#include "check.h"

enum { kLarge = 2 << 20, kMany = 3000, kWays = 4, kUses = 5 };

static int rank, size, partner;
static char* data;
static MPI_Comm fresh[kUses]; /* that have had no collective yet */
static int used = 0;

/* Blocks until all ranks are in it, in a collective that no library but the MPI itself carries out,
 * or that begins with one, as the first of a communicator may. */
static void block(int way) {
  int one = 1, others = 0;
  MPI_Win window;
  MPI_Comm copy, half;
  switch (way) {
    case 0:
      MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
      MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &copy);
      MPI_Allreduce(&one, &others, 1, MPI_INT, MPI_SUM, copy);
      CHECK(others == (size + rank % 2) / 2, "between two groups: %d", others);
      MPI_Comm_free(&half);
      MPI_Comm_free(&copy);
      break;
    case 1:
      MPI_Win_create(data, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
      MPI_Win_fence(0, window);
      MPI_Win_free(&window);
      break;
    case 2:
      MPI_Comm_dup(MPI_COMM_WORLD, &copy);
      MPI_Comm_free(&copy);
      break;
    default:
      MPI_Barrier(fresh[used++]);
  }
}

/* Sends are under way when the sender blocks. */
static void sender_blocks(int way, int messages, int bytes) {
  MPI_Request* requests = malloc((size_t)messages * sizeof *requests);
  if (rank < partner) {
    for (int i = 0; i < messages; i++)
      MPI_Isend(data, bytes, MPI_CHAR, partner, 1, MPI_COMM_WORLD, &requests[i]);
    block(way);
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
  } else {
    for (int i = 0; i < messages; i++)
      MPI_Recv(data, bytes, MPI_CHAR, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    block(way);
  }
  free(requests);
}

/* Receives are posted when the receiver blocks, and the sender waits for them. */
static void receiver_blocks(int way, int messages, int bytes) {
  MPI_Request* requests = malloc((size_t)messages * sizeof *requests);
  char* place = malloc((size_t)messages * (size_t)bytes);
  if (rank < partner) {
    for (int i = 0; i < messages; i++)
      MPI_Irecv(place + (size_t)i * (size_t)bytes, bytes, MPI_CHAR, partner, 2, MPI_COMM_WORLD,
                &requests[i]);
    block(way);
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
  } else {
    for (int i = 0; i < messages; i++)
      (i % 2 ? MPI_Ssend : MPI_Send)(data, bytes, MPI_CHAR, partner, 2, MPI_COMM_WORLD);
    block(way);
  }
  free(requests);
  free(place);
}

/* A message has been sent, its sender waits for something else; its receiver has not talked to it
 * before. */
static void first_message(int way) {
  int token = rank;
  if (rank < partner) {
    MPI_Send(&token, 1, MPI_INT, partner, 3, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&token, 1, MPI_INT, partner, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(token == partner, "first message: %d", token);
  }
  block(way);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  data = calloc(1, kLarge);
  partner = rank ^ 1;
  for (int i = 0; i < kUses; i++) MPI_Comm_dup(MPI_COMM_WORLD, &fresh[i]);
  for (int way = 0; way < kWays && partner >= size; way++)
    for (int i = 0; i < kUses; i++) block(way);
  for (int way = 0; way < kWays && partner < size; way++) {
    first_message(way);
    sender_blocks(way, 5, kLarge);
    sender_blocks(way, kMany, 1024);
    receiver_blocks(way, 5, kLarge);
    receiver_blocks(way, kMany, 1024);
  }
  for (int i = 0; i < kUses; i++) MPI_Comm_free(&fresh[i]);
  return finish("progress");
}
