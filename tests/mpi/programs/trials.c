/* The same few kinds of blocking collectives again and again, in a random order on two
 * communicators, so that trials of the MPI against tutti come and go: every result is checked. Half
 * of the calls have gaps in the data of odd ranks, which only there must be packed. Between them
 * non-blocking ones are under way. */
#include "check.h"

enum Kind { kBcast, kAllreduce, kAllgather, kBarrier, kKinds };
enum { kMost = 1 << 16 };

static MPI_Comm comms[2];
static MPI_Datatype spaced; /* one int in the place of two */
static unsigned common;
static int in[2 * kMost], out[2 * kMost * 8];

static unsigned draw(unsigned end) {
  common = common * 1103515245u + 12345u;
  return (common >> 8) % end;
}

static int value_of(int number, int member, int i) { return number * 13 + member * 101 + i % 7; }

/* `apart`: ints from one to the next. */
static void verify(int kind, int number, int count, int members, int root, int apart) {
  const int blocks = kind == kAllgather ? members : 1;
  for (int b = 0; b < blocks; b++) {
    for (int i = 0; i < count; i += 1 + count / 20) {
      int wanted = value_of(number, kind == kAllgather ? b : root, i);
      if (kind == kAllreduce) {
        wanted = 0;
        for (int m = 0; m < members; m++) wanted += value_of(number, m, i);
      }
      const int got = out[(b * count + i) * apart];
      CHECK(got == wanted, "call %d (kind %d, %d ints), block %d, element %d: %d, not %d", number,
            kind, count, b, i, got, wanted);
      if (got != wanted) return;
    }
  }
}

static void call(int number, int kind, int count, MPI_Comm comm, int root, int apart) {
  int rank, members;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &members);
  root %= members;
  if (rank % 2 == 0 || kind == kAllreduce) apart = 1;
  MPI_Datatype type = apart == 2 ? spaced : MPI_INT;
  int* data = kind == kBcast && rank == root ? out : in;
  for (int i = 0; i < count; i++) data[i * apart] = value_of(number, rank, i);
  int one = 1, all = 0;
  MPI_Request pending;
  MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm, &pending);
  switch (kind) {
    case kBcast:
      MPI_Bcast(out, count, type, root, comm);
      break;
    case kAllreduce:
      MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
      break;
    case kAllgather:
      MPI_Allgather(in, count, type, out, count, type, comm);
      break;
    default:
      MPI_Barrier(comm);
  }
  MPI_Wait(&pending, MPI_STATUS_IGNORE);
  CHECK(all == members, "the other collective: %d, not %d", all, members);
  if (kind != kBarrier) verify(kind, number, count, members, root, apart);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, calls = argc > 2 ? atoi(argv[2]) : 1000;
  common = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) printf("seed %u\n", common);
  comms[0] = MPI_COMM_WORLD;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
  MPI_Type_vector(1, 1, 2, MPI_INT, &spaced);
  MPI_Type_create_resized(spaced, 0, 2 * (MPI_Aint)sizeof(int), &spaced);
  MPI_Type_commit(&spaced);
  for (int i = 0; i < calls; i++) {
    const int kind = (int)draw(kKinds), large = (int)draw(2), which = (int)draw(2);
    call(i, kind, large ? kMost : 5, comms[which], (int)draw(8), 1 + (int)draw(2));
  }
  MPI_Type_free(&spaced);
  MPI_Comm_free(&comms[1]);
  return finish("trials");
}
