/* What a rank says of itself, in memory that others may read while it runs and after its end: which
 * MPI call each of its threads is in, and how far it has come on each communicator.
 *
 * Plain C, one layout for the preload and the plugins, which write it, and for `tutti where`, which
 * reads it from outside (roll.hpp). A record is one of those that Job::take_records() gives.
 *
 * Everything has one writer: a lane its thread, the rest the rank. Words are stored one by one
 * without order, but for those that vouch for others (`count`, `detail_count`, the number of a
 * tutti_past), which are stored behind them (release). Readers copy, and look whether these are
 * still the same (read.cpp). */
#ifndef TUTTI_MPI_RECORD_RECORD_H_
#define TUTTI_MPI_RECORD_RECORD_H_

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_RECORD_MAGIC 0x6c6c6f7269747574u /* "tutiroll" */

enum {
  TUTTI_RECORD_LANES = 6,
  TUTTI_RECORD_COMMS = 32,
  TUTTI_RECORD_NAME = 32,
  TUTTI_RECORD_PAST = 8, /* of each communicator; powers of two */
  TUTTI_RECORD_MADE = 4,
  TUTTI_RECORD_TOLD = 4,
  TUTTI_RECORD_HEAD = 16384, /* bytes of a tutti_record and what is left free behind it */
  /* Events of the first lane and of each other; powers of two. They follow the head. */
  TUTTI_EVENTS_FIRST = 4096,
  TUTTI_EVENTS_OTHER = 256,
  TUTTI_EVENTS_COUNTED = 64, /* with a report they are counted at least so often; a power of two */
  TUTTI_NO_RANK = -1000000,
  /* Values of tutti_lane::detail, behind all collectives: the call waits for a message, of which
     the lane has peer, tag and communicator. */
  TUTTI_DETAIL_RECEIVE = TUTTI_RECORD_HEAD,
  TUTTI_DETAIL_SEND = TUTTI_RECORD_HEAD + 8,
};
#define TUTTI_WRITTEN_AT_END UINT64_MAX /* a value of tutti_origin::written_calls */
#define TUTTI_NO_BYTES UINT64_MAX
#define TUTTI_BYTES_LATER (UINT64_MAX - 1)

/* One thread's. `count` is odd while it is in call number (count + 1) / 2, else even. */
struct tutti_lane {
  uint64_t count;
  uint64_t frame;    /* of the outermost call: what is called from inside it lies below */
  uint64_t site;     /* where it returns to */
  uint32_t function; /* enum tutti_mpi_function */
  int32_t tid;       /* 0: nobody's */
  int32_t peer, tag; /* of a message; TUTTI_NO_RANK: there is none */
  uint64_t comm;     /* handle, of a call that has one and is no collective of tutti's */
  uint64_t since_count, since_ns; /* CLOCK_MONOTONIC at which call since_count was waiting */
  /* What call detail_count is, or waits for: the tutti_past that lies so far into the record, or a
     message. */
  uint64_t detail_count, detail;
  /* The last calls that have ended: `mask` + 1 events, so many bytes behind the lane; 0: they are
     not kept. exact: the clock is read for each. */
  uint32_t events;
  uint16_t mask, exact;
  /* When the clock was last read: the coarse one, and the exact one since it has moved. */
  uint64_t tick, stamp;
  /* In call waited_count (its lower half) the thread has waited: now for rank `awaited` (-1: for
     any), since when; before, for `longest` for so long at most. */
  uint64_t awaited_since;
  uint32_t waited_count, longest_us;
  int32_t awaited, longest;
};

/* A call that has ended, or that its thread is in while the lane's count is the same. Its place is
   (count / 2) of its lane's ring. It is written over while the lane's count is more by twice the
   ring's places: readers ask for that count before and behind it. */
struct tutti_event {
  uint64_t count;    /* the lane's in it, odd; 0: none yet */
  uint64_t begin_ns; /* CLOCK_MONOTONIC; when it began to wait where it is told no better; 0: just
                        before its end */
  uint64_t end_ns;   /* the same as of the event before: somewhat later, at most a coarse tick */
  uint64_t site;
  uint64_t bytes; /* as in tutti_past; of a message: the communicator's handle */
  uint64_t what;  /* as in tutti_past; of a message: peer | tag << 32 */
  uint64_t of;    /* tutti_event_of(), and TUTTI_EVENT_WAITED */
  /* Of a call that has waited: for whom longest (-1: for any), and for how long. */
  int32_t partner;
  uint32_t partner_us;
};

#define TUTTI_EVENT_WAITED ((uint64_t)1 << 31) /* both times are exact */

/* enum tutti_mpi_function; tutti_lane::detail / 8, 0: no collective of tutti's; its number there,
   the lower half. */
static inline uint64_t tutti_event_of(uint64_t function, uint64_t detail, uint64_t number) {
  return function | detail << 16 | number << 32;
}

/* Where the rank runs: what its times and addresses mean. */
struct tutti_origin {
  uint64_t clock;                      /* equal where CLOCK_MONOTONIC is the same */
  uint64_t monotonic_ns, realtime_ns;  /* of one moment */
  uint64_t program_begin, program_end; /* the executable's addresses */
  /* When some rank last began to write it to a file, and which beginning has come to its end. */
  uint64_t begun_ns, written_ns;
  char node[TUTTI_RECORD_NAME];
  /* How far its calls were (tutti_calls) when it was last written to a file; 0: it never was. */
  uint64_t written_calls;
};

/* What the rank has passed to a collective. While it is written its number is 0. */
struct tutti_past {
  uint64_t number; /* on the communicator, from 1 */
  uint64_t site;   /* where it was called */
  uint64_t bytes;  /* TUTTI_NO_BYTES: not known; TUTTI_BYTES_LATER: nor the operator, not yet */
  /* enum Coll, operator << 8 and type << 16 as in Reduction, 1 + place of the algorithm in the list
     of all << 24 (0: not known), root << 32 */
  uint64_t what;
};

