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

/* What the recorder knows of a call beside its times. Gives tutti_event::of. */
static inline uint64_t note_arguments(const struct tutti_lane* lane, struct tutti_event* event) {
  if (lane->detail_count == lane->count && lane->detail < TUTTI_RECORD_HEAD) {
    const struct tutti_past* past =
        (const void*)((const char*)__atomic_load_n(&tutti_record, __ATOMIC_RELAXED) + lane->detail);
    TUTTI_SET(event->bytes, past->bytes);
    TUTTI_SET(event->what, past->what);
    return tutti_event_of(lane->function, lane->detail / 8, past->number);
  }
  TUTTI_SET(event->bytes, lane->comm);
  TUTTI_SET(event->what, (uint32_t)lane->peer | (uint64_t)(uint32_t)lane->tag << 32);
  return tutti_event_of(lane->function, 0, 0);
}

/* A call that has waited: what it waited for last counts, too. Gives its end. */
static __attribute__((noinline)) uint64_t note_wait(struct tutti_lane* lane,
                                                    struct tutti_event* event) {
  tutti_turn_wait(lane, lane->awaited);
  TUTTI_SET(event->begin_ns, lane->since_ns);
  TUTTI_SET(event->partner, lane->longest);
  TUTTI_SET(event->partner_us, lane->longest_us);
  return lane->awaited_since;
}

static void (*count_calls)(struct tutti_lane* lane);

__attribute__((cold, noinline)) void tutti_note_begin(struct tutti_lane* lane) {
  if ((lane->count / 2 & (TUTTI_EVENTS_COUNTED - 1)) == 0 && count_calls != NULL) count_calls(lane);
  tutti_stamp(lane, tutti_time(lane));
}

/* All but the times. Gives tutti_event::of. */
static inline uint64_t note_call(const struct tutti_lane* lane, struct tutti_event* event) {
  __atomic_thread_fence(__ATOMIC_RELEASE); /* readers see that it is this call's turn first */
  TUTTI_SET(event->site, lane->site);
  return note_arguments(lane, event);
}

static inline void note_times(struct tutti_lane* lane, struct tutti_event* event) {
  TUTTI_SET(event->begin_ns, lane->since_count == lane->count ? lane->since_ns : 0);
  TUTTI_SET(event->end_ns, tutti_time(lane));
}

void tutti_note_early(struct tutti_lane* lane) {
  const uint64_t count = lane->count;
  const int may = lane->events != 0 && !lane->exact && (count & 1) && lane->detail_count == count;
  if (!may) return;
  struct tutti_event* const event = tutti_event_here(lane);
  if (event->count == count) return;
  TUTTI_SET(event->of, note_call(lane, event));
  note_times(lane, event);
  TUTTI_SET(event->count, count);
}

void tutti_note_event(struct tutti_lane* lane) {
  struct tutti_event* const event = tutti_event_here(lane);
  const int waited = tutti_has_waited(lane);
  if (event->count == lane->count && !waited) return; /* tutti_note_early() */
  uint64_t of = note_call(lane, event);
  if (__builtin_expect(waited, 0)) {
    of |= TUTTI_EVENT_WAITED;
    TUTTI_SET(event->end_ns, note_wait(lane, event));
  } else {
    note_times(lane, event);
  }
  TUTTI_SET(event->of, of);
  TUTTI_SET(event->count, lane->count);
}

static void (*before_abort)(void);

void tutti_keep_record(struct tutti_record* record, void (*aborts)(void),
                       void (*counts)(struct tutti_lane* lane)) {
  before_abort = aborts;
  count_calls = counts;
  __atomic_store_n(&tutti_record, record, __ATOMIC_RELEASE);
  tutti_lane = NULL;
}

EXPORT int MPI_Abort(handle comm, int code) {
  void (*const first)(void) = before_abort;
  if (first != NULL) first();
  int (*abort_native)(handle, int) = (int (*)(handle, int))tutti_library_symbol("PMPI_Abort");
  return abort_native(comm, code);
}
EXPORT int PMPI_Abort(handle comm, int code) __attribute__((alias("MPI_Abort")));
