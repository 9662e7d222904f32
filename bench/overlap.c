/* How much of a transfer passes while the program computes: the tests of RNDV-2006 (section 5). A
 * plain MPI program: it knows nothing of tutti, and the same binary runs on an MPI alone and under
 * `tutti run`.
 *
 *   overlap --ops isend,irecv,iallreduce,ibcast,iallgather --sizes 65536 [--fractions 0.5,1,1.5]
 *           [--repeats 10] [--apart CPU] --out FILE
 *
 * isend: rank 0 starts a send, computes, and waits, while rank 1 receives. irecv: rank 1 starts a
 * receive, tells rank 0, computes and waits, while rank 0 sends. The collectives: every rank
 * starts, computes and waits; with --apart the last rank computes, and the others just wait. The
 * computation is a number of steps of arithmetic, not a time, so
 * what a progress thread takes of the processor counts; its length is a fraction of the time that
 * the transfer takes by itself. Three times are measured, in turns: the transfer alone, the
 * computation alone, both together, and of that the part in the calls that wait; the maximum over
 * the ranks that compute.
 *
 * --apart: the thread that computes does it on this CPU. Started where it is not among those that
 * the processes may use, it has it for itself; everything that moves data (the other rank, the
 * threads of MPI and tutti, a lab's switch) stays on the others, as it would where a network card
 * does that work.
 *
 * Rank 0 writes one line of JSON per cell:
 *   {"op": "isend", "bytes": 65536, "fraction": 1.0, "comm_us": [...], "compute_us": [...], "us":
 * [...], "wait_us": [...]} */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMaxList = 32, kMaxRepeats = 200, kTag = 1, kReady = 2 };

