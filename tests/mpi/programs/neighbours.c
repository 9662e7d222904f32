/* The collectives between neighbours on random grids (also with dimensions of one or two ranks, in
 * which one neighbour comes twice), graphs and distributed graphs (not symmetric, edges several
 * times, ranks without any), with random counts, displacements, types and forms, against what the
 * standard says each rank must get. Several non-blocking ones are under way at once.
 *
 *   neighbours SEED ROUNDS [served] */
#include <stdint.h>

#include "check.h"

#if MPI_VERSION >= 4
#define HAVE_LARGE 1
#endif

enum form { kBlocking, kNonblocking, kPersistent };
enum what { kAllgather, kAllgatherv, kAlltoall, kAlltoallv, kAlltoallw, kWhats };
static const char* const kNames[] = {"allgather", "allgatherv", "alltoall", "alltoallv",
                                     "alltoallw"};
enum topology { kGrid, kGraph, kAdjacent, kDistributed, kTopologies };
enum { kMostNeighbours = 128, kMostPending = 4 };

static int rank, size, round_number;
static uint64_t seed;

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

/* ---- topologies */

/* The neighbours of this rank. `edges` numbers the blocks from one rank to another: a receiver and
 * a sender that mean the same one have the same number. */
struct neighbours {
  int outs, ins;
  int to[kMostNeighbours], from[kMostNeighbours];
  int to_edges[kMostNeighbours], from_edges[kMostNeighbours];
};

/* In the order of the list. */
static void number_edges(int count, const int* ranks, int* edges) {
  for (int i = 0; i < count; i++) {
    edges[i] = 0;
    for (int k = 0; k < i; k++) edges[i] += ranks[k] == ranks[i];
  }
}

/* `once`: no rank twice. */
static MPI_Comm make_grid(MPI_Comm parent, int once, struct neighbours* n) {
  MPI_Comm comm;
  int dims[3] = {0, 0, 0}, periods[3];
  const int ndims = 1 + (int)(shared(11, 0, 0) % 3);
  MPI_Dims_create(size, ndims, dims);
  for (int d = 0; d < ndims; d++) periods[d] = shared(12, d, 0) % 3 != 0 && !(once && dims[d] <= 2);
  MPI_Cart_create(parent, ndims, dims, periods, 0, &comm);
  n->outs = n->ins = 2 * ndims;
  for (int d = 0; d < ndims; d++) MPI_Cart_shift(comm, d, 1, &n->to[2 * d], &n->to[2 * d + 1]);
  for (int k = 0; k < n->outs; k++) {
    n->from[k] = n->to[k];
    n->to_edges[k] = k;
    n->from_edges[k] = k ^ 1; /* it was sent in the other direction */
  }
  return comm;
}

static int linked(int a, int b) {
  return shared(13, a < b ? a : b, a < b ? b : a) % 3 == 0 && a != b;
}

static MPI_Comm make_graph(MPI_Comm parent, struct neighbours* n) {
  MPI_Comm comm;
  int *index = malloc((size_t)size * sizeof(int)),
      *edges = malloc((size_t)size * (size_t)size * sizeof(int) + 1), count = 0;
  for (int a = 0; a < size; a++) {
    for (int b = 0; b < size; b++)
      if (linked(a, b)) edges[count++] = b;
    index[a] = count;
  }
  MPI_Graph_create(parent, size, index, edges, 0, &comm);
  MPI_Graph_neighbors_count(comm, rank, &n->outs);
  MPI_Graph_neighbors(comm, rank, n->outs, n->to);
  n->ins = n->outs;
  memcpy(n->from, n->to, sizeof n->to);
  free(index);
  free(edges);
  return comm;
}

/* How often an edge is there; `once`: at most once. */
static int times(int from, int to, int once) {
  const uint64_t r = shared(14, from, to);
  if (r % 3 != 0) return 0;
  if (once) return 1;
  return (r >> 8) % 4 == 0 ? 1 + (int)((r >> 16) % 7) : 1;
}

