/* The lanes of this rank's record: one for each thread that calls. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mpi/preload/preload.h"

__thread struct tutti_lane* tutti_lane __attribute__((tls_model("initial-exec")));

struct tutti_record* tutti_record;

/* What threads without a lane write details to: nobody reads it. */
static struct tutti_lane nobodys;

static int has_ended(int32_t tid) {
  return syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH;
}

/* A lane that is free, or whose thread is gone. Several threads may look at the same time. */
static int take(struct tutti_lane* lane, int32_t own) {
  int32_t tid = __atomic_load_n(&lane->tid, __ATOMIC_RELAXED);
  if (tid == own) return 1;
  if (tid != 0 && !has_ended(tid)) return 0;
  return __atomic_compare_exchange_n(&lane->tid, &tid, own, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

__attribute__((cold, noinline)) struct tutti_lane* tutti_take_lane(void) {
  struct tutti_record* record = __atomic_load_n(&tutti_record, __ATOMIC_ACQUIRE);
  if (record == NULL) return NULL;
  const int32_t own = (int32_t)syscall(SYS_gettid);
  for (int i = 0; i < TUTTI_RECORD_LANES && tutti_lane == NULL; i++) {
    if (take(&record->lanes[i], own)) tutti_lane = &record->lanes[i];
  }
  if (tutti_lane == NULL) {
    __atomic_fetch_add(&record->crowded, 1, __ATOMIC_RELAXED);
    tutti_lane = &nobodys; /* not asked for again */
  } else if (tutti_lane->count & 1) {
    __atomic_store_n(&tutti_lane->count, tutti_lane->count + 1, __ATOMIC_RELEASE);
  }
  return tutti_lane;
}

struct tutti_lane* tutti_lane_here(void) {
  return tutti_lane != NULL ? tutti_lane : &nobodys;
}

void tutti_keep_record(struct tutti_record* record) {
  __atomic_store_n(&tutti_record, record, __ATOMIC_RELEASE);
  tutti_lane = NULL;
}
