/* Random traffic: messages of all sizes and modes, on communicators of all kinds at once, received
 * in every way that MPI has. All ranks draw the same plan, so each knows which message a receive
 * must get: of one sender, the first that it accepts (MPI 4.1, section 3.5).
 *
 *   traffic [SEED [ROUNDS [THREADS]]]     SEED 0: one of its own, which is printed */
#include <pthread.h>
#include <time.h>

#include "check.h"

enum { kMostRanks = 16, kMessages = 48, kNets = 5, kTags = 3, kNeverSent = 77 };
enum { kMostBytes = 1 << 20, kBsendBytes = 1 << 22 };

static int rank, size;

/* ---- chance */

typedef unsigned long long Random;

static unsigned draw(Random* random, unsigned below) {
  *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(*random >> 33) % below;
}

static int draw_bytes(Random* random) {
  switch (draw(random, 16)) {
    case 0:
      return 0;
    case 1:
      return (int)draw(random, 70000);
    case 2:
      return draw(random, 4) == 0 ? (int)draw(random, kMostBytes) : (int)draw(random, 20000);
    case 3:
      return (int)draw(random, 300);
    default:
      return (int)draw(random, 65);
  }
}

/* ---- whom a rank can talk to, and how */

typedef struct {
  MPI_Comm comm;
  int rank_of[kMostRanks]; /* in the communicator, by rank in the world; -1: it is not there */
} Net;

static void map_ranks(Net* net, int inter) {
  MPI_Group world, group;
  int all[kMostRanks];
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  if (inter) {
    MPI_Comm_remote_group(net->comm, &group);
  } else {
    MPI_Comm_group(net->comm, &group);
  }
  for (int i = 0; i < size; ++i) all[i] = i;
  MPI_Group_translate_ranks(world, size, all, group, net->rank_of);
  for (int i = 0; i < size; ++i) {
    if (net->rank_of[i] == MPI_UNDEFINED) net->rank_of[i] = -1;
  }
  MPI_Group_free(&group);
  MPI_Group_free(&world);
}

/* A copy, one that comes later, the ranks the other way round, one half, and from half to half. */
static void make_nets(Net* nets) {
  MPI_Request copied;
  MPI_Comm_dup(MPI_COMM_WORLD, &nets[0].comm);
  MPI_Comm_idup(nets[0].comm, &nets[1].comm, &copied);
  MPI_Wait(&copied, MPI_STATUS_IGNORE);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &nets[2].comm);
  const int half = rank < size / 2;
  MPI_Comm_split(MPI_COMM_WORLD, half, rank, &nets[3].comm);
  MPI_Intercomm_create(nets[3].comm, 0, MPI_COMM_WORLD, half ? size / 2 : 0, 5, &nets[4].comm);
  for (int i = 0; i < kNets; ++i) map_ranks(&nets[i], i == 4);
}

/* Whether two ranks of the world can talk there; everybody knows it of everybody. */
static int joined(int net, int a, int b) {
  const int same_half = (a < size / 2) == (b < size / 2);
  return net < 3 || (net == 3 ? same_half : !same_half);
}

/* ---- the plan of a round */

typedef struct {
  int from, to, net, tag, bytes, seed, taken;
} Message;

typedef struct {
  Net nets[kNets];
  Random shared, own;
  Message plan[kMessages];
  int count;
} Traffic;

static void fill(unsigned char* data, int bytes, int seed) {
  for (int i = 0; i < bytes; ++i) data[i] = (unsigned char)(i * 7 + i / 253 + seed);
}

static int holds(const unsigned char* data, int bytes, int seed) {
  for (int i = 0; i < bytes; ++i) {
    if (data[i] != (unsigned char)(i * 7 + i / 253 + seed)) return 0;
  }
  return 1;
}

static void plan(Traffic* t) {
  t->count = 1 + (int)draw(&t->shared, kMessages);
  for (int i = 0; i < t->count; ++i) {
    Message* m = &t->plan[i];
    do {
      m->net = (int)draw(&t->shared, kNets);
      m->from = (int)draw(&t->shared, (unsigned)size);
      m->to = (int)draw(&t->shared, (unsigned)size);
    } while (!joined(m->net, m->from, m->to));
    m->tag = (int)draw(&t->shared, kTags);
    m->bytes = draw_bytes(&t->shared);
    m->seed = (int)draw(&t->shared, 256);
    m->taken = 0;
  }
}