static MPI_Comm make_distributed(MPI_Comm parent, int adjacent, int once, struct neighbours* n) {
  MPI_Comm comm;
  const int weighted = (int)(shared(15, 0, 0) % 2);
  int from[kMostNeighbours], to[kMostNeighbours], weights[kMostNeighbours], ins = 0, outs = 0;
  for (int k = 0; k < size; k++) {
    const int other = (rank + k * (size > 2 ? size - 1 : 1)) % size; /* in no order of ranks */
    for (int i = times(other, rank, once); i > 0; i--) from[ins++] = other;
    for (int i = times(rank, other, once); i > 0; i--) to[outs++] = other;
  }
  for (int i = 0; i < kMostNeighbours; i++) weights[i] = 1 + i % 5;
  int* const given = weighted ? weights : MPI_UNWEIGHTED;
  if (adjacent) {
    MPI_Dist_graph_create_adjacent(parent, ins, from, given, outs, to, given, MPI_INFO_NULL, 0,
                                   &comm);
  } else {
    MPI_Dist_graph_create(parent, outs > 0, &rank, &outs, to, given, MPI_INFO_NULL, 0, &comm);
  }
  int is_weighted;
  MPI_Dist_graph_neighbors_count(comm, &n->ins, &n->outs, &is_weighted);
  MPI_Dist_graph_neighbors(comm, n->ins, n->from, weights, n->outs, n->to, weights);
  return comm;
}

static MPI_Comm make_topology(enum topology topology, int once, struct neighbours* n) {
  if (topology == kGrid) return make_grid(MPI_COMM_WORLD, once, n);
  const MPI_Comm comm = topology == kGraph
                            ? make_graph(MPI_COMM_WORLD, n)
                            : make_distributed(MPI_COMM_WORLD, topology == kAdjacent, once, n);
  number_edges(n->outs, n->to, n->to_edges);
  number_edges(n->ins, n->from, n->from_edges);
  return comm;
}

/* ---- what goes from rank to rank */

static int elements_of(enum what what, int from, int to, int edge) {
  const int how = (int)(shared(1, 0, 0) % 4);
  uint64_t r = shared(2, 0, 0);
  if (what == kAllgatherv) r = shared(3, from, 0);
  if (what == kAlltoallv || what == kAlltoallw) r = shared(4, from * 64 + to, edge);
  if (how == 0) return r % 3 == 0 ? (int)((r >> 8) % 3000) : 0;
  if (how == 1) return (int)((r >> 8) % 30000);
  return (int)((r >> 8) % 40);
}
static int value(enum what what, int from, int to, int edge, int turn, int i) {
  const int one = what == kAllgather || what == kAllgatherv;
  return (int)(mix((uint64_t)(round_number * 64 + turn)) % 1000003) + from * 7919 + i +
         (one ? 0 : to * 104729 + edge * 1299);
}

/* ---- a side: blocks in memory, with gaps; nothing of those for nobody */

struct side {
  int blocks, absolute;
  int elements[kMostNeighbours], strides[kMostNeighbours], first[kMostNeighbours];
  int counts[kMostNeighbours], displs[kMostNeighbours];
  MPI_Aint bytes[kMostNeighbours];
  MPI_Datatype types[kMostNeighbours];
  int ints;
  int* memory;
};

static MPI_Datatype spread(int stride) { /* an int every `stride` ints */
  MPI_Datatype type;
  MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)(stride * (int)sizeof(int)), &type);
  MPI_Type_commit(&type);
  return type;
}

