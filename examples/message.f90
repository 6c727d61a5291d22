! SPDX-License-Identifier: MIT
!
! message.f90 - ranks exchange a message and meet at a barrier, in Fortran
!
!     gfortran -o message $(pkg-config --variable=includedir libhartebeest)/hartebeest.f90 \
!         message.f90 $(pkg-config --libs libhartebeest)
program message
  use hartebeest
  implicit none
  real(c_double), target :: values(3) = 0
  integer(c_size_t) :: length
  type(c_ptr) :: hb
  integer(c_int) :: rank

  call check(hartebeest_open(hb, c_null_ptr))
  rank = hartebeest_rank(hb)
  call check(rank)

  if (rank == 0) then
     values = [1.5d0, 2.5d0, 3.5d0]
     call check(hartebeest_msg_push(hb, hartebeest_c_string('values'), c_loc(values), &
          c_sizeof(values), hartebeest_default))
  else
     call check(hartebeest_msg_wait(hb, hartebeest_c_string('values'), c_loc(values), &
          c_sizeof(values), length, &
          hartebeest_default))
  end if
  call check(hartebeest_barrier(hb, hartebeest_c_string('read'), hartebeest_default))
  print '(a, i0, a, i0, a, 3f4.1)', 'rank ', rank, ' of ', hartebeest_size(hb), ':', values
  call check(hartebeest_close(hb))

contains

  subroutine check(ret)
    integer(c_int), intent(in) :: ret

    if (ret >= 0) return
    print '(a)', hartebeest_error_text()
    stop 1
  end subroutine check
end program message
