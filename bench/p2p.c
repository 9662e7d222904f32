/* Times messages between two ranks. A plain MPI program: it knows nothing of tutti, and the same
 * binary runs on an MPI alone and under `tutti run`.
 *
 *   p2p --ops latency,late,bandwidth,rate,exchange,both --sizes 8,4096 [--time-ms 20] [--batches 5]
 *       --out FILE
 *
 * latency: half of a round trip with blocking calls. late: the same, begun each time after 20 us of
 * computation that do not count, so that the other side has waited as long. bandwidth: a window of
 * 16 messages under way at once, answered by one of 4 bytes. rate: the same with a window of 128.
 * exchange: MPI_Sendrecv, one message each way. both: a window of 16 each way. What is given is the
 * time for one message, of an exchange that of the call, in batches; ranks other than 0 and 1 do
 * nothing. Every message is written before it is sent and looked at when it has come (its first and
 * its last word).
 *
 * Rank 0 writes one line of JSON per cell:
 *   {"op": "latency", "bytes": 8, "iterations": 20000, "us": [..one per batch..]}
 * Exit status 1 when a message was wrong. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kMaxSizes = 64, kMaxBatches = 100, kMaxWindow = 128, kTag = 1, kAnswer = 2 };

static int g_rank;
static int g_errors = 0;
static double g_computed_us = 0; /* does not count */
static uint32_t g_turn = 1;
static char* g_send;
static char* g_recv;

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static void stamp(char* data, size_t bytes, uint32_t turn) {
  memcpy(data, &turn, sizeof turn);
  memcpy(data + bytes - sizeof turn, &turn, sizeof turn);
}

static void check(const char* data, size_t bytes, uint32_t turn) {
  uint32_t first, last;
  memcpy(&first, data, sizeof first);
  memcpy(&last, data + bytes - sizeof last, sizeof last);
  if (bytes < 2 * sizeof turn) first = last; /* written over by the last word */
  if ((first != turn || last != turn) && g_errors++ < 5) {
    fprintf(stderr, "p2p: rank %d, %zu bytes: %u and %u arrived, not %u\n", g_rank, bytes, first,
            last, turn);
  }
}

static void compute(double us) {
  const double begin = now_us();
  double now = begin;
  while (now - begin < us) now = now_us();
  g_computed_us += now - begin;
}

