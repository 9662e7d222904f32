! The interface of CDCP-2008 for Fortran with mpif.h or "use mpi", in fixed and in free form:
!
!       include 'tutti/dcpf.h'
!       call DCP_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request, ierror)
!       call DCP_Wait(request, ierror)
!
! Arguments, ownership and errors are those of MPI_IALLREDUCE and MPI_WAIT (without the status); see tutti/dcp.h.
! Link with -ltutti-dcp.
      external DCP_Allreduce, DCP_Wait
