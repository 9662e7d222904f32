/* A probe of a named source is the first that a rank has to do with it, while its message is on the
 * way: the probe finds the message and leaves it. Every rank meets every other one once.
 * Usage: first_probe BYTES */
#include "check.h"

enum { kMost = 300000, kRanks = 64 };

static int rank;

static void probe(int source, char* data, int bytes, int matched) {
  MPI_Status status;
  MPI_Message message;
  int count = -1;
  if (matched)
    MPI_Mprobe(source, 1, MPI_COMM_WORLD, &message, &status);
  else
    MPI_Probe(source, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_CHAR, &count);
  if (matched)
    MPI_Mrecv(data, bytes, MPI_CHAR, &message, &status);
  else
    MPI_Recv(data, bytes, MPI_CHAR, source, 1, MPI_COMM_WORLD, &status);
  CHECK(count == bytes && data[bytes - 1] == source + 1, "from %d: %d bytes, last %d", source,
        count, data[bytes - 1]);
}

int main(int argc, char** argv) {
  static char out[kMost], in[kMost];
  static MPI_Request requests[kRanks];
  int size, bytes = argc > 1 ? atoi(argv[1]) : 8;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  memset(out, rank + 1, sizeof out);
  for (int shift = 1; shift < size && shift < kRanks; shift++) {
    MPI_Isend(out, bytes, MPI_CHAR, (rank + shift) % size, 1, MPI_COMM_WORLD, &requests[shift - 1]);
    probe((rank + size - shift) % size, in, bytes, shift % 2);
  }
  MPI_Waitall(size - 1, requests, MPI_STATUSES_IGNORE);
  return finish("first_probe");
}
