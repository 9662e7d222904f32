! The interface of CDCP-2008 for Fortran with "use mpi_f08". Module files belong to a compiler and an MPI, so a program
! compiles this file with its own sources:
!
!   mpifort .../include/tutti/dcp_f08.f90 program.f90
!
! Buffers are contiguous (MPI_ERR_BUFFER where they are not). Arguments, ownership and errors are those of MPI_Iallreduce and MPI_Wait (without the status); see tutti/dcp.h.
! Nothing has to be linked.
module dcp_f08
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_loc
  use mpi_f08
  implicit none
  private
  public :: DCP_Allreduce, DCP_Wait

contains

  ! MPIs disagree on how their modules take a buffer, and every one takes an element by its address.
  subroutine DCP_Allreduce(sendbuf, recvbuf, count, datatype, op, comm, request, ierror)
    type(*), dimension(..), target, intent(in), asynchronous :: sendbuf
    type(*), dimension(..), target, asynchronous :: recvbuf
    integer, intent(in) :: count
    type(MPI_Datatype), intent(in) :: datatype
    type(MPI_Op), intent(in) :: op
    type(MPI_Comm), intent(in) :: comm
    type(MPI_Request), intent(out) :: request
    integer, optional, intent(out) :: ierror
    integer, pointer, asynchronous :: from, into
    integer :: code

    if (.not. (is_contiguous(sendbuf) .and. is_contiguous(recvbuf))) then
      request = MPI_REQUEST_NULL
      call MPI_Comm_call_errhandler(comm, MPI_ERR_BUFFER, code)
      if (present(ierror)) ierror = MPI_ERR_BUFFER
      return
    end if
    call c_f_pointer(c_loc(sendbuf), from)
    call c_f_pointer(c_loc(recvbuf), into)
    call MPI_Iallreduce(from, into, count, datatype, op, comm, request, code)
    if (present(ierror)) ierror = code
  end subroutine DCP_Allreduce

  subroutine DCP_Wait(request, ierror)
    type(MPI_Request), intent(inout) :: request
    integer, optional, intent(out) :: ierror
    integer :: code

    call MPI_Wait(request, MPI_STATUS_IGNORE, code)
    if (present(ierror)) ierror = code
  end subroutine DCP_Wait

end module dcp_f08
