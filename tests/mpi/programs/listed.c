/* Collectives with lists again and again, in a random order, so that trials of the MPI against
 * tutti come and go: every result is checked. In half of the calls odd ranks have gaps in their
 * data, which only there must be packed. Now and then one rank's arguments are wrong; it gets the
 * MPI's error, and calls again.
 *
 *   listed SEED CALLS KINDS
 * KINDS: of gatherv (g), scatterv (s), alltoallv (v), alltoallw (w); and between neighbours, of
 * allgather (A), allgatherv (G), alltoall (E), alltoallv (V), alltoallw (W). Where the MPI has the
 * large forms, every other call is one. */
#include <ctype.h>

#include "check.h"

#if MPI_VERSION >= 4
#define HAVE_LARGE 1
#endif

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

/* Of one length for all, and without displacements. */
static int is_even(char kind) { return kind == 'A' || kind == 'E'; }
/* Neighbours get the same from a member. */
static int is_one(char kind) { return kind == 'A' || kind == 'G'; }
static int is_typed(char kind) { return toupper(kind) == 'W'; }

/* Member number `n` of the lists, which on the ring are the one before and the one after. */
static int member(char kind, int n) {
  return islower(kind) ? n : n == 0 ? (rank + size - 1) % size : (rank + 1) % size;
}
static int members_of(char kind) { return islower(kind) ? size : 2; }

static int call(char kind, const int* counts, int root, MPI_Datatype type) {
  MPI_Aint sent_far[kMost], received_far[kMost];
  for (int n = 0; n < kMost; n++) {
    sent_far[n] = sent_at[n];
    received_far[n] = received_at[n];
  }
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
    case 'A':
      return MPI_Neighbor_allgather(in, counts[0], type, out, received[0], type, ring);
    case 'G':
      return MPI_Neighbor_allgatherv(in, counts[0], type, out, received, received_at, type, ring);
    case 'E':
      return MPI_Neighbor_alltoall(in, counts[0], type, out, received[0], type, ring);
    case 'V':
      return MPI_Neighbor_alltoallv(in, counts, sent_at, type, out, received, received_at, type,
                                    ring);
    default:
      return MPI_Neighbor_alltoallw(in, counts, sent_far, types, out, received, received_far,
                                    types, ring);
  }
}

#ifdef HAVE_LARGE
static int call_large(char kind, const int* counts, int root, MPI_Datatype type) {
  MPI_Count many[kMost], received_many[kMost];
  MPI_Aint sent_far[kMost], received_far[kMost];
  for (int n = 0; n < kMost; n++) {
    many[n] = counts[n];
    received_many[n] = received[n];
    sent_far[n] = sent_at[n];
    received_far[n] = received_at[n];
  }
  switch (kind) {
    case 'g':
      return MPI_Gatherv_c(in, many[root], type, out, received_many, received_far, type, root,
                           MPI_COMM_WORLD);
    case 's':
      return MPI_Scatterv_c(in, many, sent_far, type, out, received_many[root], type, root,
                            MPI_COMM_WORLD);
    case 'v':
      return MPI_Alltoallv_c(in, many, sent_far, type, out, received_many, received_far, type,
                             MPI_COMM_WORLD);
    case 'w':
      return MPI_Alltoallw_c(in, many, sent_far, types, out, received_many, received_far, types,
                             MPI_COMM_WORLD);
    case 'A':
      return MPI_Neighbor_allgather_c(in, many[0], type, out, received_many[0], type, ring);
    case 'G':
      return MPI_Neighbor_allgatherv_c(in, many[0], type, out, received_many, received_far, type,
                                       ring);
    case 'E':
      return MPI_Neighbor_alltoall_c(in, many[0], type, out, received_many[0], type, ring);
    case 'V':
      return MPI_Neighbor_alltoallv_c(in, many, sent_far, type, out, received_many, received_far,
                                      type, ring);
    default:
      return MPI_Neighbor_alltoallw_c(in, many, sent_far, types, out, received_many, received_far,
                                      types, ring);
  }
}
#else
#define call_large call
#endif

/* What `from` has for `to` of this kind: how many ints, and the first of them. */
static int count_for(char kind, int number, int from, int to) {
  return is_even(kind) ? number % kEach : count_of(number, from, is_one(kind) ? 0 : to);
}
static int value_for(char kind, int number, int from, int to) {
  return value_of(number, from, is_one(kind) ? 0 : to);
}
/* The place of block `n`, in elements. */
static int place_of(char kind, int n, int count) { return n * (is_even(kind) ? count : kEach); }

static void check(char kind, int number, int root, int apart) {
  for (int n = 0; n < members_of(kind); n++) {
    if ((kind == 'g' && rank != root) || (kind == 's' && n != root)) continue;
    for (int i = 0; i < received[n]; i++) {
      const int at = kind == 's' ? i : place_of(kind, n, received[n]) + i;
      const int want = value_for(kind, number, member(kind, n), rank) + i;
      CHECK(out[at * apart] == want, "call %d (%c), from %d, int %d: %d, not %d", number, kind,
            member(kind, n), i, out[at * apart], want);
      out[at * apart] = -1;
    }
  }
}

/* The lists, and what is sent. */
static void fill(char kind, int number, int root, int apart) {
  const int unit = is_typed(kind) ? apart * (int)sizeof(int) : 1;
  for (int n = 0; n < members_of(kind); n++) {
    const int other = member(kind, n);
    sent[n] = count_for(kind, number, rank, other);
    received[n] = count_for(kind, number, other, rank);
    sent_at[n] = received_at[n] = kEach * n * unit;
    types[n] = apart == 2 ? spaced : MPI_INT;
    if (kind == 'g' && n != root) continue; /* there is one block, for the root */
    if (is_one(kind) && n != 0) continue;   /* or one for all */
    for (int i = 0; i < sent[n]; i++)
      in[((kind == 'g' ? 0 : place_of(kind, n, sent[n])) + i) * apart] =
          value_for(kind, number, rank, other) + i;
  }
}

int main(int argc, char** argv) {
  const int periodic = 1, calls = argc > 2 ? atoi(argv[2]) : 1000;
  const char* const kinds = argc > 3 ? argv[3] : "gsvwAGEVW";
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
    const MPI_Datatype type = apart == 2 ? spaced : MPI_INT;
    const int code = number % 2 ? call_large(kind, sent, root, type) : call(kind, sent, root, type);
    CHECK(code == MPI_SUCCESS, "call %d", number);
    check(kind, number, root, apart);
  }
  MPI_Type_free(&spaced);
  MPI_Comm_free(&ring);
  return finish("listed");
}
