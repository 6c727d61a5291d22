! SPDX-License-Identifier: MIT
!
! fortran.f90 - two processes write into each other's memory, in Fortran
!
! Start it twice, with HARTEBEEST_NID=0 and 1, HARTEBEEST_PARTICIPANTS=0,1 and
! HARTEBEEST_EXC_IP_PORT=host:port of a Memcached server.
!
!     gfortran -o fortran $(pkg-config --variable=includedir libhartebeest)/hartebeest.f90 \
!         fortran.f90 $(pkg-config --libs libhartebeest)
program fortran
  use hartebeest
  implicit none
  integer(c_size_t), parameter :: room = 4096
  integer(c_int), parameter :: access = ior(ibv_access_local_write, ibv_access_remote_write)
  character(kind=c_char, len=2), target :: me, peer
  character(kind=c_char, len=3), target :: qp_name = 'qp' // c_null_char, &
       mr_name = 'mr' // c_null_char
  character(kind=c_char, len=3), target :: pd_name = 'pd' // c_null_char, &
       cq_name = 'cq' // c_null_char
  type(c_ptr), target :: offer(1)
  type(c_ptr) :: hb, cq, mr, qp
  type(ibv_mr), pointer :: region
  real(c_double), pointer :: numbers(:)
  type(hartebeest_remote_mr), target :: there(1)
  type(hartebeest_cq_attr) :: cq_attr
  type(hartebeest_mr_attr) :: mr_attr
  type(hartebeest_qp_attr) :: qp_attr
  type(hartebeest_pair) :: pairs(1)

  call check(hartebeest_open(hb, c_null_ptr))
  call check(hartebeest_rank(hb))
  me = merge('a', 'b', hartebeest_rank(hb) == 0) // c_null_char
  peer = merge('b', 'a', hartebeest_rank(hb) == 0) // c_null_char

  call check(hartebeest_pd_create(hb, pd_name))
  call hartebeest_cq_attr_init(cq_attr)
  cq_attr%flags = hartebeest_cq_channel
  call check(hartebeest_cq_create(hb, cq_name, cq_attr, cq))
  call hartebeest_mr_attr_init(mr_attr)
  mr_attr%pd = c_loc(pd_name(1:1))
  mr_attr%length = room
  mr_attr%access = access
  call check(hartebeest_mr_create(hb, mr_name, mr_attr, mr))
  call hartebeest_qp_attr_init(qp_attr)
  qp_attr%pd = c_loc(pd_name(1:1))
  qp_attr%send_cq = c_loc(cq_name(1:1))
  qp_attr%type = ibv_qpt_rc
  call check(hartebeest_qp_create(hb, qp_name, qp_attr, qp))
  call c_f_pointer(mr, region)
  call c_f_pointer(region%addr, numbers, [room / 8])

  offer(1) = c_loc(mr_name(1:1))
  call hartebeest_pair_init(pairs(1))
  pairs(1)%qp = c_loc(qp_name(1:1))
  pairs(1)%key = c_loc(me(1:1))
  pairs(1)%peer_key = c_loc(peer(1:1))
  pairs(1)%offer = c_loc(offer)
  pairs(1)%offer_count = 1
  pairs(1)%regions = c_loc(there)
  pairs(1)%region_room = 1
  call check(hartebeest_pairs_connect(hb, pairs, 1_c_size_t, hartebeest_default))

  numbers(1:3) = [1.5d0, 2.5d0, 3.5d0] + hartebeest_rank(hb)
  call write_there(24, there(1)%address + room / 2)
  call check(hartebeest_barrier(hb, hartebeest_c_string('written'), hartebeest_default))
  print '(3a, 3f4.1)', 'rank ', me(1:1), ' reads:', numbers(room / 16 + 1 : room / 16 + 3)
  call check(hartebeest_close(hb))

contains

  ! Sleeps until the write has completed.
  subroutine write_there(length, address)
    integer, intent(in) :: length
    integer(c_int64_t), intent(in) :: address
    character(kind=c_char) :: text(512)
    type(ibv_wc) :: wc(1)

    if (hartebeest_post_write(qp, region%addr, int(length, c_int32_t), region%lkey, address, &
         there(1)%rkey, 1_c_int64_t, ibv_send_signaled) < 0) stop 'posting failed'
    call check(hartebeest_cq_wait(hb, cq, 1_c_int, wc, hartebeest_default))
    if (wc(1)%status == ibv_wc_success) return
    call check(hartebeest_completion_text(hb, wc(1), text, size(text, kind=c_size_t)))
    print '(a)', hartebeest_fortran_string(text)
    stop 1
  end subroutine write_there

  subroutine check(ret)
    integer(c_int), intent(in) :: ret

    if (ret >= 0) return
    print '(a)', hartebeest_error_text()
    stop 1
  end subroutine check
end program fortran