static int g_rank, g_ranks;
static int g_errors = 0;
static int g_apart = -1; /* the CPU of the one rank that computes, or -1 */
static char* g_send;
static char* g_recv;
static double g_steps_per_us;

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void compute(uint64_t steps) {
  static volatile uint64_t result;
  uint64_t x = 88172645463325252u;
  for (uint64_t i = 0; i < steps; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  result = x;
}

static void calibrate(void) {
  double best = 1e30;
  const uint64_t steps = 2000000;
  for (int i = 0; i < 10; ++i) {
    const double start = now_us();
    compute(steps);
    const double took = now_us() - start;
    if (took < best) best = took;
  }
  g_steps_per_us = (double)steps / best;
}

enum op { kIsend, kIrecv, kIallreduce, kIbcast, kIallgather, kOps };
static const char* const kNames[] = {"isend", "irecv", "iallreduce", "ibcast", "iallgather"};

static int computes(enum op op) {
  if (op == kIsend) return g_rank == 0;
  if (op == kIrecv) return g_rank == 1;
  return g_apart < 0 || g_rank == g_ranks - 1;
}

static void start(enum op op, int count, MPI_Request* request) {
  switch (op) {
    case kIallreduce:
      MPI_Iallreduce(g_send, g_recv, count / 4, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD, request);
      break;
    case kIbcast:
      MPI_Ibcast(g_rank == 0 ? g_send : g_recv, count, MPI_BYTE, 0, MPI_COMM_WORLD, request);
      break;
    default:
      MPI_Iallgather(g_send, count, MPI_BYTE, g_recv, count, MPI_BYTE, MPI_COMM_WORLD, request);
  }
}

/* Returns the time that it took. */
static double wait_for(MPI_Request* request) {
  const double begin = now_us();
  MPI_Wait(request, MPI_STATUS_IGNORE);
  return now_us() - begin;
}

/* One transfer with `steps` of computation; the longest time on a rank that computes, and in
 * *waited the longest one in MPI_Wait. */
static double one(enum op op, size_t bytes, uint64_t steps, unsigned char mark, double* waited) {
  MPI_Request request;
  double times[2] = {0, 0}, token = 0;
  const int count = (int)bytes;
  memset(g_send, mark, bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (op == kIsend || op == kIrecv) {
    const int active = op == kIsend ? 0 : 1;
    if (g_rank == active) {
      const double begin = now_us();
      if (op == kIsend) {
        MPI_Isend(g_send, count, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &request);
      } else {
        MPI_Irecv(g_recv, count, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
        MPI_Send(&token, 1, MPI_DOUBLE, 0, kReady, MPI_COMM_WORLD);
      }
      if (steps != 0) compute(steps);
      times[1] = wait_for(&request);
      times[0] = now_us() - begin;
    } else if (g_rank < 2 && op == kIsend) {
      MPI_Recv(g_recv, count, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (g_rank < 2) {
      MPI_Recv(&token, 1, MPI_DOUBLE, 1, kReady, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(g_send, count, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
    }
    if (g_rank == 1 &&
        ((unsigned char)g_recv[0] != mark || (unsigned char)g_recv[bytes - 1] != mark)) {
      if (g_errors++ < 5)
        fprintf(stderr, "overlap: %s of %zu bytes delivered wrong data\n", kNames[op], bytes);
    }
    MPI_Bcast(times, 2, MPI_DOUBLE, active, MPI_COMM_WORLD);
    *waited = times[1];
    return times[0];
  }
  const double begin = now_us();
  start(op, count, &request);
  if (steps != 0 && computes(op)) compute(steps);
  const double wait_us = wait_for(&request);
  const double mine[2] = {computes(op) ? now_us() - begin : 0, computes(op) ? wait_us : 0};
  const unsigned char want = (unsigned char)(op == kIallreduce ? mark * g_ranks : mark);
  const char* result = op == kIbcast && g_rank == 0 ? g_send : g_recv;
  if ((unsigned char)result[0] != want && g_errors++ < 5)
    fprintf(stderr, "overlap: %s of %zu bytes delivered wrong data\n", kNames[op], bytes);
  MPI_Allreduce(mine, times, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  *waited = times[1];
  return times[0];
}

/* Moves this thread, where it computes, to the CPU of --apart; back to where it was where not. */
static void place(enum op op) {
  static cpu_set_t before;
  static int known = 0;
  if (g_apart < 0) return;
  if (!known) sched_getaffinity(0, sizeof before, &before);
  known = 1;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET((size_t)g_apart, &own);
  if (sched_setaffinity(0, sizeof own, computes(op) ? &own : &before) != 0)
    perror("overlap: --apart");
}

static double alone(enum op op, uint64_t steps) {
  double mine, took = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = now_us();
  if (computes(op)) compute(steps);
  mine = computes(op) ? now_us() - begin : 0;
  MPI_Allreduce(&mine, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return took;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

static void list(FILE* out, const char* name, const double* us, int count) {
  fprintf(out, ", \"%s\": [", name);
  for (int i = 0; i < count; ++i) fprintf(out, "%s%.3f", i ? ", " : "", us[i]);
  fputc(']', out);
}

static void measure(enum op op, size_t bytes, const double* fractions, int fraction_count,
                    int repeats, FILE* out) {
  double comm[kMaxRepeats], work[kMaxRepeats], both[kMaxRepeats], sorted[kMaxRepeats];
  double wait[kMaxRepeats], ignored;
  for (int i = 0; i < 3; ++i)
    one(op, bytes, 0, (unsigned char)i, &ignored); /* connections, memory */
  for (int i = 0; i < repeats; ++i) sorted[i] = one(op, bytes, 0, (unsigned char)(i + 1), &ignored);
  qsort(sorted, (size_t)repeats, sizeof *sorted, ascending);
  double transfer_us = sorted[repeats / 2];
  MPI_Bcast(&transfer_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int f = 0; f < fraction_count; ++f) {
    const uint64_t steps = (uint64_t)(fractions[f] * transfer_us * g_steps_per_us) + 1;
    for (int i = 0; i < repeats; ++i) {
      comm[i] = one(op, bytes, 0, (unsigned char)(3 * i + 1), &ignored);
      work[i] = alone(op, steps);
      both[i] = one(op, bytes, steps, (unsigned char)(3 * i + 2), &wait[i]);
    }
    if (!out) continue;
    fprintf(out, "{\"op\": \"%s\", \"bytes\": %zu, \"fraction\": %g", kNames[op], bytes,
            fractions[f]);
    list(out, "comm_us", comm, repeats);
    list(out, "compute_us", work, repeats);
    list(out, "us", both, repeats);
    list(out, "wait_us", wait, repeats);
    fprintf(out, "}\n");
    fflush(out);
  }
}

static void die(const char* message, const char* what) {
  fprintf(stderr, "overlap: %s%s\n", message, what);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

int main(int argc, char** argv) {
  enum op ops[kMaxList];
  size_t sizes[kMaxList], largest = 4;
  double fractions[kMaxList] = {1.0};
  int op_count = 0, size_count = 0, fraction_count = 0, repeats = 10;
  const char* path = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &g_ranks);
  if (g_ranks < 2) die("needs two ranks", "");
  for (int i = 1; i + 1 < argc; i += 2) {
    char* value = argv[i + 1];
    if (strcmp(argv[i], "--repeats") == 0) {
      repeats = atoi(value);
      continue;
    }
    if (strcmp(argv[i], "--apart") == 0) {
      g_apart = atoi(value);
      continue;
    }
    if (strcmp(argv[i], "--out") == 0) {
      path = value;
      continue;
    }
    for (char* word = strtok(value, ","); word; word = strtok(NULL, ",")) {
      if (op_count == kMaxList || size_count == kMaxList || fraction_count == kMaxList)
        die("too many: ", argv[i]);
      if (strcmp(argv[i], "--ops") == 0) {
        int op = 0;
        while (op < kOps && strcmp(kNames[op], word) != 0) ++op;
        if (op == kOps) die("unknown operation: ", word);
        ops[op_count++] = (enum op)op;
      } else if (strcmp(argv[i], "--sizes") == 0) {
        sizes[size_count] = strtoull(word, NULL, 10);
        if (sizes[size_count] < 4 || sizes[size_count] % 4)
          die("not a positive multiple of 4 bytes: ", word);
        if (sizes[size_count] > largest) largest = sizes[size_count];
        ++size_count;
      } else if (strcmp(argv[i], "--fractions") == 0) {
        fractions[fraction_count++] = atof(word);
      } else {
        die("unknown option: ", argv[i]);
      }
    }
  }
  if (!op_count || !size_count || !path) die("--ops, --sizes and --out are needed", "");
  if (g_apart >= CPU_SETSIZE) die("--apart: no such CPU", "");
  if (repeats < 1 || repeats > kMaxRepeats) die("--repeats: 1 to 200", "");
  if (fraction_count == 0) fraction_count = 1;
  g_send = calloc(1, largest);
  g_recv = calloc((size_t)g_ranks, largest);
  if (!g_send || !g_recv) die("not enough memory for the largest size", "");
  FILE* out = g_rank == 0 ? fopen(path, "w") : NULL;
  if (g_rank == 0 && !out) die("cannot write ", path);
  MPI_Barrier(MPI_COMM_WORLD);
  if (g_rank == 0) {
    place(kIsend);
    calibrate();
  }
  MPI_Bcast(&g_steps_per_us, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  for (int i = 0; i < op_count; ++i) {
    place(ops[i]);
    for (int j = 0; j < size_count; ++j)
      measure(ops[i], sizes[j], fractions, fraction_count, repeats, out);
  }
  if (out) fclose(out);
  int errors = 0;
  MPI_Allreduce(&g_errors, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  free(g_send);
  free(g_recv);
  MPI_Finalize();
  return errors ? 1 : 0;
}