/* `calls` round trips; counts both ways. Rank 0 comes `late_us` late to each. */
static void ping_pong(size_t bytes, long calls, double late_us) {
  const int other = 1 - g_rank, count = (int)bytes;
  for (long i = 0; i < calls; ++i, ++g_turn) {
    if (g_rank == 0) {
      if (late_us > 0) compute(late_us);
      stamp(g_send, bytes, g_turn);
      MPI_Send(g_send, count, MPI_BYTE, other, kTag, MPI_COMM_WORLD);
      MPI_Recv(g_recv, count, MPI_BYTE, other, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      check(g_recv, bytes, ~g_turn);
    } else {
      MPI_Recv(g_recv, count, MPI_BYTE, other, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      check(g_recv, bytes, g_turn);
      stamp(g_send, bytes, ~g_turn);
      MPI_Send(g_send, count, MPI_BYTE, other, kTag, MPI_COMM_WORLD);
    }
  }
}

static void windows(size_t bytes, long calls, int window) {
  MPI_Request requests[kMaxWindow];
  int answer = 0;
  const int count = (int)bytes;
  for (long i = 0; i < calls; ++i) {
    for (int k = 0; k < window; ++k) {
      char* place = (g_rank == 0 ? g_send : g_recv) + (size_t)k * bytes;
      if (g_rank == 0) {
        stamp(place, bytes, g_turn + (uint32_t)k);
        MPI_Isend(place, count, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &requests[k]);
      } else {
        MPI_Irecv(place, count, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &requests[k]);
      }
    }
    MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
    if (g_rank == 0) {
      MPI_Recv(&answer, 1, MPI_INT, 1, kAnswer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      for (int k = 0; k < window; ++k)
        check(g_recv + (size_t)k * bytes, bytes, g_turn + (uint32_t)k);
      MPI_Send(&answer, 1, MPI_INT, 0, kAnswer, MPI_COMM_WORLD);
    }
    g_turn += (uint32_t)window;
  }
}

/* MPI_Sendrecv by both at once. */
static void exchange(size_t bytes, long calls) {
  const int other = 1 - g_rank, count = (int)bytes;
  for (long i = 0; i < calls; ++i, ++g_turn) {
    stamp(g_send, bytes, g_turn ^ (uint32_t)-g_rank);
    MPI_Sendrecv(g_send, count, MPI_BYTE, other, kTag, g_recv, count, MPI_BYTE, other, kTag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(g_recv, bytes, g_turn ^ (uint32_t)-other);
  }
}

static void windows_both_ways(size_t bytes, long calls, int window) {
  MPI_Request requests[2 * kMaxWindow];
  const int other = 1 - g_rank, count = (int)bytes;
  for (long i = 0; i < calls; ++i, g_turn += (uint32_t)window) {
    for (int k = 0; k < window; ++k)
      MPI_Irecv(g_recv + (size_t)k * bytes, count, MPI_BYTE, other, kTag, MPI_COMM_WORLD,
                &requests[k]);
    for (int k = 0; k < window; ++k) {
      stamp(g_send + (size_t)k * bytes, bytes, g_turn + (uint32_t)k);
      MPI_Isend(g_send + (size_t)k * bytes, count, MPI_BYTE, other, kTag, MPI_COMM_WORLD,
                &requests[window + k]);
    }
    MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
    for (int k = 0; k < window; ++k)
      check(g_recv + (size_t)k * bytes, bytes, g_turn + (uint32_t)k);
  }
}

enum { kPingPong, kLate, kOneWay, kExchange, kBothWays };
typedef struct {
  const char* name;
  int kind;
  int window;   /* messages of one rank under way at once */
  int messages; /* that a call's time is divided by */
} Op;
static const Op kOps[] = {{"latency", kPingPong, 1, 2},
                          {"late", kLate, 1, 2},
                          {"bandwidth", kOneWay, 16, 16},
                          {"rate", kOneWay, 128, 128},
                          {"exchange", kExchange, 1, 1},
                          {"both", kBothWays, 16, 32}};
enum { kOpCount = sizeof kOps / sizeof *kOps };

/* Microseconds for one message; `call_us`: for a call, with what does not count. */
static double batch_us(const Op* op, size_t bytes, long calls, double* call_us) {
  const double late_us = 20; /* longer than anybody spins without looking elsewhere */
  double us[2] = {0, 0};
  g_computed_us = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now_us();
  if (g_rank < 2) {
    switch (op->kind) {
      case kPingPong: ping_pong(bytes, calls, 0); break;
      case kLate: ping_pong(bytes, calls, late_us); break;
      case kOneWay: windows(bytes, calls, op->window); break;
      case kExchange: exchange(bytes, calls); break;
      default: windows_both_ways(bytes, calls, op->window);
    }
  }
  us[1] = (now_us() - start) / (double)calls;
  us[0] = (us[1] - g_computed_us / (double)calls) / op->messages;
  MPI_Bcast(us, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  *call_us = us[1];
  return us[0];
}

static long calibrate(const Op* op, size_t bytes, double budget_us) {
  for (long calls = 1;; calls *= 2) {
    double each = 0;
    batch_us(op, bytes, calls, &each);
    if (each * (double)calls >= budget_us / 10 || calls > 100000000) {
      const double wanted = budget_us / (each > 0 ? each : 1);
      return wanted < 1 ? 1 : (long)wanted;
    }
  }
}

static void die(const char* message, const char* what) {
  fprintf(stderr, "p2p: %s%s\n", message, what);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

static void measure(const Op* op, size_t bytes, double time_ms, int batches, FILE* out) {
  double call_us = 0;
  batch_us(op, bytes, 3, &call_us);
  const long calls = calibrate(op, bytes, time_ms * 1e3 / batches);
  if (out)
    fprintf(out, "{\"op\": \"%s\", \"bytes\": %zu, \"iterations\": %ld, \"us\": [", op->name, bytes,
            calls);
  for (int batch = 0; batch < batches; ++batch) {
    const double us = batch_us(op, bytes, calls, &call_us);
    if (out) fprintf(out, "%s%.5f", batch ? ", " : "", us);
  }
  if (out) fprintf(out, "]}\n"), fflush(out);
}

int main(int argc, char** argv) {
  const Op* ops[kOpCount];
  size_t sizes[kMaxSizes], largest = 4;
  int op_count = 0, size_count = 0, batches = 5, ranks = 0;
  double time_ms = 20;
  const char* path = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) die("needs two ranks", "");
  for (int i = 1; i + 1 < argc; i += 2) {
    char* value = argv[i + 1];
    if (strcmp(argv[i], "--ops") == 0) {
      for (char* word = strtok(value, ","); word; word = strtok(NULL, ",")) {
        const Op* found = NULL;
        for (int k = 0; k < kOpCount; ++k)
          if (strcmp(kOps[k].name, word) == 0) found = &kOps[k];
        if (!found || op_count == kOpCount)
          die("not one of latency, bandwidth, rate, exchange, both: ", word);
        ops[op_count++] = found;
      }
    } else if (strcmp(argv[i], "--sizes") == 0) {
      for (char* word = strtok(value, ","); word; word = strtok(NULL, ",")) {
        if (size_count == kMaxSizes) die("too many sizes", "");
        sizes[size_count] = strtoull(word, NULL, 10);
        if (sizes[size_count] < 4) die("not a size of 4 bytes or more: ", word);
        if (sizes[size_count] > largest) largest = sizes[size_count];
        ++size_count;
      }
    } else if (strcmp(argv[i], "--time-ms") == 0) {
      time_ms = atof(value);
    } else if (strcmp(argv[i], "--batches") == 0) {
      batches = atoi(value);
    } else if (strcmp(argv[i], "--out") == 0) {
      path = value;
    } else {
      die("unknown option: ", argv[i]);
    }
  }
  if (!op_count || !size_count || !path) die("--ops, --sizes and --out are needed", "");
  if (batches < 1 || batches > kMaxBatches) die("--batches: 1 to 100", "");
  g_send = malloc(largest * kMaxWindow);
  g_recv = malloc(largest * kMaxWindow);
  if (!g_send || !g_recv) die("not enough memory for the largest size", "");
  memset(g_send, 1, largest * kMaxWindow);
  memset(g_recv, 1, largest * kMaxWindow);
  FILE* out = g_rank == 0 ? fopen(path, "w") : NULL;
  if (g_rank == 0 && !out) die("cannot write ", path);
  for (int i = 0; i < op_count; ++i)
    for (int j = 0; j < size_count; ++j) measure(ops[i], sizes[j], time_ms, batches, out);
  if (out) fclose(out);
  int errors = 0;
  MPI_Allreduce(&g_errors, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  free(g_send);
  free(g_recv);
  MPI_Finalize();
  return errors ? 1 : 0;
}