/* A communicator that the rank is a member of. */
struct tutti_comm_row {
  uint64_t id;      /* the same on all members; 0: the row is free */
  uint64_t handle;  /* on this rank */
  uint64_t number;  /* of its last blocking collective, from 1; 0: none yet */
  uint64_t started; /* of its last non-blocking one */
  int32_t size, rank;
  /* Its members are first, first + stride, ... of the world; stride 0: not in such a row, or not
     known yet. */
  int32_t first, stride;
  char name[TUTTI_RECORD_NAME]; /* as MPI_Comm_get_name gave it at the first collective, or "" */
  uint64_t since_ns;            /* CLOCK_MONOTONIC when it got the row */
  /* The last of them: number n is in place n % TUTTI_RECORD_PAST or _MADE. */
  struct tutti_past past[TUTTI_RECORD_PAST];
  struct tutti_past made[TUTTI_RECORD_MADE];
};

struct tutti_record {
  uint64_t magic;     /* stored last */
  uint32_t signature; /* TUTTI_MPI_TABLE_SIGNATURE: what function numbers mean */
  int32_t rank, size; /* in the program's world */
  int32_t pid;
  uint64_t job;                /* equal for the ranks of a job */
  uint64_t processes;          /* the pid namespace in which `pid` is meant; 0: not known */
  uint64_t started;            /* of the process, as /proc/PID/stat has it: tells a reused number */
  int32_t finalizing;          /* MPI_Finalize has begun */
  uint32_t crowded;            /* threads that found no lane: their calls are not seen */
  int32_t any_source, any_tag; /* as this MPI numbers them */
  char program[TUTTI_RECORD_NAME];
  /* In the record of the node's first rank, by any: the communicators of which somebody has said
     that the calls differ (TUTTI_CHECK=calls). Taken by compare and exchange, in order. */
  uint64_t told[TUTTI_RECORD_TOLD];
  struct tutti_lane lanes[TUTTI_RECORD_LANES];
  struct tutti_comm_row comms[TUTTI_RECORD_COMMS];
  struct tutti_origin origin;
};

/* Grows with each call that begins or ends in any thread; never 0. */
static inline uint64_t tutti_calls(const struct tutti_record* record) {
  uint64_t calls = 1;
  for (int i = 0; i < TUTTI_RECORD_LANES; i++)
    calls += __atomic_load_n(&record->lanes[i].count, __ATOMIC_RELAXED);
  return calls;
}

#ifdef __cplusplus
static_assert(
    sizeof(struct tutti_lane) == 128 && offsetof(struct tutti_record, lanes) == 128 &&
        sizeof(struct tutti_record) <= TUTTI_RECORD_HEAD && sizeof(struct tutti_event) == 64,
    "lanes are cache lines of their own, and a record is as large as the segment has them");
#endif

#define TUTTI_SET(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)

static inline uint64_t tutti_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The time for a call that does not wait. The exact clock is dear: it is read when the coarse one
 * has moved, so the first time in each of its ticks is exact, and others are the same again. */
static inline uint64_t tutti_time(struct tutti_lane* lane) {
  const uint64_t tick = tutti_clock(CLOCK_MONOTONIC_COARSE);
  if (__builtin_expect(tick != lane->tick || lane->exact, 0)) {
    TUTTI_SET(lane->tick, tick);
    TUTTI_SET(lane->stamp, tutti_clock(CLOCK_MONOTONIC));
  }
  return lane->stamp;
}

/* Says since when the thread has been in its present call, once for each. */
static inline void tutti_stamp(struct tutti_lane* lane, uint64_t now) {
  TUTTI_SET(lane->since_ns, now);
  __atomic_store_n(&lane->since_count, lane->count, __ATOMIC_RELEASE);
}

/* The thread waits, for a rank or for any (-1): from now on, as far as that is known. */
static inline void tutti_turn_wait(struct tutti_lane* lane, int32_t awaited) {
  const uint64_t now = tutti_clock(CLOCK_MONOTONIC);
  const uint32_t count = (uint32_t)lane->count;
  if (lane->waited_count != count) {
    if (lane->since_count != lane->count) tutti_stamp(lane, now);
    TUTTI_SET(lane->longest, TUTTI_NO_RANK);
    TUTTI_SET(lane->longest_us, 0);
    TUTTI_SET(lane->waited_count, count);
  } else {
    const uint64_t us = (now - lane->awaited_since) / 1000;
    if (us >= lane->longest_us) {
      TUTTI_SET(lane->longest_us, us < UINT32_MAX ? (uint32_t)us : UINT32_MAX);
      TUTTI_SET(lane->longest, lane->awaited);
    }
  }
  TUTTI_SET(lane->stamp, now);
  TUTTI_SET(lane->awaited_since, now);
  TUTTI_SET(lane->awaited, awaited);
}

/* Where the lane's present call is written down. */
static inline struct tutti_event* tutti_event_here(struct tutti_lane* lane) {
  return (struct tutti_event*)(void*)((char*)lane + lane->events) + (lane->count / 2 & lane->mask);
}

/* What has been written down of the present call is not true any more: it is written again when the
 * call ends. */
static inline void tutti_forget_event(struct tutti_lane* lane) {
  if (lane->events != 0) TUTTI_SET(tutti_event_here(lane)->count, 0);
}

static inline int tutti_has_waited(const struct tutti_lane* lane) {
  return lane->waited_count == (uint32_t)lane->count;
}

#ifdef __cplusplus
}
#endif

#endif
