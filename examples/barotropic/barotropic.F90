! The barotropic solver of an ocean model, as CDCP-2008 (section V-F) used it: conjugate gradients with
! a diagonal preconditioner on 320 x 384 points, periodic in x, closed in y.
!
! Three allreduces and two halo exchanges: (r, Pr) and (q, s) and the halo of q in every iteration,
! (r, r) and the halo of r in the correction and convergence test every ten iterations. In the
! overlapped form (r, Pr) is under way while the solution is corrected, (q, s) during the halo exchange
! of the iteration, (r, r) during that of the test. Plain MPI:
!
!   mpifort barotropic.F90 -o barotropic
!   mpiexec -n 4 ./barotropic blocking
!   tutti run --dcp 1 mpiexec -n 4 ./barotropic overlapped 2000
!
! Arguments: blocking or overlapped, and the number of iterations (0, unless told: until it has
! converged). The result is compared with that of a serial solve on rank 0.
module conjugate_gradients
  use mpi
  implicit none
  integer, parameter :: dp = kind(1d0), nx_all = 320, ny_all = 384, check_every = 10
  real(dp), parameter :: tolerance = 1d-12

contains

  ! The depth of the water: a smooth sea floor with a ridge; on faces, so that the operator is symmetric.
  pure real(dp) function depth(i, j)
    integer, intent(in) :: i, j
    real(dp), parameter :: pi = 3.14159265358979324d0
    depth = 3d0 + sin(2 * pi * i / nx_all) * cos(3 * pi * j / ny_all) + &
            1.5d0 * exp(-((j - 0.4d0 * ny_all) / 30d0)**2)
  end function

  pure real(dp) function source(i, j)
    integer, intent(in) :: i, j
    source = sin(0.1d0 * i) * cos(0.07d0 * j) + 0.01d0 * mod(7 * i + 13 * j, 11)
  end function

  ! comm == MPI_COMM_NULL: serially.
  subroutine solve(x, nx, ny, x0, y0, comm, overlapped, wanted, done)
    real(dp), intent(out) :: x(0:, 0:)
    integer, intent(in) :: nx, ny, x0, y0, comm, wanted
    logical, intent(in) :: overlapped
    integer, intent(out) :: done
    real(dp), dimension(0:nx + 1, 0:ny + 1) :: r, s, q, cx, cy, center
    real(dp) :: b(nx, ny), eta0, eta1, part, total, rr, rr0, alpha
    integer :: i, j, ierr, halo(8), sums, west, east, south, north
    logical :: testing
    real(dp) :: send_x(ny, 2), recv_x(ny, 2), send_y(nx, 2), recv_y(nx, 2)

    if (comm /= MPI_COMM_NULL) then
      call MPI_Cart_shift(comm, 0, 1, west, east, ierr)
      call MPI_Cart_shift(comm, 1, 1, south, north, ierr)
    end if
    ! Coefficients: cx(i, j) between i and i + 1, cy(i, j) between j and j + 1; none across the coasts.
    do j = 0, ny + 1
      do i = 0, nx + 1
        cx(i, j) = 0.5d0 * (depth(wrap(x0 + i), y0 + j) + depth(wrap(x0 + i + 1), y0 + j))
        cy(i, j) = 0.5d0 * (depth(wrap(x0 + i), y0 + j) + depth(wrap(x0 + i), y0 + j + 1))
        if (y0 + j < 1 .or. y0 + j >= ny_all) cy(i, j) = 0
      end do
    end do
    do j = 1, ny + 1
      do i = 1, nx + 1
        center(i, j) = cx(i, j) + cx(i - 1, j) + cy(i, j) + cy(i, j - 1) + 0.02d0
      end do
    end do
    center(0, :) = 1
    center(:, 0) = 1
    do j = 1, ny
      do i = 1, nx
        b(i, j) = source(x0 + i, y0 + j)
      end do
    end do

    x = 0
    s = 0
    q = 0
    r = 0
    r(1:nx, 1:ny) = b
    call exchange(r)
    call finish(r)
    ! Beyond the coasts, where nobody is, everything stays 0.
    part = sum(b * b)
    call add(part, rr0)
    rr = rr0
    eta0 = 1
    done = 0
    call start_sum(sum(r(1:nx, 1:ny)**2 / center(1:nx, 1:ny)), total)
    call finish_sum()
    eta1 = total
    do
      done = done + 1
      ! New direction; its halo follows from those of r and s.
      s = precondition(r) + s * (eta1 / eta0)
      if (done == 1) s = precondition(r)
      eta0 = eta1
      call apply(s, q)
      call start_sum(sum(q(1:nx, 1:ny) * s(1:nx, 1:ny)), total)
      call exchange(q)  ! the sum is under way meanwhile
      call finish(q)
      call finish_sum()
      alpha = eta0 / total
      testing = mod(done, check_every) == 0
      if (testing) then
        ! Correction and convergence test.
        x = x + alpha * s
        call apply(x, r)
        r(1:nx, 1:ny) = b - r(1:nx, 1:ny)
        call start_sum(sum(r(1:nx, 1:ny)**2), rr)
        call exchange(r)
        call finish(r)
        call finish_sum()
        call start_sum(sum(r(1:nx, 1:ny)**2 / center(1:nx, 1:ny)), total)
      else
        r = r - alpha * q
        call start_sum(sum(r(1:nx, 1:ny)**2 / center(1:nx, 1:ny)), total)
        x = x + alpha * s  ! the solution is corrected while the sum is under way
      end if
      call finish_sum()
      eta1 = total
      if (wanted > 0 .and. done >= wanted) exit
      if (wanted == 0 .and. ((testing .and. rr < tolerance**2 * rr0) .or. done >= 20000)) exit
    end do

  contains

    ! The operator needs depths around the globe; positions count from 1.
    pure integer function wrap(i)
      integer, intent(in) :: i
      wrap = modulo(i - 1, nx_all) + 1
    end function

    pure function precondition(of) result(out)
      real(dp), intent(in) :: of(0:nx + 1, 0:ny + 1)
      real(dp) :: out(0:nx + 1, 0:ny + 1)
      integer :: i, j
      do j = 0, ny + 1
        do i = 0, nx + 1
          out(i, j) = of(i, j) / diagonal(i, j)
        end do
      end do
    end function

    ! Of halo points too, whose own neighbours are not here.
    pure real(dp) function diagonal(i, j)
      integer, intent(in) :: i, j
      real(dp) :: c(4)
      integer :: g, h
      if (i >= 1 .and. j >= 1 .and. i <= nx .and. j <= ny) then
        diagonal = center(i, j)
        return
      end if
      g = x0 + i
      h = y0 + j
      c(1) = 0.5d0 * (depth(wrap(g), h) + depth(wrap(g + 1), h))
      c(2) = 0.5d0 * (depth(wrap(g - 1), h) + depth(wrap(g), h))
      c(3) = merge(0.5d0 * (depth(wrap(g), h) + depth(wrap(g), h + 1)), 0d0, h >= 1 .and. h < ny_all)
      c(4) = merge(0.5d0 * (depth(wrap(g), h - 1) + depth(wrap(g), h)), 0d0, h >= 2 .and. h <= ny_all)
      diagonal = c(1) + c(2) + c(3) + c(4) + 0.02d0
    end function

    subroutine apply(of, out)
      real(dp), intent(in) :: of(0:nx + 1, 0:ny + 1)
      real(dp), intent(inout) :: out(0:nx + 1, 0:ny + 1)
      integer :: i, j
      do j = 1, ny
        do i = 1, nx
          out(i, j) = center(i, j) * of(i, j) - cx(i, j) * of(i + 1, j) - cx(i - 1, j) * of(i - 1, j) &
            - cy(i, j) * of(i, j + 1) - cy(i, j - 1) * of(i, j - 1)
        end do
      end do
    end subroutine

    subroutine exchange(field)
      real(dp), intent(in) :: field(0:nx + 1, 0:ny + 1)
      if (comm == MPI_COMM_NULL) return
      send_x(:, 1) = field(1, 1:ny)
      send_x(:, 2) = field(nx, 1:ny)
      send_y(:, 1) = field(1:nx, 1)
      send_y(:, 2) = field(1:nx, ny)
      call MPI_Irecv(recv_x(1, 1), ny, MPI_DOUBLE_PRECISION, west, 1, comm, halo(1), ierr)
      call MPI_Irecv(recv_x(1, 2), ny, MPI_DOUBLE_PRECISION, east, 2, comm, halo(2), ierr)
      call MPI_Irecv(recv_y(1, 1), nx, MPI_DOUBLE_PRECISION, south, 3, comm, halo(3), ierr)
      call MPI_Irecv(recv_y(1, 2), nx, MPI_DOUBLE_PRECISION, north, 4, comm, halo(4), ierr)
      call MPI_Isend(send_x(1, 2), ny, MPI_DOUBLE_PRECISION, east, 1, comm, halo(5), ierr)
      call MPI_Isend(send_x(1, 1), ny, MPI_DOUBLE_PRECISION, west, 2, comm, halo(6), ierr)
      call MPI_Isend(send_y(1, 2), nx, MPI_DOUBLE_PRECISION, north, 3, comm, halo(7), ierr)
      call MPI_Isend(send_y(1, 1), nx, MPI_DOUBLE_PRECISION, south, 4, comm, halo(8), ierr)
    end subroutine

    subroutine finish(field)
      real(dp), intent(inout) :: field(0:nx + 1, 0:ny + 1)
      if (comm == MPI_COMM_NULL) then
        field(0, 1:ny) = field(nx, 1:ny)
        field(nx + 1, 1:ny) = field(1, 1:ny)
        return
      end if
      call MPI_Waitall(8, halo, MPI_STATUSES_IGNORE, ierr)
      field(0, 1:ny) = recv_x(:, 1)
      field(nx + 1, 1:ny) = recv_x(:, 2)
      if (south /= MPI_PROC_NULL) field(1:nx, 0) = recv_y(:, 1)
      if (north /= MPI_PROC_NULL) field(1:nx, ny + 1) = recv_y(:, 2)
    end subroutine

    ! A sum over all points: started here, over in finish_sum.
    subroutine start_sum(value, result)
      real(dp), intent(in) :: value
      real(dp), intent(inout), asynchronous :: result
      part = value
      if (comm == MPI_COMM_NULL) then
        result = part
      else if (overlapped) then
        call MPI_Iallreduce(part, result, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm, sums, ierr)
      else
        call MPI_Allreduce(part, result, 1, MPI_DOUBLE_PRECISION, MPI_SUM, comm, ierr)
      end if
    end subroutine

    subroutine finish_sum()
      if (comm /= MPI_COMM_NULL .and. overlapped) call MPI_Wait(sums, MPI_STATUS_IGNORE, ierr)
    end subroutine

    subroutine add(value, result)
      real(dp), intent(in) :: value
      real(dp), intent(inout) :: result
      call start_sum(value, result)
      call finish_sum()
    end subroutine

  end subroutine solve

