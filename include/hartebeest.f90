! SPDX-License-Identifier: MIT
!
! hartebeest.f90 - libhartebeest for Fortran 2018, or 2008 with TS 29113 (gfortran -std=f2008ts)
!
! Compile it along with the program: compilers cannot read each other's module files.
! Names and rules are those of hartebeest(3), hartebeest_mesh(3) and hartebeest_post(3), and
! arguments have their names in C.  Where C takes NULL, leave out an optional argument, and pass
! c_null_ptr for a type(c_ptr), value.  Attributes go by reference.  A pointer to a struct ibv_*
! is a type(c_ptr); for those that Fortran reads, types ibv_* below describe the struct,
! for c_f_pointer().  C's unsigned integers are signed integers of the same size here: for a
! single byte, iand(int(value), 255) is the unsigned value.
!
! hartebeest_c_string() makes a C string, which must exist as long as C may read it.
! hartebeest_text() and hartebeest_fortran_string() make Fortran strings from C strings.
! hartebeest_error_text() is hartebeest_error(3).
module hartebeest
  use, intrinsic :: iso_c_binding
  implicit none

  ! enum ibv_qp_type, enum ibv_access_flags
  integer(c_int), parameter :: ibv_qpt_rc = 2, ibv_qpt_uc = 3, ibv_qpt_ud = 4, &
       hartebeest_qpt_default = 0
  integer(c_int), parameter :: ibv_access_local_write = 1, ibv_access_remote_write = 2, &
       ibv_access_remote_read = 4, ibv_access_remote_atomic = 8

  ! enum ibv_send_flags, enum ibv_wr_opcode, for posts
  integer(c_int), parameter :: ibv_send_fence = 1, ibv_send_signaled = 2, &
       ibv_send_solicited = 4, ibv_send_inline = 8
  integer(c_int), parameter :: ibv_wr_rdma_write = 0, ibv_wr_rdma_read = 4

  ! enum ibv_wc_status, enum ibv_wc_opcode and enum ibv_wc_flags, for completions
  integer(c_int), parameter :: ibv_wc_success = 0, ibv_wc_wr_flush_err = 5, &
       ibv_wc_retry_exc_err = 12
  integer(c_int), parameter :: ibv_wc_send = 0, ibv_wc_rdma_write = 1, ibv_wc_rdma_read = 2, &
       ibv_wc_comp_swap = 3, ibv_wc_fetch_add = 4, ibv_wc_recv = 128, &
       ibv_wc_recv_rdma_with_imm = 129
  integer(c_int), parameter :: ibv_wc_grh = 1, ibv_wc_with_imm = 2

  ! Deadlines, besides times of hartebeest_clock(): exchange.timeout from now; none; one look
  integer(c_int64_t), parameter :: hartebeest_default = 0, &
       hartebeest_forever = huge(0_c_int64_t), hartebeest_once = -1

  integer(c_int32_t), parameter :: hartebeest_cq_channel = 1
  integer(c_int64_t), parameter :: hartebeest_msg_once = 1
  integer(c_int), parameter :: hartebeest_log_none = 0, hartebeest_log_error = 3, &
       hartebeest_log_warn = 4, hartebeest_log_info = 6, hartebeest_log_debug = 7

  ! --------------------------------------------------------------- types of verbs

  ! The beginning of struct ibv_mr, for c_f_pointer() of what hartebeest_mr_create() returns
  type, bind(c) :: ibv_mr
     type(c_ptr) :: context, pd, addr
     integer(c_size_t) :: length
     integer(c_int32_t) :: handle, lkey, rkey
  end type ibv_mr

  ! imm_data is in network byte order: hartebeest_wc_imm() converts it
  type, bind(c) :: ibv_wc
     integer(c_int64_t) :: wr_id
     integer(c_int) :: status, opcode
     integer(c_int32_t) :: vendor_err, byte_len, imm_data, qp_num, src_qp
     integer(c_int) :: wc_flags
     integer(c_int16_t) :: pkey_index, slid
     integer(c_int8_t) :: sl, dlid_path_bits
  end type ibv_wc

  type, bind(c) :: ibv_qp_cap
     integer(c_int32_t) :: max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, &
          max_inline_data
  end type ibv_qp_cap

  ! ------------------------------------------------------- types of the library

  ! GIDs and IP addresses, here and below, are 16 bytes in network byte order
  type, bind(c) :: hartebeest_path
     character(kind=c_char) :: device(64)
     integer(c_int64_t) :: sgid(2), dgid(2)
     integer(c_int32_t) :: flow_label
     integer(c_int16_t) :: dlid, pkey
     integer(c_int8_t) :: port, link_layer, sl, src_path_bits, mtu, rate, hop_limit, &
          traffic_class, life_time
     integer(c_int64_t) :: reserved(4)
  end type hartebeest_path

  type, bind(c) :: hartebeest_event
     integer(c_int) :: type, port
     integer(c_int32_t) :: qp_num
     integer(c_int) :: fatal
     character(kind=c_char) :: text(256)
     integer(c_int64_t) :: reserved(4)
  end type hartebeest_event

  ! Call hartebeest_cq_attr_init(), and so on, first
  type, bind(c) :: hartebeest_cq_attr
     integer(c_size_t) :: size
     integer(c_int32_t) :: depth, flags, comp_vector
     type(c_ptr) :: channel, cq_context
  end type hartebeest_cq_attr

  type, bind(c) :: hartebeest_srq_attr
     integer(c_size_t) :: size
     type(c_ptr) :: pd, srq_context
     integer(c_int32_t) :: max_wr, max_sge
  end type hartebeest_srq_attr

  type, bind(c) :: hartebeest_mr_attr
     integer(c_size_t) :: size
     type(c_ptr) :: pd, address
     integer(c_size_t) :: length
     integer(c_int32_t) :: access, dmabuf_fd
     integer(c_int64_t) :: dmabuf_offset, dmabuf_iova
  end type hartebeest_mr_attr

  ! Call hartebeest_qp_attr_init() first.  Texts are c_loc() of C strings that must stay
  type, bind(c) :: hartebeest_qp_attr
     integer(c_size_t) :: size
     type(c_ptr) :: pd, send_cq, recv_cq, srq, qp_context
     type(ibv_qp_cap) :: cap
     integer(c_int) :: type
     integer(c_int32_t) :: sq_sig_all
  end type hartebeest_qp_attr

  type, bind(c) :: hartebeest_remote_mr
     integer(c_int64_t) :: address, length
     integer(c_int32_t) :: rkey, access
     integer(c_int64_t) :: reserved(1)
  end type hartebeest_remote_mr

  type, bind(c) :: hartebeest_remote_qp
     integer(c_int64_t) :: gid(2), ip(2)
     integer(c_int32_t) :: qp_type, qp_num, psn, qkey
     integer(c_int16_t) :: lid, pkey
     integer(c_int32_t) :: rank, ece_vendor, ece_options
     integer(c_int64_t) :: reserved(3)
  end type hartebeest_remote_qp

  type, bind(c) :: hartebeest_ud_address
     type(c_ptr) :: ah
     integer(c_int32_t) :: qp_num, qkey
     integer(c_int64_t) :: reserved(2)
  end type hartebeest_ud_address

  ! Call hartebeest_pair_init() first.  Texts as above
  type, bind(c) :: hartebeest_pair
     integer(c_size_t) :: size
     type(c_ptr) :: qp, key, peer_key, offer, regions
     integer(c_int32_t) :: offer_count, region_room, region_count, result
     type(hartebeest_remote_qp) :: peer
     character(kind=c_char) :: reason(512)
  end type hartebeest_pair

  ! Call hartebeest_msg_attr_init() first.  ttl in ns
  type, bind(c) :: hartebeest_msg_attr
     integer(c_size_t) :: size
     integer(c_int64_t) :: ttl, flags
  end type hartebeest_msg_attr

  ! Call hartebeest_message_init() first
  type, bind(c) :: hartebeest_message
     integer(c_size_t) :: size
     type(c_ptr) :: peer_key, buffer
     integer(c_size_t) :: room, length
     integer(c_int32_t) :: arrived, result
  end type hartebeest_message

  type, bind(c) :: hartebeest_client
     integer(c_int64_t) :: number, context
     integer(c_int32_t) :: rank, pid, again, length
     character(kind=c_char) :: host(64), key(128), peer_key(128), data(1024)
     integer(c_int64_t) :: reserved(4)
  end type hartebeest_client

  ! Call hartebeest_mesh_attr_init() first
  type, bind(c) :: hartebeest_mesh_attr
     integer(c_size_t) :: size
     type(c_ptr) :: pd, cq, regions
     integer(c_int32_t) :: region_count, qps_per_peer
     type(c_ptr) :: ranks
     integer(c_int32_t) :: rank_count
     type(c_ptr) :: peers
     integer(c_int32_t) :: peer_count
     integer(c_int) :: type
     type(ibv_qp_cap) :: cap
     integer(c_int32_t) :: threads, own_rank
     type(c_funptr) :: gather
     type(c_ptr) :: gather_data
     type(c_funptr) :: refill
     type(c_ptr) :: refill_data
     type(c_funptr) :: progress
     type(c_ptr) :: progress_data
  end type hartebeest_mesh_attr

  type, bind(c) :: hartebeest_mesh_phase
     integer(c_int64_t) :: time, requests, bytes
  end type hartebeest_mesh_phase

  type, bind(c) :: hartebeest_mesh_stats
     type(hartebeest_mesh_phase) :: create, publish, wait, fetch, rtr, rts, confirm
     integer(c_int64_t) :: total, qps, reserved(6)
  end type hartebeest_mesh_stats

  private :: zeros

  interface
     ! ---------------------------------------------------- hartebeest.h

     ! options: c_null_ptr, or an array of type(c_ptr) to C strings that ends with c_null_ptr
     function hartebeest_open(hb, options) bind(c)
       import
       type(c_ptr), intent(out) :: hb
       type(c_ptr), value :: options
       integer(c_int) :: hartebeest_open
     end function hartebeest_open

     function hartebeest_version() bind(c)
       import
       integer(c_int) :: hartebeest_version
     end function hartebeest_version

     function hartebeest_open_verbs(hb, options, verbs, port) bind(c)
       import
       type(c_ptr), intent(out) :: hb
       type(c_ptr), value :: options, verbs
       integer(c_int), value :: port
       integer(c_int) :: hartebeest_open_verbs
     end function hartebeest_open_verbs

     function hartebeest_close(hb) bind(c)
       import
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_close
     end function hartebeest_close

     function hartebeest_error() bind(c)
       import
       type(c_ptr) :: hartebeest_error
     end function hartebeest_error

     subroutine hartebeest_cancel(hb) bind(c)
       import
       type(c_ptr), value :: hb
     end subroutine hartebeest_cancel

     subroutine hartebeest_cancel_clear(hb) bind(c)
       import
       type(c_ptr), value :: hb
     end subroutine hartebeest_cancel_clear

     function hartebeest_rank(hb) bind(c)
       import
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_rank
     end function hartebeest_rank

     function hartebeest_size(hb) bind(c)
       import
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_size
     end function hartebeest_size

     function hartebeest_participant(hb, index) bind(c)
       import
       type(c_ptr), value :: hb
       integer(c_int), value :: index
       integer(c_int) :: hartebeest_participant
     end function hartebeest_participant

     function hartebeest_position(hb, rank) bind(c)
       import
       type(c_ptr), value :: hb
       integer(c_int), value :: rank
       integer(c_int) :: hartebeest_position
     end function hartebeest_position

     function hartebeest_local_rank(hb) bind(c)
       import
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_local_rank
     end function hartebeest_local_rank

     function hartebeest_job(hb) bind(c)
       import
       type(c_ptr), value :: hb
       type(c_ptr) :: hartebeest_job
     end function hartebeest_job

     ! warning: c_null_ptr, or c_loc() of a type(c_ptr)
     function hartebeest_origin(hb, warning) bind(c)
       import
       type(c_ptr), value :: hb, warning
       type(c_ptr) :: hartebeest_origin
     end function hartebeest_origin

     function hartebeest_verbs(hb, verbs) bind(c)
       import
       type(c_ptr), value :: hb
       type(c_ptr), intent(out) :: verbs
       integer(c_int) :: hartebeest_verbs
     end function hartebeest_verbs

     function hartebeest_port_num(hb) bind(c)
       import
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_port_num
     end function hartebeest_port_num

     function hartebeest_device_text(hb, text, size) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(inout) :: text(*)
       integer(c_size_t), value :: size
       integer(c_int) :: hartebeest_device_text
     end function hartebeest_device_text

     function hartebeest_resolve(hb, ip, path, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: ip(*)
       type(hartebeest_path), intent(out) :: path
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_resolve
     end function hartebeest_resolve

     ! source: c_null_ptr, or c_loc() of a type(c_ptr)
     function hartebeest_option_get(hb, name, text, size, source) bind(c)
       import
       type(c_ptr), value :: hb, source
       character(kind=c_char), intent(in) :: name(*)
       character(kind=c_char), intent(inout) :: text(*)
       integer(c_size_t), value :: size
       integer(c_int) :: hartebeest_option_get
     end function hartebeest_option_get

     ! write: c_null_funptr, or c_funloc() of a bind(c) subroutine (data, level, text)
     function hartebeest_log_set(hb, level, write, data) bind(c)
       import
       type(c_ptr), value :: hb, data
       integer(c_int), value :: level
       type(c_funptr), value :: write
       integer(c_int) :: hartebeest_log_set
     end function hartebeest_log_set

     function hartebeest_event_get(hb, event, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       type(hartebeest_event), intent(out) :: event
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_event_get
     end function hartebeest_event_get

     function hartebeest_event_fd(hb) bind(c)
       import
       type(c_ptr), value :: hb
       integer(c_int) :: hartebeest_event_fd
     end function hartebeest_event_fd

     function hartebeest_pd_create(hb, name, pd) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(c_ptr), intent(out), optional :: pd
       integer(c_int) :: hartebeest_pd_create
     end function hartebeest_pd_create

     function hartebeest_pd_get(hb, name, pd) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(c_ptr), intent(out) :: pd
       integer(c_int) :: hartebeest_pd_get
     end function hartebeest_pd_get

     function hartebeest_pd_destroy(hb, name) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_pd_destroy
     end function hartebeest_pd_destroy

     function hartebeest_cq_create(hb, name, attr, cq) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(hartebeest_cq_attr), intent(in), optional :: attr
       type(c_ptr), intent(out), optional :: cq
       integer(c_int) :: hartebeest_cq_create
     end function hartebeest_cq_create

     function hartebeest_cq_get(hb, name, cq) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(c_ptr), intent(out) :: cq
       integer(c_int) :: hartebeest_cq_get
     end function hartebeest_cq_get

     function hartebeest_cq_destroy(hb, name) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_cq_destroy
     end function hartebeest_cq_destroy

     function hartebeest_cq_fd(hb, name) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_cq_fd
     end function hartebeest_cq_fd

     function hartebeest_cq_wait(hb, cq, count, wc, deadline) bind(c)
       import
       type(c_ptr), value :: hb, cq
       integer(c_int), value :: count
       type(ibv_wc), intent(inout) :: wc(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_cq_wait
     end function hartebeest_cq_wait

     function hartebeest_srq_create(hb, name, attr, srq) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(hartebeest_srq_attr), intent(in) :: attr
       type(c_ptr), intent(out), optional :: srq
       integer(c_int) :: hartebeest_srq_create
     end function hartebeest_srq_create

     function hartebeest_srq_get(hb, name, srq) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(c_ptr), intent(out) :: srq
       integer(c_int) :: hartebeest_srq_get
     end function hartebeest_srq_get

     function hartebeest_srq_destroy(hb, name) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_srq_destroy
     end function hartebeest_srq_destroy

     function hartebeest_mr_create(hb, name, attr, mr) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(hartebeest_mr_attr), intent(in) :: attr
       type(c_ptr), intent(out), optional :: mr
       integer(c_int) :: hartebeest_mr_create
     end function hartebeest_mr_create

     function hartebeest_mr_register(hb, name, attr, mr) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(hartebeest_mr_attr), intent(in) :: attr
       type(c_ptr), intent(out), optional :: mr
       integer(c_int) :: hartebeest_mr_register
     end function hartebeest_mr_register

     function hartebeest_mr_register_dmabuf(hb, name, attr, mr) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(hartebeest_mr_attr), intent(in) :: attr
       type(c_ptr), intent(out), optional :: mr
       integer(c_int) :: hartebeest_mr_register_dmabuf
     end function hartebeest_mr_register_dmabuf

     function hartebeest_mr_get(hb, name, mr) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(c_ptr), intent(out) :: mr
       integer(c_int) :: hartebeest_mr_get
     end function hartebeest_mr_get

     function hartebeest_mr_destroy(hb, name) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_mr_destroy
     end function hartebeest_mr_destroy

     function hartebeest_mr_publish(hb, name, key, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_mr_publish
     end function hartebeest_mr_publish

     function hartebeest_mr_fetch(hb, peer_key, mr, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: peer_key(*)
       type(hartebeest_remote_mr), intent(out) :: mr
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_mr_fetch
     end function hartebeest_mr_fetch

     function hartebeest_qp_create(hb, name, attr, qp) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(hartebeest_qp_attr), intent(inout) :: attr
       type(c_ptr), intent(out), optional :: qp
       integer(c_int) :: hartebeest_qp_create
     end function hartebeest_qp_create

     ! attr: a struct ibv_qp_init_attr that C code has filled
     function hartebeest_qp_create_verbs(hb, name, pd, attr, qp) bind(c)
       import
       type(c_ptr), value :: hb, attr
       character(kind=c_char), intent(in) :: name(*), pd(*)
       type(c_ptr), intent(out), optional :: qp
       integer(c_int) :: hartebeest_qp_create_verbs
     end function hartebeest_qp_create_verbs

     function hartebeest_qp_get(hb, name, qp) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(c_ptr), intent(out) :: qp
       integer(c_int) :: hartebeest_qp_get
     end function hartebeest_qp_get

     function hartebeest_qp_cap(hb, name, cap) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(ibv_qp_cap), intent(inout) :: cap
       integer(c_int) :: hartebeest_qp_cap
     end function hartebeest_qp_cap

     function hartebeest_qp_destroy(hb, name) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_qp_destroy
     end function hartebeest_qp_destroy

     function hartebeest_qp_init(hb, name) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_qp_init
     end function hartebeest_qp_init

     function hartebeest_qp_publish(hb, name, key, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_publish
     end function hartebeest_qp_publish

     function hartebeest_peer_text(hb, peer_key, text, size, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: peer_key(*)
       character(kind=c_char), intent(inout) :: text(*)
       integer(c_size_t), value :: size
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_peer_text
     end function hartebeest_peer_text

     ! regions: c_null_ptr, or c_loc() of an array of type(hartebeest_remote_mr)
     function hartebeest_peer_regions(hb, peer_key, regions, count) bind(c)
       import
       type(c_ptr), value :: hb, regions
       character(kind=c_char), intent(in) :: peer_key(*)
       integer(c_size_t), value :: count
       integer(c_int) :: hartebeest_peer_regions
     end function hartebeest_peer_regions

     ! remote: c_null_ptr, or c_loc() of a type(hartebeest_remote_qp)
     function hartebeest_qp_fetch(hb, peer_key, remote, deadline) bind(c)
       import
       type(c_ptr), value :: hb, remote
       character(kind=c_char), intent(in) :: peer_key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_fetch
     end function hartebeest_qp_fetch

     function hartebeest_qp_connect(hb, name, peer_key, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), peer_key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_connect
     end function hartebeest_qp_connect

     function hartebeest_qp_confirm(hb, name, peer_key, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), peer_key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_confirm
     end function hartebeest_qp_confirm

     ! remote: as above
     function hartebeest_qp_follow(hb, name, peer_key, remote, deadline) bind(c)
       import
       type(c_ptr), value :: hb, remote
       character(kind=c_char), intent(in) :: name(*), peer_key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_follow
     end function hartebeest_qp_follow

     function hartebeest_qp_reset(hb, name) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_qp_reset
     end function hartebeest_qp_reset

     function hartebeest_qp_reconnect(hb, name, peer_key, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), peer_key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_reconnect
     end function hartebeest_qp_reconnect

     ! refill: c_null_funptr, or c_funloc() of a bind(c) function (data, qp)
     function hartebeest_qp_refill_set(hb, name, refill, data) bind(c)
       import
       type(c_ptr), value :: hb, data
       character(kind=c_char), intent(in) :: name(*)
       type(c_funptr), value :: refill
       integer(c_int) :: hartebeest_qp_refill_set
     end function hartebeest_qp_refill_set

     function hartebeest_qp_ud_address(hb, name, peer_key, address) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*), peer_key(*)
       type(hartebeest_ud_address), intent(out) :: address
       integer(c_int) :: hartebeest_qp_ud_address
     end function hartebeest_qp_ud_address

     function hartebeest_completion_text(hb, wc, text, size) bind(c)
       import
       type(c_ptr), value :: hb
       type(ibv_wc), intent(in) :: wc
       character(kind=c_char), intent(inout) :: text(*)
       integer(c_size_t), value :: size
       integer(c_int) :: hartebeest_completion_text
     end function hartebeest_completion_text

     ! wr: c_null_ptr, or c_loc() of a struct ibv_send_wr
     function hartebeest_post_text(hb, qp, wr, ret, text, size) bind(c)
       import
       type(c_ptr), value :: hb, qp, wr
       integer(c_int), value :: ret
       character(kind=c_char), intent(inout) :: text(*)
       integer(c_size_t), value :: size
       integer(c_int) :: hartebeest_post_text
     end function hartebeest_post_text

     function hartebeest_pd_adopt(hb, name, pd) bind(c)
       import
       type(c_ptr), value :: hb, pd
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_pd_adopt
     end function hartebeest_pd_adopt

     function hartebeest_cq_adopt(hb, name, cq) bind(c)
       import
       type(c_ptr), value :: hb, cq
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_cq_adopt
     end function hartebeest_cq_adopt

     function hartebeest_srq_adopt(hb, name, srq) bind(c)
       import
       type(c_ptr), value :: hb, srq
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_srq_adopt
     end function hartebeest_srq_adopt

     function hartebeest_mr_adopt(hb, name, mr, access) bind(c)
       import
       type(c_ptr), value :: hb, mr
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int), value :: access
       integer(c_int) :: hartebeest_mr_adopt
     end function hartebeest_mr_adopt

     function hartebeest_qp_adopt(hb, name, qp) bind(c)
       import
       type(c_ptr), value :: hb, qp
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int) :: hartebeest_qp_adopt
     end function hartebeest_qp_adopt

     function hartebeest_pairs_connect(hb, pairs, count, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       type(hartebeest_pair), intent(inout) :: pairs(*)
       integer(c_size_t), value :: count
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_pairs_connect
     end function hartebeest_pairs_connect

     ! bytes: c_null_ptr, or c_loc() of an array; len: in its room, out their number
     function hartebeest_qp_export(hb, pairs, count, bytes, len) bind(c)
       import
       type(c_ptr), value :: hb, bytes
       type(hartebeest_pair), intent(inout) :: pairs(*)
       integer(c_size_t), value :: count
       integer(c_size_t), intent(inout) :: len
       integer(c_int) :: hartebeest_qp_export
     end function hartebeest_qp_export

     function hartebeest_qp_import(hb, pairs, count, bytes, len, deadline) bind(c)
       import
       type(c_ptr), value :: hb, bytes
       type(hartebeest_pair), intent(inout) :: pairs(*)
       integer(c_size_t), value :: count, len
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_qp_import
     end function hartebeest_qp_import

     function hartebeest_msg_push(hb, key, data, length, deadline) bind(c)
       import
       type(c_ptr), value :: hb, data
       character(kind=c_char), intent(in) :: key(*)
       integer(c_size_t), value :: length
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_msg_push
     end function hartebeest_msg_push

     function hartebeest_msg_push_attr(hb, key, data, length, attr, deadline) bind(c)
       import
       type(c_ptr), value :: hb, data
       character(kind=c_char), intent(in) :: key(*)
       integer(c_size_t), value :: length
       type(hartebeest_msg_attr), intent(in) :: attr
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_msg_push_attr
     end function hartebeest_msg_push_attr

     function hartebeest_msg_wait(hb, peer_key, buffer, size, length, deadline) bind(c)
       import
       type(c_ptr), value :: hb, buffer
       character(kind=c_char), intent(in) :: peer_key(*)
       integer(c_size_t), value :: size
       integer(c_size_t), intent(out), optional :: length
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_msg_wait
     end function hartebeest_msg_wait

     function hartebeest_msgs_wait(hb, messages, count, need, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       type(hartebeest_message), intent(inout) :: messages(*)
       integer(c_size_t), value :: count, need
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_msgs_wait
     end function hartebeest_msgs_wait

     function hartebeest_msg_delete(hb, key, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: key(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_msg_delete
     end function hartebeest_msg_delete

     function hartebeest_barrier(hb, name, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_barrier
     end function hartebeest_barrier

     ! value, all: c_loc() of size bytes, and of as many for each rank
     function hartebeest_gather(hb, name, value, size, all, deadline) bind(c)
       import
       type(c_ptr), value :: hb, value, all
       character(kind=c_char), intent(in) :: name(*)
       integer(c_size_t), value :: size
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_gather
     end function hartebeest_gather

     function hartebeest_counter_add(hb, key, add, value, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: key(*)
       integer(c_int32_t), value :: add
       integer(c_int64_t), intent(out) :: value
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_counter_add
     end function hartebeest_counter_add

     function hartebeest_fail(hb, text) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: text(*)
       integer(c_int) :: hartebeest_fail
     end function hartebeest_fail

     function hartebeest_service_listen(hb, service, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: service(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_service_listen
     end function hartebeest_service_listen

     function hartebeest_service_accept(hb, service, client, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: service(*)
       type(hartebeest_client), intent(inout) :: client
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_service_accept
     end function hartebeest_service_accept

     function hartebeest_service_request(hb, service, data, length, client, &
          deadline) bind(c)
       import
       type(c_ptr), value :: hb, data
       character(kind=c_char), intent(in) :: service(*)
       integer(c_size_t), value :: length
       type(hartebeest_client), intent(inout) :: client
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_service_request
     end function hartebeest_service_request

     function hartebeest_service_leave(hb, service, client) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: service(*)
       type(hartebeest_client), intent(in) :: client
       integer(c_int) :: hartebeest_service_leave
     end function hartebeest_service_leave

     function hartebeest_service_close(hb, service) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: service(*)
       integer(c_int) :: hartebeest_service_close
     end function hartebeest_service_close

     ! ----------------------------------------------- hartebeest-mesh.h

     function hartebeest_mesh_connect(hb, name, attr, mesh, deadline) bind(c)
       import
       type(c_ptr), value :: hb
       character(kind=c_char), intent(in) :: name(*)
       type(hartebeest_mesh_attr), intent(in), optional :: attr
       type(c_ptr), intent(out) :: mesh
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_mesh_connect
     end function hartebeest_mesh_connect

     function hartebeest_mesh_qp(mesh, rank, index) bind(c)
       import
       type(c_ptr), value :: mesh
       integer(c_int), value :: rank, index
       type(c_ptr) :: hartebeest_mesh_qp
     end function hartebeest_mesh_qp

     function hartebeest_mesh_cq(mesh) bind(c)
       import
       type(c_ptr), value :: mesh
       type(c_ptr) :: hartebeest_mesh_cq
     end function hartebeest_mesh_cq

     function hartebeest_mesh_pd(mesh) bind(c)
       import
       type(c_ptr), value :: mesh
       type(c_ptr) :: hartebeest_mesh_pd
     end function hartebeest_mesh_pd

     function hartebeest_mesh_region(mesh, rank, index, region) bind(c)
       import
       type(c_ptr), value :: mesh
       integer(c_int), value :: rank, index
       type(hartebeest_remote_mr), intent(out) :: region
       integer(c_int) :: hartebeest_mesh_region
     end function hartebeest_mesh_region

     function hartebeest_mesh_ud_address(mesh, rank, address) bind(c)
       import
       type(c_ptr), value :: mesh
       integer(c_int), value :: rank
       type(hartebeest_ud_address), intent(out) :: address
       integer(c_int) :: hartebeest_mesh_ud_address
     end function hartebeest_mesh_ud_address

     function hartebeest_mesh_barrier(mesh, deadline) bind(c)
       import
       type(c_ptr), value :: mesh
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_mesh_barrier
     end function hartebeest_mesh_barrier

     function hartebeest_mesh_repair(mesh, deadline) bind(c)
       import
       type(c_ptr), value :: mesh
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_mesh_repair
     end function hartebeest_mesh_repair

     function hartebeest_mesh_stats_get(mesh, stats) bind(c)
       import
       type(c_ptr), value :: mesh
       type(hartebeest_mesh_stats), intent(out) :: stats
       integer(c_int) :: hartebeest_mesh_stats_get
     end function hartebeest_mesh_stats_get

     function hartebeest_mesh_close(mesh) bind(c)
       import
       type(c_ptr), value :: mesh
       integer(c_int) :: hartebeest_mesh_close
     end function hartebeest_mesh_close

     ! ---------------------------------------------- hartebeest-clock.h

     function hartebeest_clock() bind(c)
       import
       integer(c_int64_t) :: hartebeest_clock
     end function hartebeest_clock

     ! ----------------------------------------------- hartebeest-post.h

     ! wr: a struct ibv_send_wr that C code has filled
     function hartebeest_post_wr(qp, wr, local, length, lkey) bind(c)
       import
       type(c_ptr), value :: qp, wr, local
       integer(c_int32_t), value :: length, lkey
       integer(c_int) :: hartebeest_post_wr
     end function hartebeest_post_wr

     function hartebeest_post_rdma(qp, opcode, local, length, lkey, remote, rkey, wr_id, &
          flags) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int), value :: opcode, flags
       integer(c_int32_t), value :: length, lkey, rkey
       integer(c_int64_t), value :: remote, wr_id
       integer(c_int) :: hartebeest_post_rdma
     end function hartebeest_post_rdma

     function hartebeest_post_write(qp, local, length, lkey, remote, rkey, wr_id, &
          flags) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: length, lkey, rkey
       integer(c_int64_t), value :: remote, wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_write
     end function hartebeest_post_write

     function hartebeest_post_read(qp, local, length, lkey, remote, rkey, wr_id, &
          flags) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: length, lkey, rkey
       integer(c_int64_t), value :: remote, wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_read
     end function hartebeest_post_read

     function hartebeest_post_write_imm(qp, local, length, lkey, remote, rkey, imm, wr_id, &
          flags) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: length, lkey, rkey, imm
       integer(c_int64_t), value :: remote, wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_write_imm
     end function hartebeest_post_write_imm

     function hartebeest_post_send(qp, local, length, lkey, wr_id, flags) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: length, lkey
       integer(c_int64_t), value :: wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_send
     end function hartebeest_post_send

     function hartebeest_post_send_imm(qp, local, length, lkey, imm, wr_id, flags) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: length, lkey, imm
       integer(c_int64_t), value :: wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_send_imm
     end function hartebeest_post_send_imm

     function hartebeest_post_send_ud(qp, local, length, lkey, ah, qp_num, qkey, wr_id, &
          flags) bind(c)
       import
       type(c_ptr), value :: qp, local, ah
       integer(c_int32_t), value :: length, lkey, qp_num, qkey
       integer(c_int64_t), value :: wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_send_ud
     end function hartebeest_post_send_ud

     function hartebeest_post_fetch_add(qp, local, lkey, remote, rkey, add, wr_id, &
          flags) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: lkey, rkey
       integer(c_int64_t), value :: remote, add, wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_fetch_add
     end function hartebeest_post_fetch_add

     function hartebeest_post_compare_swap(qp, local, lkey, remote, rkey, compare, swap, &
          wr_id, flags) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: lkey, rkey
       integer(c_int64_t), value :: remote, compare, swap, wr_id
       integer(c_int), value :: flags
       integer(c_int) :: hartebeest_post_compare_swap
     end function hartebeest_post_compare_swap

     function hartebeest_post_recv(qp, local, length, lkey, wr_id) bind(c)
       import
       type(c_ptr), value :: qp, local
       integer(c_int32_t), value :: length, lkey
       integer(c_int64_t), value :: wr_id
       integer(c_int) :: hartebeest_post_recv
     end function hartebeest_post_recv

     function hartebeest_post_srq_recv(srq, local, length, lkey, wr_id) bind(c)
       import
       type(c_ptr), value :: srq, local
       integer(c_int32_t), value :: length, lkey
       integer(c_int64_t), value :: wr_id
       integer(c_int) :: hartebeest_post_srq_recv
     end function hartebeest_post_srq_recv

     function hartebeest_poll(cq, count, wc) bind(c)
       import
       type(c_ptr), value :: cq
       integer(c_int), value :: count
       type(ibv_wc), intent(inout) :: wc(*)
       integer(c_int) :: hartebeest_poll
     end function hartebeest_poll

     function hartebeest_poll_until(cq, count, wc, deadline) bind(c)
       import
       type(c_ptr), value :: cq
       integer(c_int), value :: count
       type(ibv_wc), intent(inout) :: wc(*)
       integer(c_int64_t), value :: deadline
       integer(c_int) :: hartebeest_poll_until
     end function hartebeest_poll_until

     function hartebeest_wc_imm(wc) bind(c)
       import
       type(ibv_wc), intent(in) :: wc
       integer(c_int32_t) :: hartebeest_wc_imm
     end function hartebeest_wc_imm
  end interface

contains

  subroutine hartebeest_cq_attr_init(attr)
    type(hartebeest_cq_attr), intent(out) :: attr

    attr = transfer(zeros(c_sizeof(attr)), attr)
    attr%size = c_sizeof(attr)
  end subroutine hartebeest_cq_attr_init

  subroutine hartebeest_srq_attr_init(attr)
    type(hartebeest_srq_attr), intent(out) :: attr

    attr = transfer(zeros(c_sizeof(attr)), attr)
    attr%size = c_sizeof(attr)
  end subroutine hartebeest_srq_attr_init

  subroutine hartebeest_mr_attr_init(attr)
    type(hartebeest_mr_attr), intent(out) :: attr

    attr = transfer(zeros(c_sizeof(attr)), attr)
    attr%size = c_sizeof(attr)
  end subroutine hartebeest_mr_attr_init

  subroutine hartebeest_qp_attr_init(attr)
    type(hartebeest_qp_attr), intent(out) :: attr

    attr = transfer(zeros(c_sizeof(attr)), attr)
    attr%size = c_sizeof(attr)
  end subroutine hartebeest_qp_attr_init

  subroutine hartebeest_pair_init(pair)
    type(hartebeest_pair), intent(out) :: pair

    pair = transfer(zeros(c_sizeof(pair)), pair)
    pair%size = c_sizeof(pair)
  end subroutine hartebeest_pair_init

  subroutine hartebeest_msg_attr_init(attr)
    type(hartebeest_msg_attr), intent(out) :: attr

    attr = hartebeest_msg_attr(c_sizeof(attr), 0, 0)
  end subroutine hartebeest_msg_attr_init

  subroutine hartebeest_message_init(message)
    type(hartebeest_message), intent(out) :: message

    message = transfer(zeros(c_sizeof(message)), message)
    message%size = c_sizeof(message)
  end subroutine hartebeest_message_init

  subroutine hartebeest_mesh_attr_init(attr)
    type(hartebeest_mesh_attr), intent(out) :: attr

    attr = transfer(zeros(c_sizeof(attr)), attr)
    attr%size = c_sizeof(attr)
  end subroutine hartebeest_mesh_attr_init

  pure function zeros(count)
    integer(c_size_t), intent(in) :: count
    integer(c_int8_t) :: zeros(count)

    zeros = 0
  end function zeros

  function hartebeest_c_string(text) result(string)
    character(len=*), intent(in) :: text
    character(kind=c_char, len=len_trim(text) + 1) :: string

    string = trim(text) // c_null_char
  end function hartebeest_c_string

  ! The text up to the first null byte, for instance the reason of a pair.
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

  ! What hartebeest_job() and others return, up to 4096 bytes; '' for c_null_ptr.
  function hartebeest_text(string) result(text)
    type(c_ptr), intent(in) :: string
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)

    text = ''
    if (.not. c_associated(string)) return
    call c_f_pointer(string, bytes, [4096])
    text = hartebeest_fortran_string(bytes)
  end function hartebeest_text

  ! The calling thread's last failure, as a sentence.
  function hartebeest_error_text() result(text)
    character(len=:), allocatable :: text

    text = hartebeest_text(hartebeest_error())
  end function hartebeest_error_text
end module hartebeest
