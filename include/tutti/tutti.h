/* tutti: one-sided collectives for parallel programs and runtimes, without MPI.
 *
 * A job is one rank's access to all ranks of a parallel program; a team is a group of ranks that
 * run collectives together. The host program supplies a way to exchange a few bytes at start-up (or
 * uses tutti_bootstrap_directory), then everything moves by remote memory access.
 *
 * Rules that hold for every function:
 *  - Functions return TUTTI_OK or an error; outputs are set only on success. Nothing throws,
 * nothing aborts. A rank that dies makes the collectives that need it fail with
 * TUTTI_ERR_PEER_LOST.
 *  - Buffers belong to the caller and must stay valid and unchanged until the operation has
 * completed.
 *  - Collectives of a team must be called (or started) in the same order by all its members, with
 * the same sizes, roots, operators and types.
 *  - One thread at a time per job, unless it was created with threads != 0.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1

typedef enum tutti_status {
  TUTTI_OK = 0,
  TUTTI_ERR_PEER_LOST,     /* a rank died or cannot be reached */
  TUTTI_ERR_TIMEOUT,       /* TUTTI_DEADLINE has passed */
  TUTTI_ERR_TRUNCATED,     /* something did not fit */
  TUTTI_ERR_ARGUMENT,      /* an argument is wrong */
  TUTTI_ERR_NO_MEMORY,     /* memory, address space or descriptors are exhausted */
  TUTTI_ERR_NOT_PERMITTED, /* the kernel refused */
  TUTTI_ERR_UNSUPPORTED,   /* not possible here (ranks on several nodes, operator on this type, ...)
                            */
  TUTTI_ERR_VERSION_MISMATCH, /* the ranks run different versions of tutti */
  TUTTI_ERR_CORRUPT,          /* data did not pass its check */
  TUTTI_ERR_INTERNAL          /* a defect of tutti */
} tutti_status;

typedef enum tutti_op {
  TUTTI_SUM,
  TUTTI_PROD,
  TUTTI_MIN,
  TUTTI_MAX,
  TUTTI_LAND,
  TUTTI_LOR,
  TUTTI_LXOR,
  TUTTI_BAND,
  TUTTI_BOR,
  TUTTI_BXOR,
  TUTTI_MINLOC,
  TUTTI_MAXLOC
} tutti_op;

typedef enum tutti_type {
  TUTTI_INT8,
  TUTTI_INT16,
  TUTTI_INT32,
  TUTTI_INT64,
  TUTTI_UINT8,
  TUTTI_UINT16,
  TUTTI_UINT32,
  TUTTI_UINT64,
  TUTTI_FLOAT16,
  TUTTI_BFLOAT16,
  TUTTI_FLOAT,
  TUTTI_DOUBLE,
  TUTTI_LONG_DOUBLE,
  TUTTI_COMPLEX_FLOAT,
  TUTTI_COMPLEX_DOUBLE,
  TUTTI_BYTE,
  TUTTI_FLOAT_INT,
  TUTTI_DOUBLE_INT,
  TUTTI_INT_INT /* struct {value; int index;} for MINLOC and MAXLOC */
} tutti_type;

typedef enum tutti_collective {
  TUTTI_BARRIER,
  TUTTI_BCAST,
  TUTTI_REDUCE,
  TUTTI_ALLREDUCE,
  TUTTI_ALLGATHER,
  TUTTI_ALLGATHERV,
  TUTTI_GATHER,
  TUTTI_SCATTER,
  TUTTI_REDUCE_SCATTER_BLOCK,
  TUTTI_ALLTOALL,
  TUTTI_REDUCE_SCATTER,
  TUTTI_SCAN,
  TUTTI_EXSCAN,
  TUTTI_GATHERV,
  TUTTI_SCATTERV,
  TUTTI_ALLTOALLV,
  TUTTI_ALLTOALLW,
  TUTTI_NEIGHBOR_ALLGATHER,
  TUTTI_NEIGHBOR_ALLGATHERV,
  TUTTI_NEIGHBOR_ALLTOALL,
  TUTTI_NEIGHBOR_ALLTOALLV,
  TUTTI_NEIGHBOR_ALLTOALLW
} tutti_collective;

