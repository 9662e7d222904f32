/* Gatherv, scatterv, alltoallv and alltoallw with random counts (most of them 0, or wildly
 * different), displacements, types, roots and forms, in place and not, against what each rank
 * computes itself. Several non-blocking ones are under way at once, their types freed.
 *
 *   vectors SEED ROUNDS */
#include <stdint.h>

#include "check.h"

#if MPI_VERSION >= 4
#define HAVE_LARGE 1
#endif

enum form { kBlocking, kNonblocking, kPersistent };

static int rank, size, round_number;
static uint64_t seed;
static MPI_Comm comm;

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
/* The same on all ranks, for one purpose of one round. */
static uint64_t shared(int purpose, int a, int b) {
  return mix(mix(mix(seed * 1000003 + (uint64_t)round_number) + (uint64_t)purpose) * 31 +
             (uint64_t)a * 4099 + (uint64_t)b);
}
static uint64_t own_state;
static int below(int limit) {
  own_state += 0x9e3779b97f4a7c15u;
  return (int)(mix(own_state) % (uint64_t)limit);
}

/* Elements from one rank to another. Symmetric for what is exchanged in place. */
static int symmetric;
static int count_of(int from, int to) {
  const int low = symmetric && to < from ? to : from, high = symmetric && to < from ? from : to;
  const uint64_t r = shared(1, low, high), how = shared(2, 0, 0) % 3;
  if (how == 0) return r % 8 == 0 ? (int)((r >> 8) % 3000) : 0; /* sparse */
  if (how == 1) return (int)((r >> 8) % 6);
  return r % 5 == 0 ? (int)((r >> 8) % 60000) : (int)((r >> 8) % 200);
}
static int value(int from, int to, int turn, int i) {
  return (int)(mix((uint64_t)(round_number * 64 + turn)) % 1000003) + from * 7919 + to * 104729 + i;
}

/* ---- a side: a block for each rank in memory, in any order, with gaps */

struct side {
  int blocks;
  int *counts, *displs;            /* as they are given; of alltoallw in bytes */
  MPI_Datatype* types;             /* of alltoallw; else all the same */
  int *elements, *strides, *first; /* of each block: ints, how far apart, and where the first is */
  size_t ints;
  int* memory;
  int absolute; /* displacements are addresses, under MPI_BOTTOM */
};

static MPI_Datatype spread(int stride) { /* an int every `stride` ints */
  MPI_Datatype type;
  MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)(stride * (int)sizeof(int)), &type);
  MPI_Type_commit(&type);
  return type;
}

/* `typed`: a type for each block. */
static struct side make(int blocks, int sends, int typed) {
  const size_t n = (size_t)blocks;
  struct side s = {.blocks = blocks};
  s.counts = malloc(n * sizeof(int));
  s.displs = malloc(n * sizeof(int));
  s.elements = malloc(n * sizeof(int));
  s.strides = malloc(n * sizeof(int));
  s.first = malloc(n * sizeof(int));
  s.types = malloc(n * sizeof *s.types);
  const int common = 1 + below(3), backwards = below(2);
  size_t place = (size_t)below(4);
  for (int k = 0; k < blocks; k++) {
    const int b = backwards ? blocks - 1 - k : k;
    const int elements = sends ? count_of(rank, b) : count_of(b, rank);
    const int stride = typed ? 1 + below(3) : common;
    s.elements[b] = s.counts[b] = elements;
    s.strides[b] = stride;
    s.first[b] = (int)place * (typed ? 1 : stride);
    s.displs[b] = typed ? (int)(place * sizeof(int)) : (int)place;
    s.types[b] = stride == 1 ? MPI_INT : MPI_DATATYPE_NULL;
    if (typed && elements > 0 && below(2) == 0) { /* all of it as one element */
      MPI_Type_vector(elements, 1, stride, MPI_INT, &s.types[b]);
      MPI_Type_commit(&s.types[b]);
      s.counts[b] = 1;
    } else if (stride != 1 && (typed || k == 0)) {
      s.types[b] = spread(stride);
    } else if (stride != 1) {
      s.types[b] = s.types[backwards ? blocks - 1 : 0];
    }
    place += (size_t)(elements * (typed ? stride : 1) + below(3));
  }
  s.ints = place * (size_t)(typed ? 1 : common) + 8;
  s.memory = malloc(s.ints * sizeof(int));
  return s;
}

