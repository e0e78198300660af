//! A libibverbs with one device, `fake0`, that receives frames from a file. `tests/fake_verbs` runs
//! captures with it.
//!
//! These variables of the environment control it:
//!
//! - `FAKE_FRAMES`: the file. Each frame follows its length (4 bytes, big endian). A length of 0 is
//!   a pause: the frames after it arrive once the program waits.
//! - `FAKE_BUFFERS`: most receive buffers of a queue pair; by default 1000.
//! - `FAKE_LINK`: the link layer of the port; by default 2, Ethernet.
//! - `FAKE_FAILS`: `CALL=ERRNO`, a call that fails.
//! - `FAKE_STATUS`: `NUMBER=STATUS`, the status of a work completion, counted from 1.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::zeroed;
use core::ptr::null_mut;
use rdma_mummy_sys as sys;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The frames to come and the receive buffers.
struct State {
    frames: VecDeque<Vec<u8>>,
    posted: VecDeque<Receive>,
    is_flowing: bool,
    /// Number of work completions.
    completed: u64,
    /// The file descriptor of the completion channel.
    channel: c_int,
}

/// A posted receive buffer.
struct Receive {
    id: u64,
    address: u64,
    length: u32,
}

static STATE: Mutex<State> = Mutex::new(State {
    frames: VecDeque::new(),
    posted: VecDeque::new(),
    is_flowing: false,
    completed: 0,
    channel: -1,
});

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `NAME` and the number of a variable `NAME=NUMBER`, or 0 and its number.
fn variable(name: &str) -> Option<(String, u64)> {
    let text = std::env::var(name).ok()?;
    let (of, number) = text.rsplit_once('=').unwrap_or(("0", &text));
    Some((of.to_owned(), number.parse().ok()?))
}

/// Returns the error that a call has to fail with, or 0.
fn failure(call: &str) -> c_int {
    variable("FAKE_FAILS").filter(|(of, _)| of == call).map_or(0, |(_, errno)| errno as c_int)
}

/// Returns a new object of a zeroed type, or null with errno set if the call has to fail.
fn made<T>(call: &str, fill: impl FnOnce(&mut T)) -> *mut T {
    let errno = failure(call);
    if errno != 0 {
        // SAFETY: errno belongs to this thread.
        unsafe { *libc::__errno_location() = errno };
        return null_mut();
    }
    // SAFETY: the types are C structures of integers and pointers.
    let mut one = Box::new(unsafe { zeroed() });
    fill(&mut one);
    Box::into_raw(one)
}

/// Frees an object that `made` made.
unsafe fn free<T>(pointer: *mut T) -> c_int {
    // SAFETY: by the caller.
    drop(unsafe { Box::from_raw(pointer) });
    0
}