typedef struct tutti_job tutti_job;
typedef struct tutti_team tutti_team;
typedef struct tutti_request tutti_request;

/* How the ranks find each other. `allgather` gathers `bytes` from every rank into `out` (size *
 * bytes, in rank order), blocks, and returns 0 on success; it is called only inside tutti_init, by
 * all ranks alike. `pump` (may be NULL) is called now and then by threads that wait inside tutti: a
 * runtime with a progress engine of its own runs it there, without blocking. `self` is passed back
 * unchanged. */
typedef struct tutti_bootstrap {
  int rank;
  int size;
  void* self;
  int (*allgather)(void* self, const void* in, void* out, size_t bytes);
  void (*pump)(void* self);
} tutti_bootstrap;

/* A bootstrap through files in a directory that all ranks reach and that is empty at the start of
 * the job. Free it with tutti_bootstrap_free after tutti_init (all ranks); one small file per rank
 * stays in the directory, which is the caller's to remove after the job. */
TUTTI_API tutti_status tutti_bootstrap_directory(const char* directory, int rank, int size,
                                                 tutti_bootstrap* out);
TUTTI_API void tutti_bootstrap_free(tutti_bootstrap* bootstrap);

/* Collective over all ranks. `threads`: several threads will use the job at the same time. Settings
 * come from TUTTI_* variables (docs/settings.md). Why it failed is said on standard error. */
TUTTI_API tutti_status tutti_init(const tutti_bootstrap* bootstrap, int threads, tutti_job** out);
/* All teams and requests must have been freed, and no rank may still need this one: end with a
 * barrier. */
TUTTI_API void tutti_finalize(tutti_job* job);

/* Local. `members`: job ranks in team order, NULL for 0 ... size-1. `id`: the same on all members,
 * and different for every team of the job that ever lives. */
TUTTI_API tutti_status tutti_team_create(tutti_job* job, uint64_t id, int rank, int size,
                                         const int32_t* members, tutti_team** out);
TUTTI_API void tutti_team_free(tutti_team* team);
TUTTI_API int tutti_team_rank(const tutti_team* team);
TUTTI_API int tutti_team_size(const tutti_team* team);

/* One collective. `bytes`: of the whole vector for bcast, of one rank's block for allgather,
 * gather, scatter and alltoall; unused for the others. `count`: elements of the whole vector for
 * reduce, allreduce, scan and exscan, of one block for reduce_scatter_block. In place: send == recv
 * for reduce (root), allreduce, reduce_scatter_block, reduce_scatter, scan, exscan, alltoall; send
 * == recv + own offset for allgather(v) and gather (root); recv == send + own offset for scatter
 * (root); bcast uses only recv. Exscan leaves recv of rank 0 alone. `counts`: bytes of each rank's
 * block, by rank (allgatherv; reduce_scatter, where they are whole elements and follow each other
 * in send). `displs`: where the blocks begin in recv, in bytes (allgatherv).
 *
 * Of gatherv, scatterv, alltoallv and alltoallw and the collectives of neighbours (here all the
 * same as alltoallv: who is no neighbour has no bytes) each rank says what it sends and receives
 * itself, and no more: `send_counts` and `send_displs` of `send` (scatterv: at the root;
 * alltoallv), `counts` and `displs` of `recv` (gatherv: at the root; alltoallv), in bytes and by
 * rank; `bytes` is the one block that is sent (gatherv) or received (scatterv). What is kept by the
 * rank itself may be in place; else send and recv must not overlap. A rank that is sent more than
 * it expects reports TUTTI_ERR_TRUNCATED. */
typedef struct tutti_call {
  tutti_collective collective;
  int root;
  const void* send;
  void* recv;
  size_t bytes;
  size_t count;
  tutti_type type;
  tutti_op op;
  const size_t* counts;
  const size_t* displs;
  const size_t* send_counts;
  const size_t* send_displs;
} tutti_call;

