! SPDX-License-Identifier: MIT
!
! fortran-types.f90 - the layout of the module's types, for fortran.c to compare
module fortran_types
  use hartebeest
  implicit none

contains

  ! For each type: its size, and the offsets of its last member and of some others.
  function fortran_layout(numbers, room) result(count) bind(c)
    integer(c_size_t), intent(out) :: numbers(*)
    integer(c_int), value :: room
    integer(c_int) :: count
    type(ibv_mr), target :: mr
    type(ibv_wc), target :: wc
    type(ibv_qp_cap), target :: cap
    type(hartebeest_cq_attr), target :: cq
    type(hartebeest_srq_attr), target :: srq
    type(hartebeest_mr_attr), target :: region
    type(hartebeest_qp_attr), target :: request_of_qp
    type(hartebeest_path), target :: path
    type(hartebeest_event), target :: event
    type(hartebeest_remote_mr), target :: remote_mr
    type(hartebeest_remote_qp), target :: remote_qp
    type(hartebeest_ud_address), target :: address
    type(hartebeest_pair), target :: pair
    type(hartebeest_msg_attr), target :: msg_attr
    type(hartebeest_message), target :: message
    type(hartebeest_client), target :: request
    type(hartebeest_mesh_attr), target :: attr
    type(hartebeest_mesh_stats), target :: stats

    count = 0
    call add(offset(c_loc(mr%rkey), c_loc(mr)))
    call add(c_sizeof(wc))
    call add(offset(c_loc(wc%status), c_loc(wc)))
    call add(offset(c_loc(wc%qp_num), c_loc(wc)))
    call add(offset(c_loc(wc%wc_flags), c_loc(wc)))
    call add(offset(c_loc(wc%dlid_path_bits), c_loc(wc)))
    call add(c_sizeof(cap))
    call add(offset(c_loc(cap%max_inline_data), c_loc(cap)))
    call add(c_sizeof(cq))
    call add(offset(c_loc(cq%comp_vector), c_loc(cq)))
    call add(offset(c_loc(cq%cq_context), c_loc(cq)))
    call add(c_sizeof(srq))
    call add(offset(c_loc(srq%max_sge), c_loc(srq)))
    call add(c_sizeof(region))
    call add(offset(c_loc(region%dmabuf_fd), c_loc(region)))
    call add(offset(c_loc(region%dmabuf_iova), c_loc(region)))
    call add(c_sizeof(request_of_qp))
    call add(offset(c_loc(request_of_qp%sq_sig_all), c_loc(request_of_qp)))
    call add(c_sizeof(path))
    call add(offset(c_loc(path%flow_label), c_loc(path)))
    call add(offset(c_loc(path%life_time), c_loc(path)))
    call add(c_sizeof(event))
    call add(offset(c_loc(event%text), c_loc(event)))
    call add(c_sizeof(remote_mr))
    call add(offset(c_loc(remote_mr%access), c_loc(remote_mr)))
    call add(c_sizeof(remote_qp))
    call add(offset(c_loc(remote_qp%rank), c_loc(remote_qp)))
    call add(c_sizeof(address))
    call add(offset(c_loc(address%qkey), c_loc(address)))
    call add(c_sizeof(pair))
    call add(offset(c_loc(pair%result), c_loc(pair)))
    call add(offset(c_loc(pair%reason), c_loc(pair)))
    call add(c_sizeof(msg_attr))
    call add(offset(c_loc(msg_attr%flags), c_loc(msg_attr)))
    call add(c_sizeof(message))
    call add(offset(c_loc(message%result), c_loc(message)))
    call add(c_sizeof(request))
    call add(offset(c_loc(request%data), c_loc(request)))
    call add(offset(c_loc(request%reserved), c_loc(request)))
    call add(c_sizeof(attr))
    call add(offset(c_loc(attr%cap), c_loc(attr)))
    call add(offset(c_loc(attr%gather), c_loc(attr)))
    call add(offset(c_loc(attr%refill_data), c_loc(attr)))
    call add(c_sizeof(stats))
    call add(offset(c_loc(stats%reserved), c_loc(stats)))

  contains

    subroutine add(number)
      integer(c_size_t), intent(in) :: number

      count = count + 1
      if (count <= room) numbers(count) = number
    end subroutine add

    function offset(member, whole)
      type(c_ptr), intent(in) :: member, whole
      integer(c_size_t) :: offset

      offset = transfer(member, 0_c_size_t) - transfer(whole, 0_c_size_t)
    end function offset
  end function fortran_layout

  ! The structs that Fortran's init functions make, as C sees them.
  subroutine fortran_inits(pair, message, attr, request, cq, srq, mr) bind(c)
    type(hartebeest_pair), intent(out) :: pair
    type(hartebeest_message), intent(out) :: message
    type(hartebeest_mesh_attr), intent(out) :: attr
    type(hartebeest_qp_attr), intent(out) :: request
    type(hartebeest_cq_attr), intent(out) :: cq
    type(hartebeest_srq_attr), intent(out) :: srq
    type(hartebeest_mr_attr), intent(out) :: mr

    call hartebeest_pair_init(pair)
    call hartebeest_message_init(message)
    call hartebeest_mesh_attr_init(attr)
    call hartebeest_qp_attr_init(request)
    call hartebeest_cq_attr_init(cq)
    call hartebeest_srq_attr_init(srq)
    call hartebeest_mr_attr_init(mr)
  end subroutine fortran_inits
end module fortran_types