static void give_up_types(struct side* s, int typed) {
  for (int b = 0; b < s->blocks; b++) {
    MPI_Datatype type = s->types[b];
    if (type == MPI_INT) continue;
    MPI_Type_free(&type);
    for (int k = b + 1; k < s->blocks && !typed; k++) s->types[k] = MPI_INT;
  }
}

static void free_side(struct side* s) {
  free(s->counts);
  free(s->displs);
  free(s->elements);
  free(s->strides);
  free(s->first);
  free(s->types);
  free(s->memory);
}

static void clear(struct side* s) { memset(s->memory, 0xff, s->ints * sizeof(int)); }

static void write_block(struct side* s, int b, int from, int to, int turn) {
  for (int i = 0; i < s->elements[b]; i++)
    s->memory[s->first[b] + i * s->strides[b]] = value(from, to, turn, i);
}

/* Every block, and that nothing else was written. `kept`: a block that is not looked at. */
static void expect(const char* what, struct side* s, int kept, int turn) {
  for (int b = 0; b < s->blocks; b++) {
    for (int i = 0; i < s->elements[b]; i++) {
      int* const place = &s->memory[s->first[b] + i * s->strides[b]];
      if (b != kept && *place != value(b, rank, turn, i)) {
        CHECK(0, "%s, seed %llu, round %d, turn %d: element %d of %d from %d is %d, not %d", what,
              (unsigned long long)seed, round_number, turn, i, s->elements[b], b, *place,
              value(b, rank, turn, i));
        return;
      }
      *place = -1;
    }
  }
  for (size_t i = 0; i < s->ints; i++) {
    if (s->memory[i] == -1) continue;
    CHECK(0, "%s, seed %llu, round %d: int %zu of %zu was written", what, (unsigned long long)seed,
          round_number, i, s->ints);
    return;
  }
}

/* ---- one call */

enum what { kGatherv, kScatterv, kAlltoallv, kAlltoallw, kWhats };
static const char* const kNames[] = {"gatherv", "scatterv", "alltoallv", "alltoallw"};

struct call {
  enum what what;
  enum form form;
  int root, in_place, large, round;
  struct side sent, received;
  int sends, receives; /* the rank has such lists */
  int* one;            /* the only block that a rank sends (gatherv) or receives (scatterv) */
  int ones;
  MPI_Request request;
};

#ifdef HAVE_LARGE
static MPI_Count* counts_of(const struct side* s) {
  MPI_Count* all = malloc((size_t)s->blocks * sizeof *all);
  for (int i = 0; i < s->blocks; i++) all[i] = s->counts[i];
  return all;
}
static MPI_Aint* displs_of(const struct side* s) {
  MPI_Aint *all = malloc((size_t)s->blocks * sizeof *all), base = 0;
  if (s->absolute) MPI_Get_address(s->memory, &base);
  for (int i = 0; i < s->blocks; i++) all[i] = base + s->displs[i];
  return all;
}
static void* base_of(const struct side* s) { return s->absolute ? MPI_BOTTOM : s->memory; }
#endif

/* The plain or the large function of the form under test. */
#define PLAIN(Name, iname, ...)                            \
  if (c->form == kBlocking) MPI_##Name(__VA_ARGS__, comm); \
  if (c->form == kNonblocking) MPI_##iname(__VA_ARGS__, comm, &c->request)
#ifdef HAVE_PERSISTENT_COLLECTIVES
#define INIT(Name, ...) \
  if (c->form == kPersistent) MPI_##Name(__VA_ARGS__, comm, MPI_INFO_NULL, &c->request)
#else
#define INIT(Name, ...)
#endif