/* ---- sends */

typedef struct {
  unsigned char* data;
  MPI_Request request;
} Outgoing;

static void start_send(Traffic* t, const Message* m, Outgoing* out) {
  const MPI_Comm comm = t->nets[m->net].comm;
  const int to = t->nets[m->net].rank_of[m->to];
  out->data = malloc((size_t)m->bytes + 1);
  out->request = MPI_REQUEST_NULL;
  fill(out->data, m->bytes, m->seed);
  switch (draw(&t->own, 5)) {
    case 0:
      MPI_Issend(out->data, m->bytes, MPI_BYTE, to, m->tag, comm, &out->request);
      break;
    case 1:
      MPI_Send_init(out->data, m->bytes, MPI_BYTE, to, m->tag, comm, &out->request);
      MPI_Start(&out->request);
      break;
    case 2:
      if (m->bytes < 2000) { /* so that all of a round fit into the buffer */
        MPI_Bsend(out->data, m->bytes, MPI_BYTE, to, m->tag, comm);
        memset(out->data, 0xee, (size_t)m->bytes);
        break;
      } /* fall through */
    default:
      MPI_Isend(out->data, m->bytes, MPI_BYTE, to, m->tag, comm, &out->request);
  }
}

/* ---- receives */

typedef struct {
  int net, source, tag; /* as they are asked for; source: in the communicator */
  unsigned char* data;
  MPI_Request request;
  MPI_Status status;
} Incoming;

/* How this rank receives on a communicator in this round: all of its receives there ask alike, so
 * that whatever they take, as many as there are messages fit. */
enum { kAnySource = 1, kAnyTag = 2 };

/* Receives for all that comes to this rank, at most one for each message, in random order but for
 * the fact that alike ones need none. */
static int wish(Traffic* t, Incoming* in) {
  int count = 0, styles[kNets];
  for (int i = 0; i < kNets; ++i) styles[i] = (int)draw(&t->own, 4);
  for (int i = 0; i < t->count; ++i) {
    const Message* m = &t->plan[i];
    if (m->to != rank) continue;
    Incoming wanted = {m->net, t->nets[m->net].rank_of[m->from], m->tag, NULL, MPI_REQUEST_NULL,
                       {0}};
    if (styles[m->net] & kAnySource) wanted.source = MPI_ANY_SOURCE;
    if (styles[m->net] & kAnyTag) wanted.tag = MPI_ANY_TAG;
    const int place = (int)draw(&t->own, (unsigned)count + 1);
    in[count++] = in[place];
    in[place] = wanted;
  }
  for (int i = 0; i < count; ++i) in[i].data = malloc(kMostBytes);
  return count;
}

static void post(Traffic* t, Incoming* in) {
  const MPI_Comm comm = t->nets[in->net].comm;
  if (draw(&t->own, 4) == 0) {
    MPI_Recv_init(in->data, kMostBytes, MPI_BYTE, in->source, in->tag, comm, &in->request);
    MPI_Start(&in->request);
  } else {
    MPI_Irecv(in->data, kMostBytes, MPI_BYTE, in->source, in->tag, comm, &in->request);
  }
}

static void receive_probed(const Incoming* in, MPI_Comm comm, MPI_Status* probed, MPI_Status* got) {
  int bytes = 0;
  MPI_Get_count(probed, MPI_BYTE, &bytes);
  MPI_Recv(in->data, bytes, MPI_BYTE, probed->MPI_SOURCE, probed->MPI_TAG, comm, got);
}

/* Once everything has been sent, so that it may block. `alone`: no other receive is pending there
 * that could take what a probe sees. */
