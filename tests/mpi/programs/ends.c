/* How processes end that are no ranks (children of one), and ranks that do not call MPI_Finalize.
 *   ends children   each rank starts children that end in every way, and goes on
 *   ends thread     exit() while another thread of the process is inside a collective
 *   ends exit       exit() without MPI_Finalize, after all collectives
 *   ends late       MPI_Finalize and what is before it in a handler of exit(), as
 *                   destructors of C++ do it
 *   ends apart N    rank N calls MPI_Finalize two seconds after the others, which sleep meanwhile */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;
static int rank, size, failures;

static void expect(int right, const char* what) {
  if (right) return;
  failures++;
  printf("FAILED on rank %d: %s\n", rank, what);
  fflush(stdout);
}

static void collectives(void) {
  int one = 1, sum = 0;
  MPI_Request request;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  expect(sum == size, "allreduce");
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  expect(sum == size, "iallreduce");
}

static int status_of(pid_t child) {
  int status = -1;
  for (int i = 0; i < 300; i++) { /* a child that hangs is a failure, not a hang */
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    usleep(100000);
  }
  return -1;
}

static void children(void) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) exit(5); /* runs exit handlers */
  expect(status_of(child) == 5, "a child that calls exit(5)");
  collectives();
  child = fork();
  if (child == 0) _exit(6);
  expect(status_of(child) == 6, "a child that calls _exit(6)");
  collectives();
  child = fork();
  if (child == 0) execlp("sh", "sh", "-c", "exit 7", (char*)NULL);
  expect(status_of(child) == 7, "a child that starts a shell");
  char* words[] = {"sh", "-c", "exit 8", NULL};
  expect(posix_spawnp(&child, "sh", NULL, NULL, words, environ) == 0, "posix_spawn");
  expect(status_of(child) == 8, "a spawned shell");
  expect(WEXITSTATUS(system("exit 9")) == 9, "system()");
  child = vfork();
  if (child == 0) _exit(10);
  expect(status_of(child) == 10, "a child of vfork");
  child = fork();
  if (child == 0) { /* a grandchild that outlives its parent */
    if (fork() == 0) {
      usleep(300000);
      exit(0);
    }
    exit(11);
  }
  expect(status_of(child) == 11, "a child with a child");
  for (int i = 0; i < 100; i++) collectives();
}

static void* call_for_ever(void* comm) {
  int word = 0;
  for (;;) MPI_Bcast(&word, 1, MPI_INT, 0, *(MPI_Comm*)comm);
  return NULL;
}

/* exit() writes what is left in streams when all destructors of libraries have run: other threads
 * go on without these meanwhile. */
static ssize_t write_late(void* unused, const char* text, size_t bytes) {
  (void)unused, (void)text;
  usleep(300000);
  return (ssize_t)bytes;
}

static void linger_at_exit(void) {
  FILE* stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_late});
  fputs("late", stream);
}

/* It says itself what it has found: nothing can be reduced any more. */
static void finish_apart(int late) {
  if (rank == late) sleep(2);
  const clock_t begin = clock(); /* processor time of all threads */
  MPI_Finalize();
  const double s = (double)(clock() - begin) / CLOCKS_PER_SEC;
  if (rank != late) printf("rank %d was at work for %.2f s\n", rank, s);
  expect(rank == late || s < 1, "who waits for another one's MPI_Finalize sleeps");
  if (rank == 0) printf("ends: passed (%d failures)\n", failures);
}

static void finish(void) {
  int all = 0;
  for (int i = 0; i < 100; i++) collectives();
  MPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("ends: passed (%d failures)\n", all);
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD); /* said, before a launcher can kill anyone */
  MPI_Finalize();
}

int main(int argc, char** argv) {
  int level;
  if (strcmp(argv[1], "late") == 0) atexit(finish);
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  collectives();
  if (strcmp(argv[1], "children") == 0) children();
  if (strcmp(argv[1], "thread") == 0) {
    static MPI_Comm other;
    pthread_t thread;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    pthread_create(&thread, NULL, call_for_ever, &other);
    linger_at_exit();
    usleep(rank == 0 ? 200000 : 400000);
    exit(0);
  }
  if (strcmp(argv[1], "exit") == 0) {
    linger_at_exit();
    MPI_Barrier(MPI_COMM_WORLD);
    exit(0);
  }
  if (strcmp(argv[1], "apart") == 0) {
    finish_apart(atoi(argv[2]));
  } else if (strcmp(argv[1], "late") != 0) {
    finish();
  }
  return 0;
}
