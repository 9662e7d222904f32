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
  TUTTI_NO_RANK = -1000000,
};
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
  /* What call detail_count is, or waits for: the tutti_past that lies so far into the record. */
  uint64_t detail_count, detail;
  uint64_t reserved[6];
};

/* What the rank has passed to a collective. While it is written its number is 0. */
struct tutti_past {
  uint64_t number; /* on the communicator, from 1 */
  uint64_t site;   /* where it was called */
  uint64_t bytes;  /* TUTTI_NO_BYTES: not known; TUTTI_BYTES_LATER: nor the operator, not yet */
  uint64_t what;   /* enum Coll, operator << 8 and type << 16 as in Reduction, root << 32 */
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
  char
      name[TUTTI_RECORD_NAME]; /* as MPI_Comm_get_name gave it at the first collective; may be "" */
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
};

#ifdef __cplusplus
static_assert(
    sizeof(struct tutti_lane) == 128 && offsetof(struct tutti_record, lanes) == 128 &&
        sizeof(struct tutti_record) <= 16384,
    "lanes are cache lines of their own, and a record is as large as the segment has them");
#endif

#define TUTTI_SET(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)

/* Says since when the thread has been in its present call, once for each. */
static inline void tutti_stamp(struct tutti_lane* lane) {
  struct timespec now;
  uint64_t count = lane->count;
  if (lane->since_count == count) return;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  TUTTI_SET(lane->since_ns, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
  __atomic_store_n(&lane->since_count, count, __ATOMIC_RELEASE);
}

#ifdef __cplusplus
}
#endif

#endif
