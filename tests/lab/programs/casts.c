/* casts BYTES FOLDER [sums]: broadcasts from all ranks in turn, or sums over all of them, every byte
 * compared, until FOLDER/stop exists. Each rank writes its process to FOLDER/pid.RANK before it
 * begins, and rank 0 FOLDER/ready after some. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[4096];

static const char* in(const char* folder, const char* name) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void note(const char* folder, const char* name, long value) {
  FILE* file = fopen(in(folder, name), "w");
  if (file == NULL || fprintf(file, "%ld", value) < 0 || fclose(file) != 0)
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static unsigned char pattern(long call, int i) {
  return (unsigned char)(call * 131 + i * 7 + i / 251);
}

/* What a rank adds to byte i, such that the sum of all is the pattern, modulo 256. */
static unsigned char share(long call, int i, int rank, int size) {
  const unsigned char mine = (unsigned char)(rank * 17 + i);
  if (rank != size - 1) return mine;
  unsigned char others = 0;
  for (int other = 0; other < size - 1; ++other) others += (unsigned char)(other * 17 + i);
  return (unsigned char)(pattern(call, i) - others);
}

static void fill(unsigned char* data, int bytes, long call, int sums, int rank, int size) {
  const int root = (int)(call % size);
  for (int i = 0; i < bytes; ++i)
    data[i] = sums ? share(call, i, rank, size) : rank == root ? pattern(call, i) : 0xff;
}

int main(int argc, char** argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc < 3 || atoi(argv[1]) < 1) MPI_Abort(MPI_COMM_WORLD, 2);
  const int bytes = atoi(argv[1]), sums = argc > 3 && strcmp(argv[3], "sums") == 0;
  const char* folder = argv[2];
  char name[32];
  snprintf(name, sizeof name, "pid.%d", rank);
  note(folder, name, (long)getpid());
  unsigned char* data = malloc((size_t)bytes + 1);
  long call = 0, wrong = 0;
  for (int over = 0; !over; ++call) {
    const int root = (int)(call % size);
    fill(data, bytes, call, sums, rank, size);
    data[bytes] = rank == 0 && access(in(folder, "stop"), F_OK) == 0;
    if (sums) {
      MPI_Allreduce(MPI_IN_PLACE, data, bytes + 1, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
    } else {
      MPI_Bcast(data, bytes + 1, MPI_BYTE, root, MPI_COMM_WORLD);
    }
    for (int i = 0; i < bytes; ++i) wrong += data[i] != pattern(call, i);
    over = (sums || root == 0) && data[bytes];
    if (rank == 0 && call == 20) note(folder, "ready", call);
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%ld %s, %ld wrong\n", call, sums ? "sums" : "broadcasts", wrong);
  free(data);
  MPI_Finalize();
  return wrong != 0;
}