static void set_type(struct side* s, int b, int typed) {
  s->counts[b] = s->elements[b];
  if (b > 0 && !typed) {
    s->types[b] = s->types[0];
  } else if (typed && s->elements[b] > 0 && below(2) == 0) { /* all of it as one element */
    MPI_Type_vector(s->elements[b], 1, s->strides[b], MPI_INT, &s->types[b]);
    MPI_Type_commit(&s->types[b]);
    s->counts[b] = 1;
  } else {
    s->types[b] = s->strides[b] == 1 ? MPI_INT : spread(s->strides[b]);
  }
}

/* `even`: blocks that follow each other without gaps, all as long. `typed`: a type for each. */
static struct side make_side(enum what what, int sends, int even, int typed,
                             const struct neighbours* n) {
  struct side s = {.blocks = sends ? n->outs : n->ins, .absolute = typed && below(3) == 0};
  const int common = 1 + below(3);
  int place = even ? 0 : below(4);
  s.types[0] = MPI_INT;
  if (s.blocks == 0 && even) s.counts[0] = elements_of(what, 0, 0, 0); /* Open MPI compares */
  for (int b = 0; b < s.blocks; b++) {
    const int other = sends ? n->to[b] : n->from[b];
    const int edge = sends ? n->to_edges[b] : n->from_edges[b];
    s.strides[b] = typed ? 1 + below(3) : common;
    /* Of nobody's block, too, there is a place where all are as long. */
    s.elements[b] = other == MPI_PROC_NULL && !even ? below(9)
                    : sends                         ? elements_of(what, rank, other, edge)
                                                    : elements_of(what, other, rank, edge);
    s.first[b] = place * (typed ? 1 : common);
    s.displs[b] = place;
    set_type(&s, b, typed);
    place += s.elements[b] * (typed ? s.strides[b] : 1) + (even ? 0 : below(3));
  }
  s.ints = place * (typed ? 1 : common) + 8;
  s.memory = malloc((size_t)s.ints * sizeof(int));
  for (int b = 0; b < s.blocks; b++) {
    s.bytes[b] = (MPI_Aint)s.displs[b] * (MPI_Aint)sizeof(int);
    MPI_Aint base;
    MPI_Get_address(s.memory, &base);
    if (s.absolute) s.bytes[b] += base;
  }
  return s;
}

static void free_types(struct side* s, int typed) {
  for (int b = 0; b < (typed ? s->blocks : s->blocks > 0); b++)
    if (s->types[b] != MPI_INT) MPI_Type_free(&s->types[b]);
}

/* ---- one call */

struct call {
  enum what what;
  enum form form;
  int large, round;
  MPI_Comm comm;
  struct neighbours neighbours;
  struct side sent, received; /* of an allgather one block is sent */
  MPI_Request request;
};

static int gathers(const struct call* c) { return c->what <= kAllgatherv; }

static int pendings;

#ifdef HAVE_LARGE
static MPI_Count large_counts[kMostPending][2][kMostNeighbours];
static MPI_Aint large_displs[kMostPending][2][kMostNeighbours];
static void widen(const struct side* s, int which) {
  for (int i = 0; i < s->blocks; i++) {
    large_counts[pendings][which][i] = s->counts[i];
    large_displs[pendings][which][i] = s->displs[i];
  }
}
#endif

#define PLAIN(Name, iname, ...)                               \
  if (c->form == kBlocking) MPI_##Name(__VA_ARGS__, c->comm); \
  if (c->form == kNonblocking) MPI_##iname(__VA_ARGS__, c->comm, &c->request)
#ifdef HAVE_PERSISTENT_COLLECTIVES
#define INIT(Name, ...) \
  if (c->form == kPersistent) MPI_##Name(__VA_ARGS__, c->comm, MPI_INFO_NULL, &c->request)