/* Runs a collective to its end. */
TUTTI_API tutti_status tutti_run(tutti_team* team, const tutti_call* call);
/* Starts it and returns at once. The call structure is copied (not counts and displs of
 * allgatherv). */
TUTTI_API tutti_status tutti_start(tutti_team* team, const tutti_call* call, tutti_request** out);
/* A persistent operation, not yet started: tutti_restart begins it, any number of times. */
TUTTI_API tutti_status tutti_prepare(tutti_team* team, const tutti_call* call, tutti_request** out);
TUTTI_API tutti_status tutti_restart(tutti_request* request);
/* *done is 1 when the operation is over (the result is then its status), else 0 (the result is
 * TUTTI_OK). */
TUTTI_API tutti_status tutti_test(tutti_request* request, int* done);
TUTTI_API tutti_status tutti_wait(tutti_request* request);
/* Legal while the operation is active: it then completes by itself. */
TUTTI_API void tutti_request_free(tutti_request* request);

/* ---- messages between two ranks of a team: matched, and in order, as in MPI (4.1, sections 3.2 to
 * 3.9). Tags are 0 ... 2^31-1; receives and probes may leave source or tag open. A message that is
 * longer than its buffer fills it, and the receive says TUTTI_ERR_TRUNCATED. The same threads may
 * use messages and collectives, under the rule of tutti_init. */

#define TUTTI_ANY_SOURCE (-1)
#define TUTTI_ANY_TAG (-1)

/* What a receive has got or a probe has found. `bytes`: of the message, also where it was longer.
 */
typedef struct tutti_receipt {
  int source;
  int tag;
  size_t bytes;
} tutti_receipt;

/* Returns when `data` may be used again. */
TUTTI_API tutti_status tutti_send(tutti_team* team, const void* data, size_t bytes, int destination,
                                  int tag);
/* `room`: bytes in `buffer`. `receipt` may be NULL. */
TUTTI_API tutti_status tutti_receive(tutti_team* team, void* buffer, size_t room, int source,
                                     int tag, tutti_receipt* receipt);
/* Begin and return at once; the memory is tutti's until the request is over. tutti_test,
 * tutti_wait, tutti_restart and tutti_request_free take these requests too. Freed while it is
 * active, a message is completed all the same, and its memory stays in use until then. */
TUTTI_API tutti_status tutti_start_send(tutti_team* team, const void* data, size_t bytes,
                                        int destination, int tag, tutti_request** out);
TUTTI_API tutti_status tutti_start_receive(tutti_team* team, void* buffer, size_t room, int source,
                                           int tag, tutti_request** out);
/* *found is 1 when there is a message that such a receive would take, which stays where it is. Does
 * not wait. */
TUTTI_API tutti_status tutti_probe(tutti_team* team, int source, int tag, int* found,
                                   tutti_receipt* receipt);
/* Of a receive that is over. */
TUTTI_API tutti_status tutti_get_receipt(const tutti_request* request, tutti_receipt* receipt);

/* ---- the usual collectives in one line */
TUTTI_API tutti_status tutti_barrier(tutti_team* team);
TUTTI_API tutti_status tutti_bcast(tutti_team* team, void* buffer, size_t bytes, int root);
TUTTI_API tutti_status tutti_reduce(tutti_team* team, const void* send, void* recv, size_t count,
                                    tutti_type type, tutti_op op, int root);
TUTTI_API tutti_status tutti_allreduce(tutti_team* team, const void* send, void* recv, size_t count,
                                       tutti_type type, tutti_op op);
TUTTI_API tutti_status tutti_allgather(tutti_team* team, const void* send, void* recv,
                                       size_t bytes);

/* A status in words. Static string. */
TUTTI_API const char* tutti_status_text(tutti_status status);
/* "0.1.0" */
TUTTI_API const char* tutti_version(void);

#ifdef __cplusplus
}
#endif

#endif