fn frames() -> VecDeque<Vec<u8>> {
    let bytes = std::env::var("FAKE_FRAMES").ok().and_then(|path| std::fs::read(path).ok());
    let (bytes, mut frames) = (bytes.unwrap_or_default(), VecDeque::new());
    let mut rest = &bytes[..];
    while let Some((length, after)) = rest.split_first_chunk() {
        let (frame, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        frames.push_back(frame.to_vec());
        rest = after;
    }
    frames
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut sys::ibv_device {
    let device = made("get_device_list", |_: &mut sys::ibv_device| {});
    if device.is_null() {
        return null_mut();
    }
    // SAFETY: the caller passes a place for the number.
    unsafe { *count = 1 };
    Box::into_raw(Box::new([device, null_mut()])).cast()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_free_device_list(list: *mut *mut sys::ibv_device) {
    // SAFETY: it is the list of `ibv_get_device_list`. The device stays, because a context names it.
    unsafe { free(list.cast::<[*mut sys::ibv_device; 2]>()) };
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_name(_: *mut sys::ibv_device) -> *const c_char {
    c"fake0".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_open_device(device: *mut sys::ibv_device) -> *mut sys::ibv_context {
    state().frames = frames();
    let context = made("open_device", |all: &mut sys::verbs_context| {
        all.sz = size_of::<sys::verbs_context>();
        all.query_port = Some(query_port);
        all.ibv_create_flow = Some(create_flow);
        all.ibv_destroy_flow = Some(destroy_flow);
        all.context.device = device;
        all.context.ops.poll_cq = Some(poll_cq);
        all.context.ops.req_notify_cq = Some(req_notify_cq);
        all.context.ops.post_recv = Some(post_recv);
        // A context within a `verbs_context`.
        all.context.abi_compat = usize::MAX as *mut c_void;
    });
    if context.is_null() {
        return null_mut();
    }
    // SAFETY: `made` returned it.
    unsafe { &raw mut (*context).context }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_close_device(_: *mut sys::ibv_context) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(_: *mut sys::ibv_context, to: *mut sys::ibv_device_attr) -> c_int {
    let buffers = variable("FAKE_BUFFERS").map_or(1000, |(_, buffers)| buffers as c_int);
    // SAFETY: the caller passes a place for the attributes.
    unsafe {
        (*to).max_qp_wr = buffers;
        (*to).max_cqe = 4096;
    }
    failure("query_device")
}

unsafe extern "C" fn query_port(
    _: *mut sys::ibv_context,
    _: u8,
    to: *mut sys::ibv_port_attr,
    _: usize,
) -> c_int {
    // SAFETY: the caller passes a place for the attributes.
    unsafe { (*to).link_layer = variable("FAKE_LINK").map_or(2, |(_, link)| link as u8) };
    failure("query_port")
}

#[unsafe(no_mangle)]
extern "C" fn ibv_alloc_pd(context: *mut sys::ibv_context) -> *mut sys::ibv_pd {
    made("alloc_pd", |domain: &mut sys::ibv_pd| domain.context = context)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(domain: *mut sys::ibv_pd) -> c_int {
    // SAFETY: `ibv_alloc_pd` made it.
    unsafe { free(domain) }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_comp_channel(context: *mut sys::ibv_context) -> *mut sys::ibv_comp_channel {
    made("create_comp_channel", |channel: &mut sys::ibv_comp_channel| {
        channel.context = context;
        // SAFETY: the call has no pointers.
        channel.fd = unsafe { libc::eventfd(0, 0) };
        state().channel = channel.fd;
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut sys::ibv_comp_channel) -> c_int {
    // SAFETY: `ibv_create_comp_channel` made it.
    unsafe { free(channel) }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_create_cq(
    context: *mut sys::ibv_context,
    _: c_int,
    _: *mut c_void,
    channel: *mut sys::ibv_comp_channel,
    _: c_int,
) -> *mut sys::ibv_cq {
    made("create_cq", |queue: &mut sys::ibv_cq| {
        queue.context = context;
        queue.channel = channel;
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_cq(queue: *mut sys::ibv_cq) -> c_int {
    // SAFETY: `ibv_create_cq` made it.
    unsafe { free(queue) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(
    domain: *mut sys::ibv_pd,
    wanted: *mut sys::ibv_qp_init_attr,
) -> *mut sys::ibv_qp {
    // SAFETY: the caller passes objects of this library and the attributes.
    let (context, kind) = unsafe { ((*domain).context, (*wanted).qp_type) };
    assert_eq!(kind, sys::ibv_qp_type::IBV_QPT_RAW_PACKET, "another type of queue pair");
    made("create_qp", |pair: &mut sys::ibv_qp| pair.context = context)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(pair: *mut sys::ibv_qp) -> c_int {
    // SAFETY: `ibv_create_qp` made it.
    unsafe { free(pair) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(pair: *mut sys::ibv_qp, to: *mut sys::ibv_qp_attr, _: c_int) -> c_int {
    // SAFETY: the caller passes objects of this library and the attributes.
    let (before, after) = unsafe { ((*pair).state, (*to).qp_state) };
    let call = match (before, after) {
        (sys::ibv_qp_state::IBV_QPS_RESET, sys::ibv_qp_state::IBV_QPS_INIT) => "modify_qp_to_init",
        (sys::ibv_qp_state::IBV_QPS_INIT, sys::ibv_qp_state::IBV_QPS_RTR) => "modify_qp_to_rtr",
        _ => return libc::EINVAL,
    };
    // SAFETY: as above.
    unsafe { (*pair).state = after };
    failure(call)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr(
    domain: *mut sys::ibv_pd,
    address: *mut c_void,
    length: usize,
    _: c_int,
) -> *mut sys::ibv_mr {
    made("reg_mr", |region: &mut sys::ibv_mr| {
        region.pd = domain;
        region.addr = address;
        region.length = length;
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_reg_mr_iova2(
    domain: *mut sys::ibv_pd,
    address: *mut c_void,
    length: usize,
    _: u64,
    access: c_uint,
) -> *mut sys::ibv_mr {
    ibv_reg_mr(domain, address, length, access as c_int)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(region: *mut sys::ibv_mr) -> c_int {
    // SAFETY: `ibv_reg_mr` made it.
    unsafe { free(region) }
}

unsafe extern "C" fn create_flow(
    pair: *mut sys::ibv_qp,
    wanted: *mut sys::ibv_flow_attr,
) -> *mut sys::ibv_flow {
    // SAFETY: the caller passes objects of this library and the attributes.
    let (context, kind) = unsafe { ((*pair).context, (*wanted).type_) };
    assert_eq!(kind, sys::ibv_flow_attr_type::IBV_FLOW_ATTR_SNIFFER, "another type of flow");
    state().is_flowing = true;
    made("create_flow", |flow: &mut sys::ibv_flow| flow.context = context)
}

unsafe extern "C" fn destroy_flow(flow: *mut sys::ibv_flow) -> c_int {
    // SAFETY: `create_flow` made it.
    unsafe { free(flow) }
}

unsafe extern "C" fn post_recv(
    _: *mut sys::ibv_qp,
    mut request: *mut sys::ibv_recv_wr,
    _: *mut *mut sys::ibv_recv_wr,
) -> c_int {
    let mut state = state();
    // SAFETY: the caller passes a list of requests, each with one element.
    while let Some(one) = unsafe { request.as_ref() } {
        let element = unsafe { &*one.sg_list };
        state.posted.push_back(Receive { id: one.wr_id, address: element.addr, length: element.length });
        request = one.next;
    }
    failure("post_recv")
}

unsafe extern "C" fn poll_cq(_: *mut sys::ibv_cq, most: c_int, to: *mut sys::ibv_wc) -> c_int {
    let mut state = state();
    let mut count = 0;
    while count < most && state.is_flowing {
        let (Some(frame), Some(_)) = (state.frames.front(), state.posted.front()) else { break };
        if frame.is_empty() {
            break;
        }
        let (frame, into) = (state.frames.pop_front(), state.posted.pop_front());
        state.completed += 1;
        // SAFETY: the caller passes an array of `most` entries.
        let completion = unsafe { &mut *to.add(count as usize) };
        (completion.status, completion.byte_len, completion.wr_id) =
            completed(&frame.unwrap_or_default(), into, state.completed);
        count += 1;
    }
    if failure("poll_cq") == 0 { count } else { -1 }
}

/// Writes a frame into a buffer. Returns the status, length and number of the work completion.
fn completed(frame: &[u8], into: Option<Receive>, number: u64) -> (sys::ibv_wc_status::Type, u32, u64) {
    let Some(into) = into else { return (sys::ibv_wc_status::IBV_WC_GENERAL_ERR, 0, 0) };
    let length = frame.len() as u32;
    let wanted = variable("FAKE_STATUS").filter(|(of, _)| *of == number.to_string());
    let status = match wanted {
        Some((_, status)) => status as sys::ibv_wc_status::Type,
        None if length > into.length => sys::ibv_wc_status::IBV_WC_LOC_LEN_ERR,
        None => sys::ibv_wc_status::IBV_WC_SUCCESS,
    };
    if status == sys::ibv_wc_status::IBV_WC_SUCCESS {
        // SAFETY: the buffer is posted and has room for the frame.
        unsafe { core::ptr::copy_nonoverlapping(frame.as_ptr(), into.address as *mut u8, frame.len()) };
    }
    (status, length, into.id)
}

/// Ends a pause of the frames with an event.
unsafe extern "C" fn req_notify_cq(_: *mut sys::ibv_cq, _: c_int) -> c_int {
    let state = state();
    if state.is_flowing && state.frames.front().is_some_and(Vec::is_empty) {
        // SAFETY: the descriptor is that of the channel, and the number has 8 bytes.
        unsafe { libc::write(state.channel, 1u64.to_ne_bytes().as_ptr().cast(), 8) };
    }
    failure("req_notify_cq")
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_cq_event(
    _: *mut sys::ibv_comp_channel,
    _: *mut *mut sys::ibv_cq,
    _: *mut *mut c_void,
) -> c_int {
    let mut state = state();
    let mut number = [0; 8];
    // SAFETY: the descriptor is that of the channel, and the number has 8 bytes.
    let read = unsafe { libc::read(state.channel, number.as_mut_ptr().cast(), 8) };
    if read != 8 {
        return -1;
    }
    state.frames.pop_front();
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_cq_events(_: *mut sys::ibv_cq, _: c_uint) {}
