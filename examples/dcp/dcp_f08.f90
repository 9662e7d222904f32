! The same in Fortran with "use mpi_f08":
!
!     mpifort include/tutti/dcp_f08.f90 examples/dcp/dcp_f08.f90 -o dcp
!     tutti run --dcp 1 mpiexec -n 4 ./dcp
program sums
  use mpi_f08
  use dcp_f08
  implicit none
  integer :: rank, ranks, i, wrong, code
  type(MPI_Request) :: request
  double precision :: parts(8), totals(8)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  wrong = 0
  do i = 1, 100
    parts = rank + i
    call DCP_Allreduce(parts, totals, 8, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request)
    call DCP_Wait(request)
    if (any(totals /= ranks * i + ranks * (ranks - 1) / 2) .or. request /= MPI_REQUEST_NULL) wrong = wrong + 1
    call DCP_Allreduce(MPI_IN_PLACE, parts(3), 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request, code)
    call DCP_Wait(request)
    if (parts(3) /= totals(3) .or. parts(4) /= rank + i .or. code /= MPI_SUCCESS) wrong = wrong + 1
  end do
  call DCP_Allreduce(parts(1:8:2), totals, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request, code)
  if (code /= MPI_ERR_BUFFER .or. request /= MPI_REQUEST_NULL) wrong = wrong + 1  ! its elements are apart
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. wrong /= 0) print '(i0,a)', wrong, ' sums were wrong'
  if (rank == 0 .and. wrong == 0) print '(a)', '200 sums, all right'
  call MPI_Finalize()
  if (wrong /= 0) stop 1
end program
