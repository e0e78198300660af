//! Verbs and the kernel's RDMA connection manager, by the C libraries: the only `unsafe` code of
//! this crate.
//!
//! The crate `rdma-mummy-sys` loads libibverbs and librdmacm at run time, so neither is needed to
//! build or start the program. Of the safe crates, `ibverbs` 0.9 has no connection manager and
//! starts at PSN 0 regardless of the REQ; `sideway` 0.4 has one, but cannot send or return private
//! data.
//!
//! Safety arguments:
//! - An [`Id`] owns its queue pair, protection domain and memory, and frees them in the required
//!   order. No pointer into it leaves this file.
//! - Memory that the device may write ([`Pinned`]) is held by a raw pointer while it is registered.
//!   No reference to it exists; it is accessed by copying.
//! - The memory of a posted operation is kept until its completion was polled or the queue pair is
//!   destroyed.
#![allow(unsafe_code)]

use super::address::Address;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use core::net::SocketAddr;
use core::ptr::{NonNull, null, null_mut};
use core::time::Duration;
use rdma_mummy_sys as sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Converts the result of a C function that returns 0, or -1 with errno.
fn check(status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

/// Converts the result of a C function that returns a pointer, or null with errno.
fn found<T>(pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(Error::last_os_error)
}

/// Converts the result of a C function that returns 0 or an errno.
fn no_error(errno: c_int) -> Result<()> {
    if errno == 0 { Ok(()) } else { Err(Error::from_raw_os_error(errno)) }
}

/// Waits until a descriptor is readable. Returns false after the time; `None`: no limit.
///
/// # Safety
///
/// All descriptors stay open until it returns.
unsafe fn readable(descriptors: impl Iterator<Item = c_int>, wait: Option<Duration>) -> Result<bool> {
    // Safety: as above.
    let descriptors: Vec<_> = descriptors.map(|one| unsafe { BorrowedFd::borrow_raw(one) }).collect();
    let mut polled: Vec<_> = descriptors.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect();
    // Without a representable time, wait without limit.
    let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
    match poll(&mut polled, wait.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns whether the descriptor is readable now.
///
/// # Safety
///
/// The descriptor stays open until it returns.
unsafe fn is_readable(descriptor: c_int) -> Result<bool> {
    // Safety: as above.
    unsafe { readable(core::iter::once(descriptor), Some(Duration::ZERO)) }
}

/// An event of the connection manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CmEvent {
    /// The number of its [`Id`].
    pub(super) number: u32,
    pub(super) kind: CmEventKind,
    /// A negative errno, or the reason of a REJ.
    pub(super) status: i32,
    /// The private data of the REP or REJ, with the padding of the message.
    pub(super) private_data: Vec<u8>,
    /// READs that this side may have outstanding, from the REP.
    pub(super) depth: u8,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CmEventKind {
    AddressResolved,
    RouteResolved,
    Unresolved,
    Established,
    Rejected,
    Unreachable,
    Disconnected,
    /// An event that needs no action.
    Other,
}

/// The event channel of the connection manager.
pub(super) struct Channel(NonNull<sys::rdma_event_channel>);

impl Channel {
    pub(super) fn new() -> Result<Channel> {
        // Safety: no argument.
        let channel = found(unsafe { sys::rdma_create_event_channel() }).map(Channel)?;
        // The library filters some events and would block for the next one although the channel was
        // readable.
        // Safety: the channel exists.
        rustix::io::ioctl_fionbio(unsafe { BorrowedFd::borrow_raw(channel.descriptor()) }, true)?;
        Ok(channel)
    }

    fn descriptor(&self) -> c_int {
        // Safety: the channel exists until it is dropped.
        unsafe { self.0.as_ref() }.fd
    }

    /// Returns the next pending event.
    pub(super) fn poll(&self) -> Result<Option<CmEvent>> {
        let mut event = null_mut();
        // Safety: the channel exists; the event is used only before it is acknowledged.
        unsafe {
            match check(sys::rdma_get_cm_event(self.0.as_ptr(), &mut event)) {
                Err(none) if none.kind() == std::io::ErrorKind::WouldBlock => return Ok(None),
                taken => taken?,
            }
            let cm_event = &*event;
            use sys::rdma_cm_event_type as event_type;
            let kind = match cm_event.event {
                event_type::RDMA_CM_EVENT_ADDR_RESOLVED => CmEventKind::AddressResolved,
                event_type::RDMA_CM_EVENT_ROUTE_RESOLVED => CmEventKind::RouteResolved,
                event_type::RDMA_CM_EVENT_ADDR_ERROR | event_type::RDMA_CM_EVENT_ROUTE_ERROR => {
                    CmEventKind::Unresolved
                }
                event_type::RDMA_CM_EVENT_ESTABLISHED => CmEventKind::Established,
                event_type::RDMA_CM_EVENT_REJECTED => CmEventKind::Rejected,
                event_type::RDMA_CM_EVENT_UNREACHABLE | event_type::RDMA_CM_EVENT_CONNECT_ERROR => {
                    CmEventKind::Unreachable
                }
                event_type::RDMA_CM_EVENT_DISCONNECTED | event_type::RDMA_CM_EVENT_DEVICE_REMOVAL => {
                    CmEventKind::Disconnected
                }
                _ => CmEventKind::Other,
            };
            let carries = matches!(kind, CmEventKind::Established | CmEventKind::Rejected);
            let data = cm_event.param.conn;
            let private_data = match (carries, data.private_data.is_null()) {
                (true, false) => {
                    core::slice::from_raw_parts(data.private_data.cast::<u8>(), data.private_data_len.into())
                        .to_vec()
                }
                _ => Vec::new(),
            };
            // The context is the number, not a pointer.
            let number = (*cm_event.id).context as usize as u32;
            let status = cm_event.status;
            let depth = if kind == CmEventKind::Established { data.initiator_depth } else { 0 };
            check(sys::rdma_ack_cm_event(event))?;
            Ok(Some(CmEvent { number, kind, status, private_data, depth }))
        }
    }

    /// Waits for an event of the connection manager, a completion or device event of these
    /// connections, or until `woken` is readable.
    pub(super) fn wait<'a>(
        &self,
        ids: impl Iterator<Item = &'a Id>,
        woken: &UnixStream,
        wait: Option<Duration>,
    ) -> Result<()> {
        let own = [self.descriptor(), woken.as_raw_fd()];
        // Safety: the owners are borrowed.
        unsafe { readable(own.into_iter().chain(ids.flat_map(Id::descriptors)), wait).map(|_| ()) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // Safety: every `Id` is dropped before, because the driver holds them together and drops
        // them first.
        unsafe { sys::rdma_destroy_event_channel(self.0.as_ptr()) }
    }
}

/// Memory that is registered with a device while this value exists.
pub(super) struct Pinned {
    mr: NonNull<sys::ibv_mr>,
    bytes: *mut [u8],
}

impl Pinned {
    /// # Safety
    ///
    /// The protection domain outlives the returned value.
    unsafe fn new(pd: NonNull<sys::ibv_pd>, bytes: Vec<u8>, access: u32) -> Result<Pinned> {
        // A device may refuse a length of 0.
        let bytes = if bytes.is_empty() { alloc::vec![0] } else { bytes };
        let bytes = Box::into_raw(bytes.into_boxed_slice());
        // Safety: the bytes exist until `drop` has ended the registration.
        let mr = found(unsafe { sys::ibv_reg_mr(pd.as_ptr(), bytes.cast(), bytes.len(), access as c_int) });
        match mr {
            Ok(mr) => Ok(Pinned { mr, bytes }),
            Err(error) => {
                // Safety: this is the box from above, and no device uses it.
                drop(unsafe { Box::from_raw(bytes) });
                Err(error)
            }
        }
    }

    pub(super) fn rkey(&self) -> u32 {
        // Safety: the memory is registered.
        unsafe { self.mr.as_ref() }.rkey
    }

    pub(super) fn address(&self) -> u64 {
        self.bytes.cast::<u8>() as usize as u64
    }

    /// Returns a copy of the first `length` bytes.
    pub(super) fn copy(&self, length: usize) -> Vec<u8> {
        let mut out = alloc::vec![0; length.min(self.bytes.len())];
        // Safety: both have this length; the source lives as long as `self`.
        unsafe { core::ptr::copy(self.bytes.cast::<u8>(), out.as_mut_ptr(), out.len()) };
        out
    }

    /// Copies bytes to the start, as far as they fit.
    pub(super) fn fill(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(self.bytes.len());
        // Safety: both have this length; the destination lives as long as `self`.
        unsafe { core::ptr::copy(bytes.as_ptr(), self.bytes.cast::<u8>(), length) };
    }

    fn element(&self, length: usize) -> sys::ibv_sge {
        // Safety: the memory is registered.
        let lkey = unsafe { self.mr.as_ref() }.lkey;
        sys::ibv_sge { addr: self.address(), length: length as u32, lkey }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Safety: `new` registered it, and the box is the one from `new`. If the registration
        // cannot be ended, a device may still use the memory, so it is leaked.
        unsafe {
            if sys::ibv_dereg_mr(self.mr.as_ptr()) == 0 {
                drop(Box::from_raw(self.bytes));
            }
        }
    }
}

/// An operation for the send queue.
pub(super) enum Post {
    Send { bytes: Vec<u8>, invalidate: Option<u32>, immediate: Option<u32>, solicited: bool },
    Write { bytes: Vec<u8>, rkey: u32, address: u64, immediate: Option<u32> },
    Read { length: usize, rkey: u32, address: u64 },
}

/// The end of an operation or a Receive.
pub(super) struct Completion {
    pub(super) work: u64,
    /// An `ibv_wc_status`.
    pub(super) status: u32,
    /// The data of a Receive or a READ.
    pub(super) bytes: Vec<u8>,
    /// Whether a WRITE with immediate data consumed the Receive, which then holds no data.
    pub(super) is_write: bool,
    pub(super) immediate: Option<u32>,
    pub(super) invalidated: Option<u32>,
}

/// A connection of the connection manager, with its queue pair once the route is resolved.
pub(super) struct Id {
    id: NonNull<sys::rdma_cm_id>,
    pd: Option<NonNull<sys::ibv_pd>>,
    /// The memory of posted operations, by number.
    posted: BTreeMap<u64, Pinned>,
}

impl Id {
    /// Creates a connection. Its events carry `number`.
    pub(super) fn new(channel: &Channel, number: u32) -> Result<Id> {
        let mut id = null_mut();
        // Safety: the channel exists; the context is a number that is never dereferenced.
        unsafe {
            let context = number as usize as *mut core::ffi::c_void;
            check(sys::rdma_create_id(
                channel.0.as_ptr(),
                &mut id,
                context,
                sys::rdma_port_space::RDMA_PS_TCP,
            ))?;
        }
        Ok(Id { id: found(id)?, pd: None, posted: BTreeMap::new() })
    }

    /// Resolves the device. [`CmEventKind::AddressResolved`] follows.
    pub(super) fn resolve_address(
        &self,
        local: SocketAddr,
        remote: SocketAddr,
        wait: Duration,
    ) -> Result<()> {
        let (mut local, mut remote) = (Address::from(local), Address::from(remote));
        // Safety: both addresses have the length of their family.
        check(unsafe {
            sys::rdma_resolve_addr(
                self.id.as_ptr(),
                local.pointer(),
                remote.pointer(),
                wait.as_millis() as c_int,
            )
        })
    }

    /// Resolves the route. [`CmEventKind::RouteResolved`] follows.
    pub(super) fn resolve_route(&self, wait: Duration) -> Result<()> {
        // Safety: the ID exists.
        check(unsafe { sys::rdma_resolve_route(self.id.as_ptr(), wait.as_millis() as c_int) })
    }

    /// Returns the name of the device once the address is resolved.
    pub(super) fn device(&self) -> Option<String> {
        // Safety: the ID exists, and with it its device.
        unsafe {
            let verbs = self.id.as_ref().verbs.as_ref()?;
            let name = sys::ibv_get_device_name(verbs.device);
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// Creates the queue pair with this capacity.
    pub(super) fn create_queue_pair(&mut self, operations: u32, receives: u32) -> Result<()> {
        // Safety: the device exists; fields that are 0 request separate completion queues.
        unsafe {
            let pd = found(sys::ibv_alloc_pd(self.id.as_ref().verbs))?;
            self.pd = Some(pd);
            let mut attributes: sys::ibv_qp_init_attr = core::mem::zeroed();
            attributes.cap = sys::ibv_qp_cap {
                max_send_wr: operations,
                max_recv_wr: receives,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            };
            attributes.qp_type = sys::ibv_qp_type::IBV_QPT_RC;
            attributes.sq_sig_all = 1;
            check(sys::rdma_create_qp(self.id.as_ptr(), pd.as_ptr(), &mut attributes))?;
            for queue in [self.id.as_ref().send_cq, self.id.as_ref().recv_cq] {
                no_error(sys::ibv_req_notify_cq(queue, 0))?;
            }
        }
        Ok(())
    }

    /// Sends the REQ.
    pub(super) fn connect(&self, private_data: &[u8], depth: u8) -> Result<()> {
        let mut parameters = sys::rdma_conn_param {
            private_data: if private_data.is_empty() { null() } else { private_data.as_ptr().cast() },
            private_data_len: private_data.len() as u8,
            responder_resources: depth,
            initiator_depth: depth,
            flow_control: 0,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: 0,
            qp_num: 0,
        };
        // Safety: the private data are copied before it returns.
        check(unsafe { sys::rdma_connect(self.id.as_ptr(), &mut parameters) })
    }

    /// Sends the DREQ or the DREP.
    pub(super) fn disconnect(&self) -> Result<()> {
        // Safety: the ID exists.
        check(unsafe { sys::rdma_disconnect(self.id.as_ptr()) })
    }

    /// Registers memory with the device for remote read or write access.
    pub(super) fn register(&self, bytes: Vec<u8>, read: bool, write: bool) -> Result<Pinned> {
        let write_access =
            sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE | sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE;
        let access = [(read, sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0), (write, write_access.0)];
        self.pin(bytes, access.iter().filter(|one| one.0).map(|one| one.1).sum())
    }

    fn pin(&self, bytes: Vec<u8>, access: u32) -> Result<Pinned> {
        let pd = self.pd.ok_or(Error::from(std::io::ErrorKind::NotConnected))?;
        // Safety: the owner of the registration drops it before this; see `Link`.
        unsafe { Pinned::new(pd, bytes, access) }
    }

    fn queue_pair(&self) -> Result<*mut sys::ibv_qp> {
        // Safety: the ID exists.
        let queue_pair = unsafe { self.id.as_ref() }.qp;
        if queue_pair.is_null() { Err(std::io::ErrorKind::NotConnected.into()) } else { Ok(queue_pair) }
    }

    /// Posts a Receive. Numbers of Receives and operations must be distinct.
    pub(super) fn post_receive(&mut self, work: u64, length: usize) -> Result<()> {
        let queue_pair = self.queue_pair()?;
        let memory = self.pin(alloc::vec![0; length], sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0)?;
        let mut element = memory.element(length);
        let mut request =
            sys::ibv_recv_wr { wr_id: work, next: null_mut(), sg_list: &mut element, num_sge: 1 };
        let mut bad = null_mut();
        // Safety: the request is copied before it returns; the memory is kept until its completion.
        no_error(unsafe { sys::ibv_post_recv(queue_pair, &mut request, &mut bad) })?;
        self.posted.insert(work, memory);
        Ok(())
    }

    /// Posts an operation.
    pub(super) fn post(&mut self, work: u64, post: Post) -> Result<()> {
        use sys::ibv_wr_opcode as code;
        let queue_pair = self.queue_pair()?;
        let none = sys::imm_data_invalidated_rkey_union_t { imm_data: 0 };
        let with = |immediate: Option<u32>| {
            immediate.map_or(none, |data| sys::imm_data_invalidated_rkey_union_t { imm_data: data.to_be() })
        };
        let (mut flags, mut access) = (0, 0);
        let (bytes, opcode, extra, remote) = match post {
            Post::Send { bytes, invalidate: Some(rkey), .. } => {
                let extra = sys::imm_data_invalidated_rkey_union_t { invalidated_rkey: rkey };
                (bytes, code::IBV_WR_SEND_WITH_INV, extra, (0, 0))
            }
            Post::Send { bytes, immediate, solicited, .. } => {
                flags = if solicited { sys::ibv_send_flags::IBV_SEND_SOLICITED.0 } else { 0 };
                let opcode = if immediate.is_some() { code::IBV_WR_SEND_WITH_IMM } else { code::IBV_WR_SEND };
                (bytes, opcode, with(immediate), (0, 0))
            }
            Post::Write { bytes, rkey, address, immediate } => {
                let opcode = if immediate.is_some() {
                    code::IBV_WR_RDMA_WRITE_WITH_IMM
                } else {
                    code::IBV_WR_RDMA_WRITE
                };
                (bytes, opcode, with(immediate), (address, rkey))
            }
            Post::Read { length, rkey, address } => {
                access = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
                (alloc::vec![0; length], code::IBV_WR_RDMA_READ, none, (address, rkey))
            }
        };
        let length = bytes.len();
        let memory = self.pin(bytes, access)?;
        let mut element = memory.element(length);
        // Safety: all fields of a request may be 0.
        let mut request: sys::ibv_send_wr = unsafe { core::mem::zeroed() };
        request.wr_id = work;
        request.sg_list = &mut element;
        request.num_sge = c_int::from(length > 0);
        request.opcode = opcode;
        request.send_flags = flags | sys::ibv_send_flags::IBV_SEND_SIGNALED.0;
        request.imm_data_invalidated_rkey_union = extra;
        request.wr = sys::wr_t { rdma: sys::rdma_t { remote_addr: remote.0, rkey: remote.1 } };
        let mut bad = null_mut();
        // Safety: the request is copied before it returns; the memory is kept until its completion.
        no_error(unsafe { sys::ibv_post_send(queue_pair, &mut request, &mut bad) })?;
        self.posted.insert(work, memory);
        Ok(())
    }

    /// Returns the next completion.
    pub(super) fn poll(&mut self) -> Option<Completion> {
        // Safety: the ID exists, and its queues exist while the queue pair does; a completion is
        // read only if one was written.
        unsafe {
            let id = self.id.as_ref();
            for queue in [id.send_cq, id.recv_cq] {
                let mut completion: sys::ibv_wc = core::mem::zeroed();
                if queue.is_null() || sys::ibv_poll_cq(queue, 1, &mut completion) != 1 {
                    continue;
                }
                let memory = self.posted.remove(&completion.wr_id);
                let good = completion.status == sys::ibv_wc_status::IBV_WC_SUCCESS;
                let receive = queue == id.recv_cq;
                let is = |opcode| good && completion.opcode == opcode;
                let is_write = receive && is(sys::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM);
                let brought = good && receive && !is_write || is(sys::ibv_wc_opcode::IBV_WC_RDMA_READ);
                let length = completion.byte_len as usize;
                let has = |flag: sys::ibv_wc_flags| good && receive && completion.wc_flags & flag.0 != 0;
                let extra = completion.imm_data_invalidated_rkey_union;
                return Some(Completion {
                    work: completion.wr_id,
                    status: completion.status,
                    bytes: memory.filter(|_| brought).map_or_else(Vec::new, |memory| memory.copy(length)),
                    is_write,
                    immediate: has(sys::ibv_wc_flags::IBV_WC_WITH_IMM).then(|| u32::from_be(extra.imm_data)),
                    invalidated: has(sys::ibv_wc_flags::IBV_WC_WITH_INV).then_some(extra.invalidated_rkey),
                });
            }
        }
        None
    }

    /// Returns the descriptors that become readable for completions or events of the device.
    fn descriptors(&self) -> impl Iterator<Item = c_int> {
        // Safety: the ID exists, and with it everything that it points to.
        let all = unsafe {
            let id = self.id.as_ref();
            let channel = |channel: *mut sys::ibv_comp_channel| channel.as_ref().map(|channel| channel.fd);
            let device = id.verbs.as_ref().map(|verbs| verbs.async_fd);
            [channel(id.recv_cq_channel), channel(id.send_cq_channel), device]
        };
        all.into_iter().flatten()
    }

    /// Consumes completion notifications and requests the next one. Must precede polling the
    /// queues.
    pub(super) fn acknowledge(&self) -> Result<()> {
        // Safety: as in `poll`.
        unsafe {
            let id = self.id.as_ref();
            for (channel, queue) in [(id.recv_cq_channel, id.recv_cq), (id.send_cq_channel, id.send_cq)] {
                let Some(channel) = NonNull::new(channel) else { continue };
                while is_readable(channel.as_ref().fd)? {
                    let (mut of, mut context) = (null_mut(), null_mut());
                    check(sys::ibv_get_cq_event(channel.as_ptr(), &mut of, &mut context))?;
                    sys::ibv_ack_cq_events(of, 1);
                }
                no_error(sys::ibv_req_notify_cq(queue, 0))?;
            }
        }
        Ok(())
    }

    /// Takes the events of the device: the `ibv_event_type`, and the queue pair if the event
    /// belongs to one. The connections of a device share its events, so this returns those of all.
    pub(super) fn device_events(&self) -> Result<Vec<(QueuePair, u32)>> {
        let mut events = Vec::new();
        // Safety: the device exists; an event is acknowledged before anything that it names is
        // freed. The type comes from the kernel and may be unknown to the enumeration, so it is
        // read as a number. The library writes the union member of the type; the rest stays 0.
        unsafe {
            let verbs = self.id.as_ref().verbs;
            let Some(device) = verbs.as_ref() else { return Ok(events) };
            while is_readable(device.async_fd)? {
                let mut event: MaybeUninit<sys::ibv_async_event> = MaybeUninit::zeroed();
                let event = event.as_mut_ptr();
                check(sys::ibv_get_async_event(verbs, event))?;
                let kind = (&raw const (*event).event_type).cast::<u32>().read();
                events.push((QueuePair((*event).element.qp as usize), kind));
                sys::ibv_ack_async_event(event);
            }
        }
        Ok(events)
    }

    /// Returns whether it is the queue pair of this connection.
    pub(super) fn has(&self, queue_pair: QueuePair) -> bool {
        self.queue_pair().is_ok_and(|own| own as usize == queue_pair.0)
    }
}

/// The identity of a queue pair in events. It is compared, never dereferenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuePair(usize);

impl Drop for Id {
    fn drop(&mut self) {
        // Safety: the queue pair is destroyed first, so that nothing uses the memory; then the
        // memory, its protection domain, and the ID.
        unsafe {
            if !self.id.as_ref().qp.is_null() {
                sys::rdma_destroy_qp(self.id.as_ptr());
            }
            self.posted.clear();
            if let Some(pd) = self.pd {
                sys::ibv_dealloc_pd(pd.as_ptr());
            }
            sys::rdma_destroy_id(self.id.as_ptr());
        }
    }
}
