! The same in Fortran with "use mpi" (or mpif.h):
!
!     mpifort -Iinclude examples/dcp/dcp.f90 -ltutti-dcp -o dcp
!     tutti run --dcp 1 mpiexec -n 4 ./dcp
program dcp
  use mpi
  implicit none
  include 'tutti/dcpf.h'
  integer :: rank, ranks, request, code, i, wrong
  double precision :: part, total
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  wrong = 0
  do i = 1, 100
    part = rank + i
    call DCP_Allreduce(part, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request, code)
    call DCP_Wait(request, code)  ! what is computed before this costs nothing
    if (total /= ranks * i + ranks * (ranks - 1) / 2 .or. request /= MPI_REQUEST_NULL .or. code /= MPI_SUCCESS) wrong = wrong + 1
  end do
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (rank == 0 .and. wrong /= 0) print '(i0,a)', wrong, ' sums were wrong'
  if (rank == 0 .and. wrong == 0) print '(a)', '100 sums, all right'
  call MPI_Finalize(code)
  if (wrong /= 0) stop 1
end program
