! Fortran through mpif.h: sentinels, requests kept in INTEGERs, LOGICAL and complex types.
program fortran_mpif
  implicit none
  include 'mpif.h'
  integer :: rank, ranks, code, total, request, status(MPI_STATUS_SIZE), failures, all_failures
  integer :: requests(2), token
  double precision :: values(4), sums(4)
  complex :: c, csum
  logical :: flag, every
  failures = 0
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  values = rank + 1
  call MPI_Allreduce(values, sums, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  if (any(sums /= ranks * (ranks + 1) / 2)) failures = failures + 1
  call MPI_Allreduce(MPI_IN_PLACE, values, 4, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, code)
  if (any(values /= ranks)) failures = failures + 1
  c = cmplx(rank, 1)
  call MPI_Allreduce(c, csum, 1, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, code)
  if (aimag(csum) /= ranks) failures = failures + 1
  flag = rank /= 0
  call MPI_Allreduce(flag, every, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, code)
  if (every) failures = failures + 1
  if (rank == 0) values = 42
  call MPI_Bcast(values, 4, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, code)
  if (any(values /= 42)) failures = failures + 1
  total = -1
  call MPI_Iallreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request, code)
  call MPI_Wait(request, status, code)
  if (total /= ranks * (ranks - 1) / 2 .or. request /= MPI_REQUEST_NULL) failures = failures + 1
  call MPI_Irecv(token, 1, MPI_INTEGER, mod(rank + ranks - 1, ranks), 3, MPI_COMM_WORLD, requests(1), code)
  call MPI_Iallreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(2), code)
  call MPI_Send(rank, 1, MPI_INTEGER, mod(rank + 1, ranks), 3, MPI_COMM_WORLD, code)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
  if (token /= mod(rank + ranks - 1, ranks)) failures = failures + 1
  if (any(requests /= MPI_REQUEST_NULL)) failures = failures + 1
  call MPI_Barrier(MPI_COMM_WORLD, code)
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (rank == 0 .and. all_failures == 0) print '(a)', 'fortran: passed (0 failures)'
  if (rank == 0 .and. all_failures /= 0) print '(a,i0,a)', 'fortran: FAILED (', all_failures, ' failures)'
  call MPI_Finalize(code)
end program
