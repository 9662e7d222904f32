/* What progress behind the program's back costs (RNDV-2006, sections 3.3 and 5.1). A plain MPI
 * program: the same binary runs on an MPI alone and under `tutti run`.
 *
 *   progress --bytes 1048576 [--compute-ms 20] [--repeats 20] --out FILE
 *
 * Two ranks. All computation is a number of steps of arithmetic, so what other threads take counts.
 *   idle       both ranks compute; nothing is pending.
 *   pending    both compute; rank 1 has started a receive, whose message rank 0 starts to send
 * before it computes. polled     rank 1 waits in MPI_Recv; rank 0's MPI_Send, from its begin to its
 * end. computing  rank 1 has started a receive and computes; the same MPI_Send. round_trip half of
 * the time that 8 bytes take there and back, both ranks waiting. For idle and pending also how
 * often threads other than the program's were put on a processor meanwhile, on rank 1. Rank 0
 * writes one line of JSON. */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kMaxRepeats = 1000, kTag = 1 };

static int g_rank;
static char* g_buffer;
static int g_bytes;
static uint64_t g_steps;

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static uint64_t arithmetic(uint64_t steps) {
  uint64_t x = 88172645463325252u;
  for (uint64_t i = 0; i < steps; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return x;
}

static double compute(void) {
  static volatile uint64_t result;
  const double begin = now_us();
  result = arithmetic(g_steps);
  (void)result;
  return now_us() - begin;
}

static void calibrate(double milliseconds) {
  double best = 1e30;
  g_steps = 2000000;
  for (int i = 0; i < 10; ++i) {
    const double took = compute();
    if (took < best) best = took;
  }
  g_steps = (uint64_t)(2e6 / best * milliseconds * 1e3);
  MPI_Bcast(&g_steps, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
}

/* How often the other threads of this process began to run after they had slept. */
static long switches_of_others(void) {
  long total = 0;
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == NULL) return 0;
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) {
    char path[300], line[200];
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
    FILE* status = fopen(path, "r");
    if (status == NULL) continue;
    long count;
    while (fgets(line, sizeof line, status))
      if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1) total += count;
    fclose(status);
  }
  closedir(tasks);
  return total;
}

static double of_rank_1(double value) {
  MPI_Bcast(&value, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
  return value;
}

/* Both compute, with or without a message under way. Returns the time on rank 1. */
static double both_compute(int pending, double* switches) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (pending && g_rank == 1)
    MPI_Irecv(g_buffer, g_bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  const long before = switches_of_others();
  if (pending && g_rank == 0)
    MPI_Isend(g_buffer, g_bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD, &request);
  const double took = compute();
  const long after = switches_of_others();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  *switches = of_rank_1((double)(after - before));
  return of_rank_1(took);
}

/* MPI_Send of rank 0 to a receive that has been started. */
static double send_to(int computing) {
  MPI_Request request = MPI_REQUEST_NULL;
  double took = 0;
  if (g_rank == 1 && computing)
    MPI_Irecv(g_buffer, g_bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, &request);
  MPI_Barrier(MPI_COMM_WORLD);
  if (g_rank == 0) {
    usleep(1000); /* rank 1 is inside */
    const double begin = now_us();
    MPI_Send(g_buffer, g_bytes, MPI_BYTE, 1, kTag, MPI_COMM_WORLD);
    took = now_us() - begin;
  } else if (g_rank == 1 && computing) {
    compute();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  } else if (g_rank == 1) {
    MPI_Recv(g_buffer, g_bytes, MPI_BYTE, 0, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return took;
}

static double half_round_trip(void) {
  double value = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = now_us();
  for (int i = 0; i < 2; ++i) {
    if (g_rank == i)
      MPI_Send(&value, 1, MPI_DOUBLE, 1 - i, kTag, MPI_COMM_WORLD);
    else if (g_rank < 2)
      MPI_Recv(&value, 1, MPI_DOUBLE, 1 - g_rank, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return (now_us() - begin) / 2;
}

static void print_list(FILE* out, const char* name, const double* values, int count) {
  fprintf(out, "%s\"%s\": [", strcmp(name, "idle_us") == 0 ? "{" : ", ", name);
  for (int i = 0; i < count; ++i) fprintf(out, "%s%.3f", i ? ", " : "", values[i]);
  fputc(']', out);
}

static void die(const char* message) {
  fprintf(stderr, "progress: %s\n", message);
  MPI_Abort(MPI_COMM_WORLD, 2);
  exit(2);
}

int main(int argc, char** argv) {
  enum {
    kIdle,
    kIdleSwitches,
    kPending,
    kPendingSwitches,
    kPolled,
    kComputing,
    kRoundTrip,
    kLists
  };
  static const char* const names[] = {"idle_us",          "idle_switches", "pending_us",
                                      "pending_switches", "polled_us",     "computing_us",
                                      "round_trip_us"};
  static double values[kLists][kMaxRepeats];
  int repeats = 20, ranks;
  double milliseconds = 20;
  const char* path = NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--bytes") == 0) g_bytes = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--compute-ms") == 0) milliseconds = atof(argv[i + 1]);
    if (strcmp(argv[i], "--repeats") == 0) repeats = atoi(argv[i + 1]);
    if (strcmp(argv[i], "--out") == 0) path = argv[i + 1];
  }
  if (ranks != 2) die("needs two ranks");
  if (g_bytes < 1 || path == NULL) die("--bytes and --out are needed");
  if (repeats < 1 || repeats > kMaxRepeats) die("--repeats: 1 to 1000");
  g_buffer = calloc(1, (size_t)g_bytes);
  FILE* out = g_rank == 0 ? fopen(path, "w") : NULL;
  if (g_buffer == NULL || (g_rank == 0 && out == NULL)) die("cannot write, or no memory");
  calibrate(milliseconds);
  for (int i = -2; i < repeats; ++i) { /* the first two: connections, memory */
    const int at = i < 0 ? 0 : i;
    values[kIdle][at] = both_compute(0, &values[kIdleSwitches][at]);
    values[kPending][at] = both_compute(1, &values[kPendingSwitches][at]);
    values[kPolled][at] = send_to(0);
    values[kComputing][at] = send_to(1);
    values[kRoundTrip][at] = half_round_trip();
  }
  if (out != NULL) {
    for (int i = 0; i < kLists; ++i) print_list(out, names[i], values[i], repeats);
    fprintf(out, "}\n");
    fclose(out);
  }
  free(g_buffer);
  MPI_Finalize();
  return 0;
}