static void receive(Traffic* t, Incoming* in, int alone) {
  const MPI_Comm comm = t->nets[in->net].comm;
  MPI_Status probed;
  MPI_Message message;
  int there = 0;
  switch (draw(&t->own, alone ? 5 : 3)) {
    case 0:
      MPI_Mprobe(in->source, in->tag, comm, &message, &probed);
      MPI_Mrecv(in->data, kMostBytes, MPI_BYTE, &message, &in->status);
      break;
    case 1:
      while (!there) MPI_Improbe(in->source, in->tag, comm, &there, &message, &probed);
      MPI_Imrecv(in->data, kMostBytes, MPI_BYTE, &message, &in->request);
      break;
    case 3:
      MPI_Probe(in->source, in->tag, comm, &probed);
      receive_probed(in, comm, &probed, &in->status);
      break;
    case 4:
      while (!there) MPI_Iprobe(in->source, in->tag, comm, &there, &probed);
      receive_probed(in, comm, &probed, &in->status);
      break;
    default:
      MPI_Recv(in->data, kMostBytes, MPI_BYTE, in->source, in->tag, comm, &in->status);
  }
}

/* The message that the receive must have got, by what its status says. */
static void check_received(Traffic* t, const Incoming* in) {
  int bytes = -1;
  MPI_Get_count(&in->status, MPI_BYTE, &bytes);
  CHECK(in->source == MPI_ANY_SOURCE || in->source == in->status.MPI_SOURCE, "a wrong source");
  CHECK(in->tag == MPI_ANY_TAG || in->tag == in->status.MPI_TAG, "a wrong tag");
  for (int i = 0; i < t->count; ++i) {
    Message* m = &t->plan[i];
    if (m->taken || m->to != rank || m->net != in->net ||
        t->nets[m->net].rank_of[m->from] != in->status.MPI_SOURCE ||
        (in->tag != MPI_ANY_TAG && m->tag != in->tag))
      continue;
    m->taken = 1;
    CHECK(m->tag == in->status.MPI_TAG && m->bytes == bytes && holds(in->data, bytes, m->seed),
          "message %d of rank %d on net %d: tag %d and %d, bytes %d and %d", i, m->from, m->net,
          m->tag, in->status.MPI_TAG, m->bytes, bytes);
    return;
  }
  CHECK(0, "nobody has sent this: source %d, tag %d, %d bytes on net %d", in->status.MPI_SOURCE,
        in->status.MPI_TAG, bytes, in->net);
}

/* ---- what needs no other rank */

static void cancel_one(Traffic* t) {
  MPI_Request request;
  MPI_Status status;
  int cancelled = 0, data;
  const Net* net = &t->nets[draw(&t->own, 3)];
  MPI_Irecv(&data, 1, MPI_INT, draw(&t->own, 2) ? MPI_ANY_SOURCE : 0, kNeverSent, net->comm,
            &request);
  MPI_Cancel(&request);
  MPI_Wait(&request, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled, "a receive that nothing is sent to");
}

static void talk_to_nobody(Traffic* t) {
  MPI_Request requests[2];
  MPI_Status statuses[2];
  int data = 5, count = -1;
  const MPI_Comm comm = t->nets[draw(&t->own, kNets)].comm;
  MPI_Irecv(&data, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &requests[0]);
  MPI_Isend(&data, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &requests[1]);
  MPI_Waitall(2, requests, statuses);
  MPI_Get_count(&statuses[0], MPI_INT, &count);
  CHECK(statuses[0].MPI_SOURCE == MPI_PROC_NULL && statuses[0].MPI_TAG == MPI_ANY_TAG &&
            count == 0 && data == 5,
        "source %d, tag %d, count %d", statuses[0].MPI_SOURCE, statuses[0].MPI_TAG, count);
}

/* ---- a round */