#else
#define INIT(Name, ...)
#endif
#define FORMS(Name, iname, suffix, ...)            \
  PLAIN(Name##suffix, iname##suffix, __VA_ARGS__); \
  INIT(Name##_init##suffix, __VA_ARGS__);          \
  break
#define ONE_SENT s->memory, s->counts[0], s->types[0]

static void issue(struct call* c) {
  struct side *s = &c->sent, *r = &c->received;
  const void* const out = s->absolute ? MPI_BOTTOM : s->memory;
  void* const in = r->absolute ? MPI_BOTTOM : r->memory;
#ifdef HAVE_LARGE
  if (c->large) {
    MPI_Count *sc = large_counts[pendings][0], *rc = large_counts[pendings][1];
    MPI_Aint *sd = large_displs[pendings][0], *rd = large_displs[pendings][1];
    widen(s, 0);
    widen(r, 1);
    switch (c->what) {
      case kAllgather:
        FORMS(Neighbor_allgather, Ineighbor_allgather, _c, ONE_SENT, r->memory, r->counts[0],
              r->types[0]);
      case kAllgatherv:
        FORMS(Neighbor_allgatherv, Ineighbor_allgatherv, _c, ONE_SENT, r->memory, rc, rd,
              r->types[0]);
      case kAlltoall:
        FORMS(Neighbor_alltoall, Ineighbor_alltoall, _c, s->memory, s->counts[0], s->types[0],
              r->memory, r->counts[0], r->types[0]);
      case kAlltoallv:
        FORMS(Neighbor_alltoallv, Ineighbor_alltoallv, _c, s->memory, sc, sd, s->types[0],
              r->memory, rc, rd, r->types[0]);
      default:
        FORMS(Neighbor_alltoallw, Ineighbor_alltoallw, _c, out, sc, s->bytes, s->types, in, rc,
              r->bytes, r->types);
    }
    return;
  }
#endif
  switch (c->what) {
    case kAllgather:
      FORMS(Neighbor_allgather, Ineighbor_allgather, , ONE_SENT, r->memory, r->counts[0],
            r->types[0]);
    case kAllgatherv:
      FORMS(Neighbor_allgatherv, Ineighbor_allgatherv, , ONE_SENT, r->memory, r->counts, r->displs,
            r->types[0]);
    case kAlltoall:
      FORMS(Neighbor_alltoall, Ineighbor_alltoall, , s->memory, s->counts[0], s->types[0],
            r->memory, r->counts[0], r->types[0]);
    case kAlltoallv:
      FORMS(Neighbor_alltoallv, Ineighbor_alltoallv, , s->memory, s->counts, s->displs, s->types[0],
            r->memory, r->counts, r->displs, r->types[0]);
    default:
      FORMS(Neighbor_alltoallw, Ineighbor_alltoallw, , out, s->counts, s->bytes, s->types, in,
            r->counts, r->bytes, r->types);
  }
}

static void prepare(struct call* c, int turn) {
  round_number = c->round;
  memset(c->received.memory, 0xff, (size_t)c->received.ints * sizeof(int));
  for (int b = 0; b < c->sent.blocks; b++) {
    const int to = gathers(c) ? 0 : c->neighbours.to[b], edge = c->neighbours.to_edges[b];
    for (int i = 0; i < c->sent.elements[b]; i++)
      c->sent.memory[c->sent.first[b] + i * c->sent.strides[b]] =
          value(c->what, rank, to, edge, turn, i);
  }
}

/* Every block, and that nothing else was written. */
static void check(struct call* c, int turn) {
  struct side* const r = &c->received;
  round_number = c->round;
  for (int b = 0; b < r->blocks; b++) {
    const int from = c->neighbours.from[b];
    for (int i = 0; i < r->elements[b] && from != MPI_PROC_NULL; i++) {
      int* const place = &r->memory[r->first[b] + i * r->strides[b]];
      const int wanted = value(c->what, from, rank, c->neighbours.from_edges[b], turn, i);
      if (*place != wanted) {
        CHECK(0,
              "%s, seed %llu, round %d, form %d, turn %d: element %d of %d of block %d from %d "
              "is %d, not %d",
              kNames[c->what], (unsigned long long)seed, round_number, (int)c->form, turn, i,
              r->elements[b], b, from, *place, wanted);
        return;
      }
      *place = -1;
    }
  }
  for (int i = 0; i < r->ints; i++) {
    if (r->memory[i] == -1) continue;
    CHECK(0, "%s, seed %llu, round %d: int %d of %d was written", kNames[c->what],
          (unsigned long long)seed, round_number, i, r->ints);
    return;
  }
}

static void end_call(struct call* c) {
  free_types(&c->sent, c->what == kAlltoallw);
  free_types(&c->received, c->what == kAlltoallw);
  free(c->sent.memory);
  free(c->received.memory);
  if (c->comm != MPI_COMM_NULL) MPI_Comm_free(&c->comm);
}

static struct call make_call(int forms, int once) {
  struct call c = {.what = (enum what)(shared(5, 0, 0) % kWhats),
                   .form = (enum form)(shared(6, 0, 0) % (uint64_t)forms),
                   .large = below(2), /* each rank as it likes */
                   .round = round_number,
                   .request = MPI_REQUEST_NULL};
  c.comm = make_topology((enum topology)(shared(7, 0, 0) % kTopologies), once, &c.neighbours);
  if (shared(8, 0, 0) % 4 == 0) { /* a copy has the same neighbours */
    MPI_Comm copy;
    MPI_Comm_dup(c.comm, &copy);
    MPI_Comm_free(&c.comm);
    c.comm = copy;
  }
  const int typed = c.what == kAlltoallw;
  struct neighbours sent_to = c.neighbours;
  if (gathers(&c)) { /* one block, to nobody in particular */
    sent_to.outs = 1;
    sent_to.to[0] = sent_to.to_edges[0] = 0;
  }
  c.sent = make_side(c.what, 1, c.what == kAlltoall || gathers(&c), typed, &sent_to);
  c.received =
      make_side(c.what, 0, c.what == kAllgather || c.what == kAlltoall, typed, &c.neighbours);
  return c;
}

static struct call pending[kMostPending];

static void await_pending(void) {
  MPI_Request requests[kMostPending];
  for (int i = 0; i < pendings; i++) requests[i] = pending[i].request;
  MPI_Waitall(pendings, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < pendings; i++) {
    check(&pending[i], 0);
    end_call(&pending[i]);
  }
  pendings = 0;
}

static void run_persistent(struct call* c) {
  for (int turn = 0; turn < 4; turn++) {
    prepare(c, turn);
    MPI_Start(&c->request);
    MPI_Wait(&c->request, MPI_STATUS_IGNORE);
    check(c, turn);
  }
  MPI_Request_free(&c->request);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
  const int rounds = argc > 2 ? atoi(argv[2]) : 100;
  /* Without "served" what MPIs get wrong by themselves is left out: neighbours that come twice. */
  const int served = argc > 3;
  int forms = 2;
#ifdef HAVE_PERSISTENT_COLLECTIVES
  forms = 3;
#endif
  own_state = seed * 77 + (uint64_t)rank;
  if (rank == 0) printf("seed %llu\n", (unsigned long long)seed);
  for (int round = 1; round <= rounds; round++) {
    round_number = round;
    struct call* const c = &pending[pendings]; /* its lists stay where they are */
    *c = make_call(forms, !served);
    prepare(c, 0);
    issue(c);
    if (c->form == kNonblocking) {
      /* The communicator goes while it is under way, which crashes Open MPI by itself. */
      if (served && shared(10, 0, 0) % 2 == 0) MPI_Comm_free(&c->comm);
      pendings++;
      if (pendings == kMostPending || shared(9, 0, 0) % 2 == 0) await_pending();
      continue;
    }
    if (c->form == kPersistent) {
      run_persistent(c);
    } else {
      check(c, 0);
    }
    end_call(c);
  }
  await_pending();
  return finish("neighbours");
}