end module

program barotropic
  use mpi
  use conjugate_gradients
  implicit none
  integer :: ierr, rank, ranks, cart, dims(2), place(2)
  integer :: nx, ny, x0, y0, wanted, done
  logical :: overlapped
  character(len=32) :: word
  real(dp), allocatable :: x(:,:), all(:,:), serial(:,:)
  real(dp) :: began, seconds, slowest, difference
  integer :: serial_done

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, word)
  overlapped = word == 'overlapped'
  if (.not. overlapped .and. word /= 'blocking') then
    if (rank == 0) print '(a)', 'usage: barotropic blocking|overlapped [ITERATIONS]'
    call MPI_Abort(MPI_COMM_WORLD, 2, ierr)
  end if
  wanted = 0
  if (command_argument_count() > 1) then
    call get_command_argument(2, word)
    read (word, *) wanted
  end if

  call decompose()
  allocate (x(0:nx + 1, 0:ny + 1))
  call solve(x, nx, ny, x0, y0, cart, overlapped, wanted, done)  ! warms up, and is verified
  call gather()
  if (wanted > 0) then
    call MPI_Barrier(cart, ierr)
    began = MPI_Wtime()
    call solve(x, nx, ny, x0, y0, cart, overlapped, wanted, done)
    seconds = MPI_Wtime() - began
    call MPI_Reduce(seconds, slowest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, cart, ierr)
  end if
  if (rank == 0) then
    call solve_serially()
    difference = maxval(abs(all - serial(1:nx_all, 1:ny_all))) / maxval(abs(serial))
    print '(a, i0, a, i0, a, i0, a, es9.2)', 'ranks ', ranks, ' iterations ', done, ' serially ', &
      serial_done, ' difference ', difference
    if (wanted > 0) print '(a, f0.3, a)', 'ten iterations take ', slowest / wanted * 1d7, ' us'
    if (difference < 1d-8 .and. abs(done - serial_done) <= check_every) print '(a)', 'verified'
  end if
  call MPI_Finalize(ierr)

