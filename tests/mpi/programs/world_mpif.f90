! The world of a Fortran program: attributes of the MPI's and its own, duplicates, groups, error handlers.
subroutine on_error(comm, code)
  implicit none
  integer :: comm, code, calls
  common /counted/ calls
  if (comm >= -huge(comm) .and. code /= 0) calls = calls + 1
end subroutine

program world_mpif
  implicit none
  include 'mpif.h'
  integer :: rank, ranks, code, failures, total, wanted, keyval, comm, group, count, handler, same
  integer(kind=MPI_ADDRESS_KIND) :: value, extra
  logical :: found
  integer :: calls
  common /counted/ calls
  external :: on_error
  character(len=16) :: text
  failures = 0
  calls = 0
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, text)
  read (text, *) wanted
  call check(ranks == wanted, 'size')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, found, code)
  call check(found .and. value >= 32767, 'tag')
  extra = 0
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, extra, code)
  call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, value, found, code)
  call check(.not. found, 'no attribute')
  value = 77
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value, code)
  value = 0
  call MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, value, found, code)
  call check(found .and. value == 77, 'attribute')
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, code)
  value = 0
  call MPI_Comm_get_attr(comm, keyval, value, found, code)
  call check(found .and. value == 77, 'attribute of a duplicate')
  call MPI_Comm_compare(MPI_COMM_WORLD, comm, same, code)
  call check(same == MPI_CONGRUENT, 'duplicate')
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval, code)
  call MPI_Comm_free(comm, code)
  call MPI_Comm_group(MPI_COMM_WORLD, group, code)
  call MPI_Group_size(group, count, code)
  call check(count == ranks, 'group')
  call MPI_Comm_create_errhandler(on_error, handler, code)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler, code)
  call MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER, code)
  call check(calls == 1, 'error handler')
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, code)
  call MPI_Barrier(MPI_COMM_WORLD, code)
  call MPI_Allreduce(failures, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (rank == 0 .and. total == 0) print '(a)', 'world: passed (0 failures)'
  if (rank == 0 .and. total /= 0) print '(a,i0,a)', 'world: FAILED (', total, ' failures)'
  call MPI_Finalize(code)
contains
  subroutine check(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (.not. holds) then
      failures = failures + 1
      print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
    end if
  end subroutine
end program
