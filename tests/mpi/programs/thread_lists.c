/* MPI_THREAD_MULTIPLE: threads with communicators of their own are in collectives with lists and
 * in those between neighbours at the same time, blocking, not and persistent, with counts that only
 * one rank knows.
 *
 *   thread_lists SEED ROUNDS */
#include <pthread.h>
#include <stdint.h>

#include "check.h"

enum { kThreads = 4, kMostRanks = 16, kRoom = 1 << 16 };

static int rank, size, rounds;
static uint64_t seed;

/* One thread's own. */
struct worker {
  int me;
  MPI_Comm comm, ring; /* in a ring each rank has its neighbours on both sides */
  int *out, *in;
};

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Ints from one rank to another: most of them none, few, or many. */
static int count_of(const struct worker* w, int round, int from, int to) {
  const uint64_t r =
      mix(seed * 131 + mix((uint64_t)(w->me * 100003 + round * 257 + from * 16 + to)));
  if (r % 4 == 0) return (int)((r >> 8) % 3000);
  return r % 4 == 1 ? (int)(r >> 8 & 7) : 0;
}
static int value(const struct worker* w, int round, int from, int to, int i) {
  return w->me * 1000003 + round * 10007 + from * 211 + to * 17 + i;
}

/* Blocks one after the other: counts, places, and what is in them or must be. */
struct blocks {
  int n, counts[kMostRanks], places[kMostRanks];
};
static struct blocks lay_out(const struct worker* w, int round, int sends, const int* with, int n) {
  struct blocks b = {.n = n};
  for (int k = 0, place = 0; k < n; k++) {
    b.counts[k] = sends ? count_of(w, round, rank, with[k]) : count_of(w, round, with[k], rank);
    b.places[k] = place;
    place += b.counts[k];
  }
  return b;
}
static void fill(const struct worker* w, int round, const struct blocks* b, const int* with) {
  for (int k = 0; k < b->n; k++)
    for (int i = 0; i < b->counts[k]; i++)
      w->out[b->places[k] + i] = value(w, round, rank, with[k], i);
  memset(w->in, 0xff, kRoom * sizeof(int));
}
static void check(const struct worker* w, int round, const struct blocks* b, const int* with,
                  const char* what) {
  for (int k = 0; k < b->n; k++)
    for (int i = 0; i < b->counts[k]; i++) {
      const int got = w->in[b->places[k] + i], wanted = value(w, round, with[k], rank, i);
      CHECK(got == wanted, "thread %d, round %d, %s: int %d from %d is %d, not %d", w->me, round,
            what, i, with[k], got, wanted);
      if (got != wanted) return;
    }
}

static void all_to_all(const struct worker* w, int round, const int* all, int form) {
  const struct blocks s = lay_out(w, round, 1, all, size), r = lay_out(w, round, 0, all, size);
  MPI_Request request;
  fill(w, round, &s, all);
  if (form == 0) {
    MPI_Alltoallv(w->out, s.counts, s.places, MPI_INT, w->in, r.counts, r.places, MPI_INT, w->comm);
  } else {
#ifdef HAVE_PERSISTENT_COLLECTIVES
    if (form == 2) {
      MPI_Alltoallv_init(w->out, s.counts, s.places, MPI_INT, w->in, r.counts, r.places, MPI_INT,
                         w->comm, MPI_INFO_NULL, &request);
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      check(w, round, &r, all, "the first start");
      fill(w, round, &s, all);
      MPI_Start(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
      MPI_Request_free(&request);
      return check(w, round, &r, all, "alltoallv_init");
    }
#endif
    MPI_Ialltoallv(w->out, s.counts, s.places, MPI_INT, w->in, r.counts, r.places, MPI_INT, w->comm,
                   &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  check(w, round, &r, all, form == 0 ? "alltoallv" : "ialltoallv");
}

static void neighbours(const struct worker* w, int round, int blocking) {
  const int from[2] = {(rank + size - 1) % size, (rank + 1) % size};
  const struct blocks s = lay_out(w, round, 1, from, 2), r = lay_out(w, round, 0, from, 2);
  MPI_Request request;
  fill(w, round, &s, from);
  if (blocking) {
    MPI_Neighbor_alltoallv(w->out, s.counts, s.places, MPI_INT, w->in, r.counts, r.places, MPI_INT,
                           w->ring);
  } else {
    MPI_Ineighbor_alltoallv(w->out, s.counts, s.places, MPI_INT, w->in, r.counts, r.places, MPI_INT,
                            w->ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  check(w, round, &r, from, "neighbours");
}

static void rooted(const struct worker* w, int round, const int* all) {
  const int root = round % size, only[1] = {root};
  const struct blocks mine = lay_out(w, round, 1, only, 1);
  struct blocks r = lay_out(w, round, 0, all, size);
  if (rank != root) r.n = 0;
  fill(w, round, &mine, only);
  MPI_Gatherv(w->out, mine.counts[0], MPI_INT, w->in, r.counts, r.places, MPI_INT, root, w->comm);
  check(w, round, &r, all, "gatherv");
  struct blocks s = lay_out(w, round, 1, all, size);
  const struct blocks back = lay_out(w, round, 0, only, 1);
  if (rank != root) s.n = 0;
  fill(w, round, &s, all);
  MPI_Scatterv(w->out, s.counts, s.places, MPI_INT, w->in, back.counts[0], MPI_INT, root, w->comm);
  check(w, round, &back, only, "scatterv");
}

static void* work(void* argument) {
  const struct worker* const w = argument;
  int all[kMostRanks];
  for (int i = 0; i < size; i++) all[i] = i;
  for (int round = 0; round < rounds; round++) {
    switch (mix(seed + (uint64_t)(round * kThreads + w->me)) % 6) {
      case 0:
      case 1:
      case 2:
        all_to_all(w, round, all, round % 3);
        break;
      case 3:
        rooted(w, round, all);
        break;
      default:
        neighbours(w, round, round % 2);
    }
  }
  return NULL;
}

static void make(struct worker* w, int me) {
  const int around[2] = {(rank + size - 1) % size, (rank + 1) % size};
  const int weights[2] = {1, 1};
  w->me = me;
  w->out = malloc(kRoom * sizeof(int));
  w->in = malloc(kRoom * sizeof(int));
  MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, around, weights, 2, around, weights,
                                 MPI_INFO_NULL, 0, &w->ring);
}

int main(int argc, char** argv) {
  int provided;
  pthread_t threads[kThreads];
  struct worker workers[kThreads];
  seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  rounds = argc > 2 ? atoi(argv[2]) : 100;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == 0) printf("seed %llu\n", (unsigned long long)seed);
  CHECK(provided == MPI_THREAD_MULTIPLE && size <= kMostRanks, "thread level %d", provided);
  for (int i = 0; i < kThreads; i++) make(&workers[i], i);
  for (int i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, work, &workers[i]);
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < kThreads; i++) {
    MPI_Comm_free(&workers[i].ring);
    MPI_Comm_free(&workers[i].comm);
    free(workers[i].out);
    free(workers[i].in);
  }
  return finish("thread_lists");
}