contains

  ! The own part of the grid.
  subroutine decompose()
    logical, parameter :: periodic(2) = [.true., .false.]
    dims = 0
    call MPI_Dims_create(ranks, 2, dims, ierr)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periodic, .false., cart, ierr)
    call MPI_Cart_coords(cart, rank, 2, place, ierr)
    call share(nx_all, dims(1), place(1), x0, nx)
    call share(ny_all, dims(2), place(2), y0, ny)
  end subroutine

  pure subroutine share(whole, parts, mine, first, count)
    integer, intent(in) :: whole, parts, mine
    integer, intent(out) :: first, count
    first = whole * mine / parts
    count = whole * (mine + 1) / parts - first
  end subroutine

  subroutine solve_serially()
    allocate (serial(0:nx_all + 1, 0:ny_all + 1))
    call solve(serial, nx_all, ny_all, 0, 0, MPI_COMM_NULL, .false., wanted, serial_done)
  end subroutine

  ! The whole solution on rank 0: one message for each part.
  subroutine gather()
    real(dp), allocatable :: part(:,:)
    integer :: other, there(2), fx, fy, cx, cy
    if (rank /= 0) then
      part = x(1:nx, 1:ny)
      call MPI_Send(part, nx * ny, MPI_DOUBLE_PRECISION, 0, 9, cart, ierr)
      return
    end if
    allocate (all(nx_all, ny_all))
    do other = 0, ranks - 1
      call MPI_Cart_coords(cart, other, 2, there, ierr)
      call share(nx_all, dims(1), there(1), fx, cx)
      call share(ny_all, dims(2), there(2), fy, cy)
      allocate (part(cx, cy))
      if (other == 0) then
        part = x(1:nx, 1:ny)
      else
        call MPI_Recv(part, cx * cy, MPI_DOUBLE_PRECISION, other, 9, cart, MPI_STATUS_IGNORE, ierr)
      end if
      all(fx + 1:fx + cx, fy + 1:fy + cy) = part
      deallocate (part)
    end do
  end subroutine

end program
