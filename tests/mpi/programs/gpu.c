/* Device memory where things happen around it: libraries come and go, threads call at once, copies
 * fail. */
#include "gpu.h"

#include <pthread.h>
#include <stdatomic.h>

enum { kInts = 3000 };

static int rank, size;
static atomic_int stop;

static void check_sum(MPI_Comm comm, int turn) {
  struct memory send = take_memory(kDeviceMemory, kInts * sizeof(int));
  struct memory recv = take_memory(turn % 2 ? kDeviceMemory : kManagedMemory, kInts * sizeof(int));
  int *in = (int*)send.view, *out = (int*)recv.view, wrong = 0;
  for (int i = 0; i < kInts; i++) in[i] = rank * kInts + i + turn, out[i] = -1;
  MPI_Allreduce(send.address, recv.address, kInts, MPI_INT, MPI_SUM, comm);
  for (int i = 0; i < kInts; i++)
    wrong += out[i] != size * (size - 1) / 2 * kInts + size * (i + turn);
  CHECK(wrong == 0, "turn %d: %d sums are wrong", turn, wrong);
  free_memory(&send);
  free_memory(&recv);
}

static void* come_and_go(void* unused) {
  while (!atomic_load(&stop)) {
    void* other = dlopen(getenv("OTHER_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    if (other == NULL) abort();
    sched_yield();
    dlclose(other);
  }
  return unused;
}

static void* call(void* comm) {
  for (int turn = 0; turn < 200; turn++) check_sum(*(MPI_Comm*)comm, turn);
  return NULL;
}

/* Each rank notices before the call begins, so that nobody waits for anybody. */
static void test_failing_copy(MPI_Comm parent) {
  void (*fail)(int);
  *(void**)&fail = dlsym(gpu_library, "standin_fail");
  MPI_Comm comm;
  MPI_Comm_dup(parent, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  struct memory memory = take_memory(kDeviceMemory, kInts * sizeof(int));
  int *result = malloc(kInts * sizeof(int)), class;
  MPI_Request request = MPI_REQUEST_NULL;
  fail(1);
  MPI_Error_class(MPI_Allreduce(memory.address, result, kInts, MPI_INT, MPI_SUM, comm), &class);
  CHECK(class == MPI_ERR_OTHER, "a copy fails: class %d", class);
  MPI_Error_class(MPI_Iallreduce(memory.address, result, kInts, MPI_INT, MPI_SUM, comm, &request),
                  &class);
  CHECK(class == MPI_ERR_OTHER, "a copy fails, not blocking: class %d", class);
  fail(0);
  free_memory(&memory);
  free(result);
  MPI_Comm_free(&comm);
}

int main(int argc, char** argv) {
  int provided;
  pthread_t threads[3];
  MPI_Comm comms[2];
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 2; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
  /* What was loaded last goes away while it is watched. */
  for (int turn = 0; turn < 20; turn++) {
    void* other = dlopen(getenv("OTHER_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    check_sum(comms[0], turn);
    dlclose(other);
    check_sum(comms[0], turn);
  }
  open_gpu();
  pthread_create(&threads[2], NULL, come_and_go, NULL);
  for (int i = 0; i < 2 && provided == MPI_THREAD_MULTIPLE; i++)
    pthread_create(&threads[i], NULL, call, &comms[i]);
  for (int i = 0; i < 2; i++) {
    if (provided == MPI_THREAD_MULTIPLE)
      pthread_join(threads[i], NULL);
    else
      call(&comms[i]);
  }
  atomic_store(&stop, 1);
  pthread_join(threads[2], NULL);
  CHECK(gpu_copies() >= 600, "the device was copied from and to %ld times", gpu_copies());
  test_failing_copy(comms[0]);
  for (int i = 0; i < 2; i++) MPI_Comm_free(&comms[i]);
  return finish("gpu");
}
