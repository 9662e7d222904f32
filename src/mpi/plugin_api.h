/* What preload and plugin tell each other. Plain C, the same for every ABI.
 *
 * The preload (libtutti-preload.so) is in the process from its start and needs only libc; after
 * MPI_Init it opens the plugin (libtutti-mpi-<abi>.so) and calls tutti_mpi_attach. */
#ifndef TUTTI_MPI_PLUGIN_API_H_
#define TUTTI_MPI_PLUGIN_API_H_

#include "mpi/generated/function_index.h"
#include "mpi/record/record.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tutti_preload {
  unsigned signature; /* TUTTI_MPI_TABLE_SIGNATURE of the preload */
  int thread_level;   /* what MPI_Init_thread provided, as this MPI numbers it */
  const char* plugin_path;
  /* The MPI's own function or data symbol of this name ("PMPI_Send", "ompi_mpi_int"), or NULL. For
     exported functions that the MPI lacks, the preload's replacement. */
  void* (*find)(const char* name);
  /* Handlers by index; NULL passes the call to the MPI. Written by the plugin with release stores
     while it attaches and when it leaves, read by every wrapper. */
  void** handlers;
  /* Keeps a record of the calls in progress, in memory that stays; NULL: no more. What has been
     given before must still be there then: a thread may be on its way out of a call. In a child of
     fork(): by its one thread. `aborts` is called first when the program calls MPI_Abort.
     `counts`, which may be NULL: where lanes are `exact`, each thread calls it with its own before
     every TUTTI_EVENTS_COUNTED-th call. */
  void (*keep_record)(struct tutti_record* record, void (*aborts)(void),
                      void (*counts)(struct tutti_lane* lane));
  /* The calling thread's lane of it. Never NULL. */
  struct tutti_lane* (*lane)(void);
  /* The calling thread's call has sent what it has: writes it down meanwhile, once for each call.
   */
  void (*note_early)(struct tutti_lane* lane);
};

#define TUTTI_MPI_ATTACH "tutti_mpi_attach"

/* In the plugins' first exchange, a PMPI_Allreduce (MPI_MIN) of so many ints over MPI_COMM_WORLD, a
 * rank that cannot open its plugin takes part with zeros, which no plugin has. Then they ask, with
 * one int, whether it is that: it says so with a zero, and leaves. */
enum { TUTTI_FIRST_EXCHANGE_INTS = 12 };

/* Collective over MPI_COMM_WORLD, called once, on all ranks or on none. Returns 1 when the handlers
 * are in place on every rank, 0 when on none (a message has been printed where it helps). */
typedef int tutti_mpi_attach_function(const struct tutti_preload* preload);
int tutti_mpi_attach(const struct tutti_preload* preload);

#define TUTTI_MPI_ENDING "tutti_mpi_ending"

/* The process ends by exit(), whose destructors take libraries down while other threads run: what
 * these do with tutti from now on touches none that is not tutti's. Any thread, once attached;
 * nothing is done in a forked child, nor after MPI_Finalize. */
typedef void tutti_mpi_ending_function(void);
void tutti_mpi_ending(void);

#ifdef __cplusplus
}
#endif

#endif
