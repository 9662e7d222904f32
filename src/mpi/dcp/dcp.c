/* DCP_Allreduce and DCP_Wait (CDCP-2008, section IV-B) as symbols of a library, for C and Fortran.
 *
 * One library serves every MPI: it passes its arguments on as they came, to the program's own MPI
 * or to what stands in front of it. A handle is an int or a pointer, by MPI; either comes and goes
 * in the whole of the same register, so its upper half, of which an int says nothing, is never
 * looked at. */
#include <stddef.h>

typedef const void* Handle;

int MPI_Iallreduce(const void* sendbuf, void* recvbuf, int count, Handle datatype, Handle op,
                   Handle comm, void* request);
int MPI_Wait(void* request, void* status);

/* Of the MPI's Fortran library, which a C program has not loaded. */
__attribute__((weak)) void mpi_iallreduce_(const void* sendbuf, void* recvbuf, const void* count,
                                           const void* datatype, const void* op, const void* comm,
                                           void* request, void* ierror);
__attribute__((weak)) void mpi_wait_(void* request, void* status, void* ierror);

/* MPI_STATUS_IGNORE is another address in each MPI, so there is a place for a status: the largest
 * has 32 bytes (MPI-5.0, section 20.3.2). */
typedef struct Ignored {
  _Alignas(max_align_t) char bytes[256];
} Ignored;

int DCP_Allreduce(const void* sendbuf, void* recvbuf, int count, Handle datatype, Handle op,
                  Handle comm, void* request) {
  return MPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
}

int DCP_Wait(void* request) {
  Ignored status;
  return MPI_Wait(request, &status);
}

/* Fortran: mpif.h and `use mpi`; include/tutti/dcp_f08.f90 is for `use mpi_f08`. */
void dcp_allreduce_(const void* sendbuf, void* recvbuf, const void* count, const void* datatype,
                    const void* op, const void* comm, void* request, void* ierror) {
  mpi_iallreduce_(sendbuf, recvbuf, count, datatype, op, comm, request, ierror);
}

void dcp_wait_(void* request, void* ierror) {
  Ignored status;
  mpi_wait_(request, &status, ierror);
}
