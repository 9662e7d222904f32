! An alternating-direction implicit solver with pentadiagonal systems, communicating as NAS SP does:
! the application with which RNDV-2006 (section 5.3) measures the time that programs spend in MPI_Wait.
!
!   adi [N] [NZ] [STEPS]      N x N x NZ points; N a multiple of the number of ranks, at least 2 per rank
!
! In each step (Ax)(Ay) u = g is solved, first along x, then along y; every line of points is one
! system. The plane is cut into P x P cells of which every rank has one in each row and one in each
! column (multi-partitioning), so that all ranks work in every stage of a sweep. A stage posts the
! receive of what the cell before it has to say, sets up its own equations, waits, eliminates, and
! passes on; then the unknowns come back the same way. g is made from a known u, which must come out.
program adi
  use mpi
  implicit none
  integer, parameter :: dp = kind(1d0)
  integer :: ranks, rank, error, n, nz, steps, m, lines, step
  real(dp), allocatable :: u(:, :, :, :)                     ! x, y, z in the cell; cell by its column
  real(dp), allocatable :: factor_d(:, :, :), factor_e(:, :, :), right(:, :, :)  ! line, place; cell
  real(dp), allocatable :: a(:, :), b(:, :), c(:, :), d(:, :), e(:, :)           ! the cell's equations
  real(dp), allocatable :: along_x(:), along_y(:), along_z(:), image_x(:), image_y(:)
  real(dp) :: waiting, began, seconds, worst, most

  call MPI_Init(error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  n = argument(1, 64)
  nz = argument(2, 32)
  steps = argument(3, 10)
  m = n / ranks
  if (m < 2 .or. m * ranks /= n .or. nz < 1 .or. steps < 1) then
    if (rank == 0) print '(a, i0, a)', 'adi: N must be a multiple of the ', ranks, &
      ' ranks and at least 2 per rank, NZ and STEPS at least 1'
    call MPI_Abort(MPI_COMM_WORLD, 2, error)
  end if
  lines = m * nz
  allocate (u(m, m, nz, 0:ranks - 1))
  ! Places -1 and 0 are those of the cell before.
  allocate (factor_d(lines, -1:m, 0:ranks - 1), factor_e(lines, -1:m, 0:ranks - 1), right(lines, -1:m, 0:ranks - 1))
  allocate (a(lines, m), b(lines, m), c(lines, m), d(lines, m), e(lines, m))
  allocate (along_x(-1:n + 2), along_y(-1:n + 2), along_z(nz), image_x(n), image_y(n))

  waiting = 0
  worst = 0
  call MPI_Barrier(MPI_COMM_WORLD, error)
  began = MPI_Wtime()
  do step = 1, steps
    call set_right_side(step)
    call sweep(1)
    call sweep(2)
    worst = max(worst, largest_error())
  end do
  seconds = MPI_Wtime() - began
  call MPI_Allreduce(MPI_IN_PLACE, worst, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
  call MPI_Allreduce(waiting, most, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  if (rank == 0) then
    print '(a, i0, a, i0, a, i0, a, i0, a, f0.4, a, f0.4, a, es8.1)', 'adi: ', n, ' x ', n, ' x ', nz, ', ', ranks, &
      ' ranks, seconds ', seconds, ', of these in MPI_Wait, mean of the ranks, ', most / ranks, ', largest error ', worst
    if (worst < 1e-10_dp) print '(a)', 'adi: verified'
  end if
  call MPI_Finalize(error)
  if (.not. worst < 1e-10_dp) error stop 1

contains

  integer function argument(number, otherwise)
    integer, intent(in) :: number, otherwise
    character(len=32) :: text
    integer :: problem
    argument = otherwise
    if (command_argument_count() < number) return
    call get_command_argument(number, text)
    read (text, *, iostat=problem) argument
    if (problem /= 0) argument = 0
  end function

  ! The coefficients of the equation of point `place` of a line: diagonally dominant, and different everywhere.
  pure function coefficients(place) result(row)
    integer, intent(in) :: place
    real(dp) :: row(-2:2)
    row(-2) = -0.10_dp - 0.02_dp * sin(0.3_dp * place)
    row(-1) = -0.40_dp + 0.05_dp * cos(0.2_dp * place)
    row(0) = 1.80_dp + 0.10_dp * sin(0.1_dp * place)
    row(1) = -0.40_dp + 0.05_dp * sin(0.2_dp * place)
    row(2) = -0.10_dp - 0.02_dp * cos(0.3_dp * place)
  end function

  ! g = (Ax)(Ay) u of u = X(x) Y(y) Z(z), which therefore has the image of X times the image of Y times Z.
  subroutine set_right_side(time)
    integer, intent(in) :: time
    integer :: i, column, x, y, z
    along_x = 0
    along_y = 0
    do i = 1, n
      along_x(i) = 1 + sin(0.1_dp * i + 0.3_dp * time)
      along_y(i) = 2 + cos(0.07_dp * i - 0.2_dp * time)
    end do
    do i = 1, nz
      along_z(i) = 1 + 0.01_dp * i
    end do
    do i = 1, n
      image_x(i) = dot_product(coefficients(i), along_x(i - 2:i + 2))
      image_y(i) = dot_product(coefficients(i), along_y(i - 2:i + 2))
    end do
    do column = 0, ranks - 1
      do z = 1, nz
        do y = 1, m
          do x = 1, m
            u(x, y, z, column) = image_x(column * m + x) * image_y(row_of(column) * m + y) * along_z(z)
          end do
        end do
      end do
    end do
  end subroutine

  ! Of this rank's cell in a column of cells: its row.
  integer function row_of(column)
    integer, intent(in) :: column
    row_of = modulo(column + rank, ranks)
  end function

  real(dp) function largest_error()
    integer :: column, x, y, z
    largest_error = 0
    do column = 0, ranks - 1
      do z = 1, nz
        do y = 1, m
          do x = 1, m
            largest_error = max(largest_error, abs(u(x, y, z, column) &
              - along_x(column * m + x) * along_y(row_of(column) * m + y) * along_z(z)))
          end do
        end do
      end do
    end do
  end function

  ! Solves all lines along x (1) or y (2).
  subroutine sweep(direction)
    integer, intent(in) :: direction
    integer :: stage, next, previous, column, place
    integer :: arriving, leaving
    real(dp) :: factors_in(lines, 6), factors_out(lines, 6), unknowns_in(lines, 2), unknowns_out(lines, 2)

    leaving = MPI_REQUEST_NULL
    next = modulo(merge(rank - 1, rank + 1, direction == 1), ranks)
    previous = modulo(merge(rank + 1, rank - 1, direction == 1), ranks)
    do stage = 0, ranks - 1
      column = column_of(direction, stage)
      arriving = MPI_REQUEST_NULL
      if (stage > 0) call MPI_Irecv(factors_in, 6 * lines, MPI_DOUBLE_PRECISION, previous, direction, &
                                    MPI_COMM_WORLD, arriving, error)
      call take_lines(direction, column)
      call set_up_equations(stage)
      call wait_for(arriving)
      if (stage == 0) factors_in = 0
      call eliminate(column, factors_in)
      call wait_for(leaving)
      if (stage == ranks - 1) exit
      do place = 0, 1
        factors_out(:, 3 * place + 1) = factor_d(:, m - place, column)
        factors_out(:, 3 * place + 2) = factor_e(:, m - place, column)
        factors_out(:, 3 * place + 3) = right(:, m - place, column)
      end do
      call MPI_Isend(factors_out, 6 * lines, MPI_DOUBLE_PRECISION, next, direction, MPI_COMM_WORLD, leaving, error)
    end do
    do stage = ranks - 1, 0, -1
      column = column_of(direction, stage)
      arriving = MPI_REQUEST_NULL
      if (stage < ranks - 1) call MPI_Irecv(unknowns_in, 2 * lines, MPI_DOUBLE_PRECISION, next, direction + 2, &
                                            MPI_COMM_WORLD, arriving, error)
      if (stage < ranks - 1) call give_lines(direction, column_of(direction, stage + 1))
      call wait_for(arriving)
      if (stage == ranks - 1) unknowns_in = 0
      call substitute(column, unknowns_in)
      call wait_for(leaving)
      if (stage == 0) exit
      unknowns_out = right(:, 1:2, column)
      call MPI_Isend(unknowns_out, 2 * lines, MPI_DOUBLE_PRECISION, previous, direction + 2, MPI_COMM_WORLD, leaving, error)
    end do
    call give_lines(direction, column_of(direction, 0))
  end subroutine

  ! The column of the cell that is this rank's in a stage of a sweep.
  integer function column_of(direction, stage)
    integer, intent(in) :: direction, stage
    column_of = merge(stage, modulo(stage - rank, ranks), direction == 1)
  end function

  subroutine wait_for(request)
    integer, intent(inout) :: request
    real(dp) :: since
    if (request == MPI_REQUEST_NULL) return
    since = MPI_Wtime()
    call MPI_Wait(request, MPI_STATUS_IGNORE, error)
    waiting = waiting + MPI_Wtime() - since
  end subroutine

  ! The cell's right-hand sides, by line and place in the line, and back.
  subroutine take_lines(direction, column)
    integer, intent(in) :: direction, column
    integer :: z, place
    do place = 1, m
      do z = 1, nz
        if (direction == 1) right((z - 1) * m + 1:z * m, place, column) = u(place, :, z, column)
        if (direction == 2) right((z - 1) * m + 1:z * m, place, column) = u(:, place, z, column)
      end do
    end do
  end subroutine

  subroutine give_lines(direction, column)
    integer, intent(in) :: direction, column
    integer :: z, place
    do place = 1, m
      do z = 1, nz
        if (direction == 1) u(place, :, z, column) = right((z - 1) * m + 1:z * m, place, column)
        if (direction == 2) u(:, place, z, column) = right((z - 1) * m + 1:z * m, place, column)
      end do
    end do
  end subroutine

  subroutine set_up_equations(stage)
    integer, intent(in) :: stage
    integer :: place, line
    real(dp) :: row(-2:2)
    do place = 1, m
      do line = 1, lines
        row = coefficients(stage * m + place)
        a(line, place) = row(-2)
        b(line, place) = row(-1)
        c(line, place) = row(0)
        d(line, place) = row(1)
        e(line, place) = row(2)
      end do
    end do
  end subroutine

  ! Every equation becomes u(i) + d u(i+1) + e u(i+2) = right. `before`: d, e and right of the last place of the
  ! cell before this one, then of the one before it.
  subroutine eliminate(column, before)
    integer, intent(in) :: column
    real(dp), intent(in) :: before(lines, 6)
    integer :: place, line
    real(dp) :: second, pivot
    do place = 0, 1
      factor_d(:, -place, column) = before(:, 3 * place + 1)
      factor_e(:, -place, column) = before(:, 3 * place + 2)
      right(:, -place, column) = before(:, 3 * place + 3)
    end do
    do place = 1, m
      do line = 1, lines
        second = b(line, place) - a(line, place) * factor_d(line, place - 2, column)
        pivot = c(line, place) - a(line, place) * factor_e(line, place - 2, column) - second * factor_d(line, place - 1, column)
        factor_d(line, place, column) = (d(line, place) - second * factor_e(line, place - 1, column)) / pivot
        factor_e(line, place, column) = e(line, place) / pivot
        right(line, place, column) = (right(line, place, column) - a(line, place) * right(line, place - 2, column) &
          - second * right(line, place - 1, column)) / pivot
      end do
    end do
  end subroutine

  ! `behind`: the unknowns of the first two places of the cell behind this one.
  subroutine substitute(column, behind)
    integer, intent(in) :: column
    real(dp), intent(in) :: behind(lines, 2)
    integer :: place
    right(:, m, column) = right(:, m, column) - factor_d(:, m, column) * behind(:, 1) - factor_e(:, m, column) * behind(:, 2)
    right(:, m - 1, column) = right(:, m - 1, column) - factor_d(:, m - 1, column) * right(:, m, column) &
      - factor_e(:, m - 1, column) * behind(:, 1)
    do place = m - 2, 1, -1
      right(:, place, column) = right(:, place, column) - factor_d(:, place, column) * right(:, place + 1, column) &
        - factor_e(:, place, column) * right(:, place + 2, column)
    end do
  end subroutine

end program