/* What is pending comes to its end, in one of the ways that there are. */
static void complete(Traffic* t, Incoming* in, int count) {
  MPI_Request requests[kMessages];
  MPI_Status statuses[kMessages];
  int where[kMessages], open = 0, done = 0;
  for (int i = 0; i < count; ++i) {
    if (in[i].request == MPI_REQUEST_NULL) continue;
    requests[open] = in[i].request;
    where[open++] = i;
  }
  if (draw(&t->own, 2) == 0) {
    MPI_Waitall(open, requests, statuses);
    for (int i = 0; i < open; ++i) in[where[i]].status = statuses[i];
  }
  while (done != MPI_UNDEFINED) {
    int indices[kMessages];
    if (draw(&t->own, 2) == 0) {
      MPI_Waitsome(open, requests, &done, indices, statuses);
    } else {
      MPI_Testsome(open, requests, &done, indices, statuses);
    }
    for (int i = 0; done != MPI_UNDEFINED && i < done; ++i)
      in[where[indices[i]]].status = statuses[i];
  }
  for (int i = 0; i < open; ++i) {
    if (requests[i] != MPI_REQUEST_NULL) MPI_Request_free(&requests[i]); /* persistent ones */
  }
}

static void run_round(Traffic* t) {
  Outgoing out[kMessages];
  Incoming in[kMessages];
  int sent = 0, posted = 0, pending[kNets] = {0};
  plan(t);
  const int wanted = wish(t, in);
  const int first = (int)draw(&t->own, (unsigned)wanted + 1); /* so many before all is sent */
  for (int i = 0; i < t->count || posted < first;) {
    if (posted < first && (i == t->count || draw(&t->own, 2) == 0)) {
      ++pending[in[posted].net];
      post(t, &in[posted++]);
    } else if (t->plan[i].from == rank) {
      start_send(t, &t->plan[i++], &out[sent++]);
    } else {
      ++i;
    }
  }
  if (draw(&t->own, 2) == 0) cancel_one(t);
  if (draw(&t->own, 4) == 0) talk_to_nobody(t);
  for (; posted < wanted; ++posted) receive(t, &in[posted], pending[in[posted].net] == 0);
  complete(t, in, wanted);
  for (int i = 0; i < wanted; ++i) {
    check_received(t, &in[i]);
    free(in[i].data);
  }
  for (int i = 0; i < sent; ++i) {
    MPI_Wait(&out[i].request, MPI_STATUS_IGNORE);
    if (out[i].request != MPI_REQUEST_NULL) MPI_Request_free(&out[i].request);
    free(out[i].data);
  }
}

static int rounds = 40;

static void* run(void* traffic) {
  Traffic* t = traffic;
  for (int i = 0; i < rounds; ++i) {
    run_round(t);
    MPI_Barrier(t->nets[0].comm); /* or receives from anybody would take what is of the next */
  }
  return NULL;
}

int main(int argc, char** argv) {
  int provided = 0, threads = argc > 3 ? atoi(argv[3]) : 1;
  unsigned long seed = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
  static Traffic traffic[4];
  pthread_t others[4];
  if (threads > 1) {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  } else {
    MPI_Init(&argc, &argv);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (threads < 1 || threads > 4 || size < 2 || size > kMostRanks) {
    if (rank == 0) fprintf(stderr, "traffic: 2 to %d ranks, 1 to 4 threads\n", kMostRanks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (threads > 1 && provided < MPI_THREAD_MULTIPLE) threads = 1;
  if (argc > 2) rounds = atoi(argv[2]);
  if (seed == 0) seed = (unsigned long)time(NULL);
  MPI_Bcast(&seed, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("seed %lu, %d rounds, %d threads\n", seed, rounds, threads);
  void* buffer = malloc(kBsendBytes);
  MPI_Buffer_attach(buffer, kBsendBytes);
  for (int i = 0; i < threads; ++i) {
    traffic[i].shared = seed * 31 + (Random)i;
    traffic[i].own = (seed + 1) * 1009 + (Random)(rank * 4 + i);
    make_nets(traffic[i].nets);
  }
  for (int i = 1; i < threads; ++i) pthread_create(&others[i], NULL, run, &traffic[i]);
  run(&traffic[0]);
  for (int i = 1; i < threads; ++i) pthread_join(others[i], NULL);
  MPI_Buffer_detach(&buffer, &(int){0});
  free(buffer);
  for (int i = 0; i < threads; ++i) {
    for (int net = 0; net < kNets; ++net) MPI_Comm_free(&traffic[i].nets[net].comm);
  }
  return finish("traffic");
}
