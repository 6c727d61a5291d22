! SPDX-License-Identifier: MIT
!
! hartebeest.f90 - libhartebeest for Fortran 2003
!
! Compile it along with the program: files of modules are not portable among compilers.
! Names and rules are those of hartebeest(3); hartebeest_c_string() makes a C string, and
! hartebeest_message() is hartebeest_error(3) as a Fortran string.  Where C takes NULL, pass
! c_null_ptr.  struct ibv_* pointers are type(c_ptr).
module hartebeest
  use, intrinsic :: iso_c_binding
  implicit none

  ! enum ibv_qp_type, enum ibv_access_flags, enum ibv_send_flags
  integer(c_int), parameter :: ibv_qpt_rc = 2, ibv_qpt_uc = 3, ibv_qpt_ud = 4
  integer(c_int), parameter :: ibv_access_local_write = 1, ibv_access_remote_write = 2, &
       ibv_access_remote_read = 4, ibv_access_remote_atomic = 8
  integer(c_int), parameter :: ibv_send_signaled = 2, ibv_send_inline = 8

  ! struct ibv_mr, for c_f_pointer() on what hartebeest_mr_create() gives
  type, bind(c) :: ibv_mr
     type(c_ptr) :: context, pd, addr
     integer(c_size_t) :: length
     integer(c_int32_t) :: handle, lkey, rkey
  end type ibv_mr

  type, bind(c) :: hartebeest_remote_mr
     integer(c_int64_t) :: address, length
     integer(c_int32_t) :: rkey, access
     integer(c_int64_t) :: reserved(1)
  end type hartebeest_remote_mr

  ! gid and address: 16 bytes in network order
  type, bind(c) :: hartebeest_remote_qp
     integer(c_int64_t) :: gid(2), address(2)
     integer(c_int32_t) :: qp_type, qp_num, psn, qkey
     integer(c_int16_t) :: lid, pkey
     integer(c_int32_t) :: rank
     integer(c_int64_t) :: reserved(4)
  end type hartebeest_remote_qp

  ! struct hartebeest_qp_request: hartebeest_qp_request_preset() first; texts as in a pair
  type, bind(c) :: hartebeest_qp_request
     integer(c_size_t) :: size
     type(c_ptr) :: pd, send_cq, recv_cq, srq, qp_context
     integer(c_int32_t) :: max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data
     integer(c_int) :: qp_type
     integer(c_int32_t) :: sq_sig_all
  end type hartebeest_qp_request

  ! struct hartebeest_pair: hartebeest_pair_preset() first; texts are C strings that must
  ! stay, by c_loc()
  type, bind(c) :: hartebeest_pair
     integer(c_size_t) :: size
     type(c_ptr) :: qp, key, peer_key, offer, regions
     integer(c_int32_t) :: offered, room, count, result
     type(hartebeest_remote_qp) :: peer
     character(kind=c_char) :: reason(160)
  end type hartebeest_pair

  ! Deadlines: a time of hartebeest_clock(), or exchange.timeout from now, or one look
  integer(c_int64_t), parameter :: hartebeest_preset = 0, hartebeest_once = -1

  interface
     function hartebeest_open(hb, options) bind(c)
       import :: c_int, c_ptr
       type(c_ptr), intent(out) :: hb
       type(c_ptr), value :: options
       integer(c_int) :: hartebeest_open
     end function hartebeest_open

     function hartebeest_close(hb) bind(c)
       import :: c_int, c_ptr
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_close
     end function hartebeest_close

     function hartebeest_error() bind(c)
       import :: c_ptr
       type(c_ptr) :: hartebeest_error
     end function hartebeest_error

     function hartebeest_rank(hb) bind(c)
       import :: c_int, c_ptr
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_rank
     end function hartebeest_rank

     function hartebeest_size(hb) bind(c)
       import :: c_int, c_ptr
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_size
     end function hartebeest_size

     ! index: from 0
     function hartebeest_participant(hb, index) bind(c)
       import :: c_int, c_ptr
       type(c_ptr), value :: hb
       integer(c_int), value :: index
       integer(c_int) :: hartebeest_participant
     end function hartebeest_participant

     function hartebeest_local_rank(hb) bind(c)
       import :: c_int, c_ptr
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_local_rank
     end function hartebeest_local_rank

     function hartebeest_pd_create(hb, name, pd) bind(c)
       import :: c_char, c_int, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(c_ptr), intent(out) :: pd
       integer(c_int) :: hartebeest_pd_create
     end function hartebeest_pd_create

     ! flags: 0, or 1 for a channel of the queue's own
     function hartebeest_cq_create(hb, name, depth, flags, cq) bind(c)
       import :: c_char, c_int, c_int32_t, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int), value :: depth
       integer(c_int32_t), value :: flags
       type(c_ptr), intent(out) :: cq
       integer(c_int) :: hartebeest_cq_create
     end function hartebeest_cq_create

     function hartebeest_mr_create(hb, name, pd, length, access, mr) bind(c)
       import :: c_char, c_int, c_ptr, c_size_t
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), pd(*)
       integer(c_size_t), value :: length
       integer(c_int), value :: access
       type(c_ptr), intent(out) :: mr
       integer(c_int) :: hartebeest_mr_create
     end function hartebeest_mr_create

     function hartebeest_mr_register(hb, name, pd, address, length, access, mr) bind(c)
       import :: c_char, c_int, c_ptr, c_size_t
       type(c_ptr), value :: hb, address
       character(kind=c_char), intent(in) :: name(*), pd(*)
       integer(c_size_t), value :: length
       integer(c_int), value :: access
       type(c_ptr), intent(out) :: mr
       integer(c_int) :: hartebeest_mr_register
     end function hartebeest_mr_register

     function hartebeest_mr_publish(hb, name, key, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_mr_publish
     end function hartebeest_mr_publish

     function hartebeest_mr_fetch(hb, peer_key, mr, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr, hartebeest_remote_mr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: peer_key(*)
       type(hartebeest_remote_mr), intent(out) :: mr
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_mr_fetch
     end function hartebeest_mr_fetch

     function hartebeest_qp_create(hb, name, request, qp) bind(c)
       import :: c_char, c_int, c_ptr, hartebeest_qp_request
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(hartebeest_qp_request), intent(inout) :: request
       type(c_ptr), intent(out) :: qp
       integer(c_int) :: hartebeest_qp_create
     end function hartebeest_qp_create

     function hartebeest_qp_publish(hb, name, key, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_publish
     end function hartebeest_qp_publish

     ! remote: c_null_ptr, or c_loc() of a type(hartebeest_remote_qp)
     function hartebeest_qp_fetch(hb, peer_key, remote, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr
       type(c_ptr), value :: hb, remote
       character(kind=c_char), intent(in) :: peer_key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_fetch
     end function hartebeest_qp_fetch

     ! text: room for length bytes; hartebeest_fortran_string() makes a text of it
     function hartebeest_peer_text(hb, peer_key, text, length) bind(c)
       import :: c_char, c_int, c_ptr, c_size_t
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: peer_key(*)
       character(kind=c_char), intent(inout) :: text(*)
       integer(c_size_t), value :: length
       integer(c_int) :: hartebeest_peer_text
     end function hartebeest_peer_text

     function hartebeest_qp_connect(hb, name, peer_key, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), peer_key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_connect
     end function hartebeest_qp_connect

     function hartebeest_qp_confirm(hb, name, peer_key, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), peer_key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_confirm
     end function hartebeest_qp_confirm

     function hartebeest_pairs_connect(hb, pairs, count, deadline) bind(c)
       import :: c_int, c_int64_t, c_ptr, c_size_t, hartebeest_pair
       type(c_ptr), value :: hb
       type(hartebeest_pair), intent(inout) :: pairs(*)
       integer(c_size_t), value :: count
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_pairs_connect
     end function hartebeest_pairs_connect

     function hartebeest_msg_push(hb, key, data, length, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr, c_size_t
       type(c_ptr), value :: hb, data
       character(kind=c_char), intent(in) :: key(*)
       integer(c_size_t), value :: length
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_msg_push
     end function hartebeest_msg_push

     function hartebeest_msg_wait(hb, peer_key, buffer, size, length, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr, c_size_t
       type(c_ptr), value :: hb, buffer
       character(kind=c_char), intent(in) :: peer_key(*)
       integer(c_size_t), value :: size
       integer(c_size_t), intent(out) :: length
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_msg_wait
     end function hartebeest_msg_wait

     function hartebeest_msg_delete(hb, key, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_msg_delete
     end function hartebeest_msg_delete

     function hartebeest_barrier(hb, name, deadline) bind(c)
       import :: c_char, c_int, c_int64_t, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_barrier
     end function hartebeest_barrier

     function hartebeest_fail(hb, text) bind(c)
       import :: c_char, c_int, c_ptr
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: text(*)
       integer(c_int) :: hartebeest_fail
     end function hartebeest_fail

     function hartebeest_post_write(qp, local, length, lkey, remote, rkey, wr_id, flags) bind(c)
       import :: c_int, c_int32_t, c_int64_t, c_ptr
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: length, lkey, rkey
       integer(c_int64_t), value :: remote, wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_write
     end function hartebeest_post_write

     ! wc: room for count times struct ibv_wc, 48 bytes each
     function hartebeest_poll_until(cq, count, wc, until) bind(c)
       import :: c_int, c_int64_t, c_ptr
       type(c_ptr), value :: cq, wc
       integer(c_int), value :: count
       integer(c_int64_t), value :: until
       integer(c_int) :: hartebeest_poll_until
     end function hartebeest_poll_until

     function hartebeest_clock() bind(c)
       import :: c_int64_t
       integer(c_int64_t) :: hartebeest_clock
     end function hartebeest_clock
  end interface

contains

  function hartebeest_c_string(text) result(string)
    character(len=*), intent(in) :: text
    character(kind=c_char, len=len_trim(text) + 1) :: string

    string = trim(text) // c_null_char
  end function hartebeest_c_string

  subroutine hartebeest_qp_request_preset(request)
    type(hartebeest_qp_request), intent(out) :: request

    request%pd = c_null_ptr
    request%send_cq = c_null_ptr
    request%recv_cq = c_null_ptr
    request%srq = c_null_ptr
    request%qp_context = c_null_ptr
    request%max_send_wr = 0
    request%max_recv_wr = 0
    request%max_send_sge = 0
    request%max_recv_sge = 0
    request%max_inline_data = 0
    request%qp_type = 0
    request%sq_sig_all = 0
    request%size = c_sizeof(request)
  end subroutine hartebeest_qp_request_preset

  subroutine hartebeest_pair_preset(pair)
    type(hartebeest_pair), intent(out) :: pair

    pair%qp = c_null_ptr
    pair%key = c_null_ptr
    pair%peer_key = c_null_ptr
    pair%offer = c_null_ptr
    pair%regions = c_null_ptr
    pair%offered = 0
    pair%room = 0
    pair%count = 0
    pair%result = 0
    pair%peer = hartebeest_remote_qp(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    pair%reason = c_null_char
    pair%size = c_sizeof(pair)
  end subroutine hartebeest_pair_preset

  ! A text that ends with a null byte, such as reason of a pair.
  function hartebeest_fortran_string(bytes) result(text)
    character(kind=c_char), intent(in) :: bytes(:)
    character(len=:), allocatable :: text
    integer :: i

    text = ''
    do i = 1, size(bytes)
       if (bytes(i) == c_null_char) return
       text = text // bytes(i)
    end do
  end function hartebeest_fortran_string

  ! The calling thread's last failure, as a sentence.
  function hartebeest_message() result(text)
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)

    call c_f_pointer(hartebeest_error(), bytes, [4096])
    text = hartebeest_fortran_string(bytes)
  end function hartebeest_message
end module hartebeest
