/* The interface of CDCP-2008 (section IV-B): start an allreduce on the dedicated processors, and
 * wait for its result.
 *
 *     DCP_Request sum;
 *     DCP_Allreduce(&part, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &sum);
 *     ... compute, or communicate with the neighbours ...
 *     DCP_Wait(&sum);
 *
 * Nothing has to be linked. Run with `tutti run --dcp 1 mpiexec ...` and the dedicated processors
 * do the work; without them the same program runs on whatever makes MPI_Iallreduce progress. Like
 * every collective, all members of the communicator call DCP_Allreduce in the same order.
 *
 * Include <mpi.h> first, or let this header do it. C and C++; thread-safe as MPI_Iallreduce is.
 */
#ifndef TUTTI_DCP_H_
#define TUTTI_DCP_H_

#include <mpi.h>

/* A collective that has been handed over. Owned by the caller from DCP_Allreduce to DCP_Wait. */
typedef MPI_Request DCP_Request;

/* Starts to combine `count` elements of `sendbuf` (or of `recvbuf`, where sendbuf is MPI_IN_PLACE)
 * of all members of `comm` with `op`; the result is in `recvbuf` after DCP_Wait. Until then the
 * send buffer must not change and the receive buffer must not be read. Returns MPI_SUCCESS or an
 * error code of MPI's, as the communicator's error handler says. */
static inline int DCP_Allreduce(const void* sendbuf, void* recvbuf, int count,
                                MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                DCP_Request* request) {
  return MPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
}

/* Waits for it and gives the request back: it is then MPI_REQUEST_NULL. */
static inline int DCP_Wait(DCP_Request* request) { return MPI_Wait(request, MPI_STATUS_IGNORE); }

#endif