static void issue(struct call* c) {
  struct side *s = &c->sent, *r = &c->received;
  const int own = c->in_place;
  const void* one_sent = own ? MPI_IN_PLACE : c->one;
  void* one_received = own ? MPI_IN_PLACE : c->one;
#ifdef HAVE_LARGE
  if (c->large) {
    MPI_Count *sc = c->sends ? counts_of(s) : NULL, *rc = c->receives ? counts_of(r) : NULL;
    MPI_Aint *sd = c->sends ? displs_of(s) : NULL, *rd = c->receives ? displs_of(r) : NULL;
    switch (c->what) {
#define FORMS(Name, iname, ...)            \
  PLAIN(Name##_c, iname##_c, __VA_ARGS__); \
  INIT(Name##_init_c, __VA_ARGS__);        \
  break
      case kGatherv:
        FORMS(Gatherv, Igatherv, one_sent, c->ones, MPI_INT, r->memory, rc, rd,
              c->receives ? r->types[0] : MPI_INT, c->root);
      case kScatterv:
        FORMS(Scatterv, Iscatterv, s->memory, sc, sd, c->sends ? s->types[0] : MPI_INT,
              one_received, c->ones, MPI_INT, c->root);
      case kAlltoallv:
        FORMS(Alltoallv, Ialltoallv, own ? MPI_IN_PLACE : s->memory, sc, sd, s->types[0], r->memory,
              rc, rd, r->types[0]);
      default:
        FORMS(Alltoallw, Ialltoallw, own ? MPI_IN_PLACE : base_of(s), sc, sd, s->types, base_of(r),
              rc, rd, r->types);
    }
#undef FORMS
    if (c->form == kBlocking) { /* else they must stay: they are not given up here */
      free(sc);
      free(sd);
      free(rc);
      free(rd);
    }
    return;
  }
#endif
  switch (c->what) {
#define FORMS(Name, iname, ...)    \
  PLAIN(Name, iname, __VA_ARGS__); \
  INIT(Name##_init, __VA_ARGS__);  \
  break
    case kGatherv:
      FORMS(Gatherv, Igatherv, one_sent, c->ones, MPI_INT, r->memory, r->counts, r->displs,
            c->receives ? r->types[0] : MPI_INT, c->root);
    case kScatterv:
      FORMS(Scatterv, Iscatterv, s->memory, s->counts, s->displs, c->sends ? s->types[0] : MPI_INT,
            one_received, c->ones, MPI_INT, c->root);
    case kAlltoallv:
      FORMS(Alltoallv, Ialltoallv, own ? MPI_IN_PLACE : s->memory, s->counts, s->displs,
            s->types[0], r->memory, r->counts, r->displs, r->types[0]);
    default:
      FORMS(Alltoallw, Ialltoallw, own ? MPI_IN_PLACE : s->memory, s->counts, s->displs, s->types,
            r->memory, r->counts, r->displs, r->types);
  }
}

static struct call make_call(int forms, int served, int typed_in_place) {
  struct call c = {.what = (enum what)(shared(3, 0, 0) % kWhats),
                   .form = (enum form)(shared(4, 0, 0) % (uint64_t)forms),
                   .root = (int)(shared(5, 0, 0) % (uint64_t)size),
                   .round = round_number,
                   .request = MPI_REQUEST_NULL};
  const int exchanges = c.what >= kAlltoallv, at_root = rank == c.root;
  const int in_place = shared(6, 0, 0) % 3 == 0 && (typed_in_place || c.what != kAlltoallw);
  symmetric = exchanges && in_place;
  c.large = below(2); /* each rank as it likes */
  c.in_place = in_place && (exchanges || at_root);
  c.sends = c.what == kScatterv ? at_root : exchanges;
  c.receives = c.what == kGatherv ? at_root : exchanges;
  if (c.sends) c.sent = make(size, 1, c.what == kAlltoallw);
  if (c.receives) c.received = make(size, 0, c.what == kAlltoallw);
  /* As large displacements allow, also of predefined types. */
  if (served && c.large && c.what == kAlltoallw) {
    c.sent.absolute = below(2);
    c.received.absolute = below(2);
  }
  if (!exchanges) {
    c.ones = c.what == kGatherv ? count_of(rank, c.root) : count_of(c.root, rank);
    c.one = malloc((size_t)c.ones * sizeof(int) + 1);
  }
  return c;
}

/* Before each start: what is sent is written, what is received is cleared. */
static void prepare(struct call* c, int turn) {
  const int exchanges = c->what >= kAlltoallv;
  round_number = c->round;
  if (c->receives) clear(&c->received);
  for (int b = 0; b < size; b++) {
    if (c->sends) write_block(&c->sent, b, rank, b, turn);
    if (c->in_place && exchanges) write_block(&c->received, b, rank, b, turn);
  }
  for (int i = 0; i < c->ones; i++)
    c->one[i] = c->what == kGatherv ? value(rank, c->root, turn, i) : -1;
}

static void check(struct call* c, int turn) {
  const char* const name = kNames[c->what];
  round_number = c->round;
  if (c->what == kScatterv && !c->in_place) {
    for (int i = 0; i < c->ones; i++) {
      if (c->one[i] == value(c->root, rank, turn, i)) continue;
      CHECK(0, "%s, seed %llu, round %d: element %d of %d is %d", name, (unsigned long long)seed,
            round_number, i, c->ones, c->one[i]);
      break;
    }
  }
  if (c->receives) expect(name, &c->received, c->what == kGatherv && c->in_place ? rank : -1, turn);
}

static void end_call(struct call* c) {
  if (c->sends) free_side(&c->sent);
  if (c->receives) free_side(&c->received);
  free(c->one);
}

static void give_up(struct call* c) {
  if (c->sends) give_up_types(&c->sent, c->what == kAlltoallw);
  if (c->receives) give_up_types(&c->received, c->what == kAlltoallw);
}

#define MOST_PENDING 4
static struct call pending[MOST_PENDING];
static int pendings;

static void await_pending(void) {
  MPI_Request requests[MOST_PENDING];
  for (int i = 0; i < pendings; i++) requests[i] = pending[i].request;
  MPI_Waitall(pendings, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < pendings; i++) {
    check(&pending[i], 0);
    end_call(&pending[i]);
  }
  pendings = 0;
}

static void run_persistent(struct call* c) {
  for (int turn = 0; turn < 3; turn++) {
    prepare(c, turn);
    MPI_Start(&c->request);
    MPI_Wait(&c->request, MPI_STATUS_IGNORE);
    check(c, turn);
  }
  MPI_Request_free(&c->request);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  const int rounds = argc > 2 ? atoi(argv[2]) : 100;
  /* Given "served", tutti serves all of it; otherwise what MPIs get wrong by themselves is left
   * out: Open MPI 5.0 uses types that were freed while a call was pending, Intel MPI 2021.18 reads
   * the buffers of persistent collectives when they are made, and mixes up what MPI_Alltoallw sends
   * in place where both ends describe it by different types. */
  const int served = argc > 3, intel = getenv("I_MPI_ROOT") != NULL;
  int forms = 2, frees = served;
#ifndef OMPI_MAJOR_VERSION
  frees = 1;
#endif
#ifdef HAVE_PERSISTENT_COLLECTIVES
  if (served || !intel) forms = 3;
#endif
  own_state = seed * 77 + (uint64_t)rank;
  if (rank == 0) printf("seed %llu\n", (unsigned long long)seed);
  for (int round = 1; round <= rounds; round++) {
    round_number = round;
    struct call c = make_call(forms, served, served || !intel);
    prepare(&c, 0);
    issue(&c);
    if (c.form == kBlocking || frees) give_up(&c);
    if (c.form == kNonblocking) {
      pending[pendings++] = c;
      if (pendings == MOST_PENDING || shared(7, 0, 0) % 2 == 0) await_pending();
      continue;
    }
    if (c.form == kPersistent) {
      run_persistent(&c);
    } else {
      check(&c, 0);
    }
    end_call(&c);
  }
  await_pending();
  MPI_Comm_free(&comm);
  return finish("vectors");
}
