/* The interface of CDCP-2008 (section IV-B): start an allreduce on the dedicated processors, and
 * wait for its result.
 *
 *     DCP_Request sum;
 *     DCP_Allreduce(&part, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &sum);
 *     ... compute, or communicate with the neighbours ...
 *     DCP_Wait(&sum);
 *
 * Link with -ltutti-dcp, which works with every MPI. Run with `tutti run --dcp 1 mpiexec ...` and
 * the dedicated processors do the work; without them, and without tutti, the same program runs on
 * whatever makes MPI_Iallreduce progress. Like every collective, all members of the communicator
 * call DCP_Allreduce in the same order.
 *
 * C and C++; thread-safe as MPI_Iallreduce is. Fortran: tutti/dcpf.h and tutti/dcp_f08.f90.
 */
#ifndef TUTTI_DCP_H_
#define TUTTI_DCP_H_

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A collective that has been handed over. Owned by the caller from DCP_Allreduce to DCP_Wait. It
 * is a request like others: MPI_Test, MPI_Waitall and so on take it, too. */
typedef MPI_Request DCP_Request;

/* Starts to combine `count` elements of `sendbuf` (or of `recvbuf`, where sendbuf is MPI_IN_PLACE)
 * of all members of `comm` with `op`; the result is in `recvbuf` after DCP_Wait. Until then the
 * send buffer must not change and the receive buffer must not be read. Returns MPI_SUCCESS or an
 * error code of MPI's, as the communicator's error handler says. */
int DCP_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm, DCP_Request* request);

/* Waits for it and gives the request back: it is then MPI_REQUEST_NULL. Returns as
 * DCP_Allreduce does. */
int DCP_Wait(DCP_Request* request);

#ifdef __cplusplus
}
#endif

#endif
