/* Collectives with lists again and again, in a random order, so that trials of the MPI against
 * tutti come and go: every result is checked. In half of the calls odd ranks have gaps in their
 * data, which only there must be packed. Now and then one rank's arguments are wrong; it gets the
 * MPI's error, and calls again.
 *
 *   listed SEED CALLS KINDS
 * KINDS: of gatherv (g), scatterv (s), alltoallv (v), alltoallw (w), neighbor_alltoallv (n). */
#include "check.h"

enum { kEach = 8, kMost = 64 };

static int rank, size;
static unsigned common;
static MPI_Comm ring;
static MPI_Datatype spaced; /* one int in the place of two */
static int in[2 * kEach * kMost], out[2 * kEach * kMost];
static int sent[kMost], received[kMost], sent_at[kMost], received_at[kMost];
static MPI_Datatype types[kMost];

static unsigned draw(unsigned end) {
  common = common * 1103515245u + 12345u;
  return (common >> 8) % end;
}

/* Ints that `from` has for `to`, and the first of them. */
static int count_of(int number, int from, int to) { return (number + 3 * from + to) % kEach; }
static int value_of(int number, int from, int to) { return 1000 * number + 31 * from + to; }

static int call(char kind, const int* counts, int root, MPI_Datatype type) {
  switch (kind) {
    case 'g':
      return MPI_Gatherv(in, counts[root], type, out, received, received_at, type, root,
                         MPI_COMM_WORLD);
    case 's':
      return MPI_Scatterv(in, counts, sent_at, type, out, received[root], type, root,
                          MPI_COMM_WORLD);
    case 'v':
      return MPI_Alltoallv(in, counts, sent_at, type, out, received, received_at, type,
                           MPI_COMM_WORLD);
    case 'w':
      return MPI_Alltoallw(in, counts, sent_at, types, out, received, received_at, types,
                           MPI_COMM_WORLD);
    default:
      return MPI_Neighbor_alltoallv(in, counts, sent_at, type, out, received, received_at, type,
                                    ring);
  }
}

/* Member number `n` of the lists, which on the ring are the one before and the one after. */
static int member(char kind, int n) {
  return kind != 'n' ? n : n == 0 ? (rank + size - 1) % size : (rank + 1) % size;
}

static void check(char kind, int number, int root, int apart) {
  const int members = kind == 'n' ? 2 : size;
  for (int n = 0; n < members; n++) {
    if ((kind == 'g' && rank != root) || (kind == 's' && n != root)) continue;
    for (int i = 0; i < received[n]; i++) {
      const int at = kind == 's' ? i : kEach * n + i;
      const int want = value_of(number, member(kind, n), rank) + i;
      CHECK(out[at * apart] == want, "call %d (%c), from %d, int %d: %d, not %d", number, kind,
            member(kind, n), i, out[at * apart], want);
    }
  }
}

/* The lists, and what is sent. */
static void fill(char kind, int number, int root, int apart) {
  const int members = kind == 'n' ? 2 : size;
  const int unit = kind == 'w' ? apart * (int)sizeof(int) : 1;
  for (int n = 0; n < members; n++) {
    const int other = member(kind, n);
    sent[n] = count_of(number, rank, other);
    received[n] = count_of(number, other, rank);
    sent_at[n] = received_at[n] = kEach * n * unit;
    types[n] = apart == 2 ? spaced : MPI_INT;
    if (kind == 'g' && n != root) continue; /* there is one block, for the root */
    for (int i = 0; i < sent[n]; i++)
      in[((kind == 'g' ? 0 : kEach * n) + i) * apart] = value_of(number, rank, other) + i;
  }
}

int main(int argc, char** argv) {
  const int periodic = 1, calls = argc > 2 ? atoi(argv[2]) : 1000;
  const char* const kinds = argc > 3 ? argv[3] : "gsvwn";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Type_vector(1, 1, 2, MPI_INT, &spaced);
  MPI_Type_create_resized(spaced, 0, 2 * (MPI_Aint)sizeof(int), &spaced);
  MPI_Type_commit(&spaced);
  common = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
  if (rank == 0) printf("seed %u\n", common);
  for (int number = 0; number < calls; number++) {
    const char kind = kinds[draw((unsigned)strlen(kinds))];
    const int root = (int)draw((unsigned)size), gaps = (int)draw(2);
    const int wrong = draw(16) == 0, victim = (int)draw((unsigned)size);
    const int apart = gaps && rank % 2 ? 2 : 1;
    fill(kind, number, root, apart);
    if (wrong && victim == rank && strchr("vw", kind)) {
      int negative[kMost];
      for (int n = 0; n < size; n++) negative[n] = -1;
      CHECK(call(kind, negative, root, MPI_INT) != MPI_SUCCESS, "call %d: no error", number);
    }
    CHECK(call(kind, sent, root, apart == 2 ? spaced : MPI_INT) == MPI_SUCCESS, "call %d", number);
    check(kind, number, root, apart);
  }
  MPI_Type_free(&spaced);
  MPI_Comm_free(&ring);
  return finish("listed");
}
