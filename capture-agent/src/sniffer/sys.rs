//! A raw packet queue pair with a sniffer flow, through libibverbs.
//!
//! The crate `rdma-mummy-sys` loads libibverbs at run time, so it is not needed to build or to
//! start the program. It is `unsafe`, because it is C and the device writes into memory of this
//! process:
//!
//! - Each object of the library is owned by an [`Owned`], which frees it. The fields of [`Sniffer`]
//!   are in the order in which the library requires them to be freed.
//! - The memory of the buffers is held by pointer while it is registered. References exist only to
//!   buffers that the device does not have. `posted` tracks these, and [`Sniffer::post`] takes
//!   `&mut self`, so no reference is left by then.
//! - Buffer numbers in work completions are checked before use.

use super::ring::{Device, Filled, Outcome};
use core::ffi::{CStr, c_int};
use core::mem::zeroed;
use core::ptr::{NonNull, null_mut};
use core::time::Duration;
use memmap2::{MmapMut, MmapRaw};
use rdma_mummy_sys as sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Size of a buffer in bytes, enough for a jumbo frame. RoCE packets have at most 4096 bytes of
/// payload.
const SIZE: usize = 10_240;
/// Maximum number of work completions to poll at once.
const COMPLETIONS: usize = 32;

/// The reason why the sniffer cannot be opened.
#[derive(Debug)]
pub(super) enum Failure {
    /// The devices cannot be listed.
    NoList(io::Error),
    /// No device has this name. Contains the names of the existing devices.
    NoDevice(Vec<String>),
    /// The port is an InfiniBand port.
    NotEthernet,
    /// The memory cannot be registered.
    Memory { bytes: usize, error: io::Error },
    /// Another operation failed.
    Step { step: &'static str, error: io::Error },
}

fn failed(step: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Step { step, error }
}

/// An object of the library and the function that frees it.
struct Owned<T> {
    pointer: NonNull<T>,
    free: fn(*mut T) -> c_int,
}

impl<T> Owned<T> {
    /// Takes the result of a library call. Null means that the call failed and set errno.
    fn new(pointer: *mut T, free: fn(*mut T) -> c_int) -> io::Result<Owned<T>> {
        NonNull::new(pointer).map(|pointer| Owned { pointer, free }).ok_or_else(io::Error::last_os_error)
    }

    fn pointer(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // A confined process may not be allowed to free it. The kernel does so when the process
        // ends.
        let _status = (self.free)(self.pointer());
    }
}

/// Checks the result of a library call: 0 or an errno.
fn check(errno: c_int) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

/// Memory that the device may write to.
struct Buffers {
    region: NonNull<sys::ibv_mr>,
    /// Present until it is deregistered.
    memory: Option<MmapRaw>,
}

impl Buffers {
    fn new(domain: &Owned<sys::ibv_pd>, bytes: usize) -> io::Result<Buffers> {
        let memory = MmapRaw::from(MmapMut::map_anon(bytes)?);
        let access = sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 as c_int;
        // SAFETY: the domain exists, and the memory exists until it is deregistered.
        let region = unsafe { sys::ibv_reg_mr(domain.pointer(), memory.as_mut_ptr().cast(), bytes, access) };
        let region = NonNull::new(region).ok_or_else(io::Error::last_os_error)?;
        Ok(Buffers { region, memory: Some(memory) })
    }

    /// Returns the address of a buffer.
    fn at(&self, buffer: u32) -> *mut u8 {
        let start = self.memory.as_ref().map_or(null_mut(), MmapRaw::as_mut_ptr);
        start.wrapping_add(buffer as usize * SIZE)
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the memory is registered. If deregistration fails, the device may still write, so
        // the memory is leaked.
        if unsafe { sys::ibv_dereg_mr(self.region.as_ptr()) } != 0 {
            core::mem::forget(self.memory.take());
        }
    }
}

/// A queue pair that receives copies of the packets that a device port sends and receives.
pub(super) struct Sniffer {
    flow: Option<Owned<sys::ibv_flow>>,
    queue_pair: Owned<sys::ibv_qp>,
    buffers: Buffers,
    completions: Owned<sys::ibv_cq>,
    channel: Owned<sys::ibv_comp_channel>,
    _domain: Owned<sys::ibv_pd>,
    context: Owned<sys::ibv_context>,
    port: u8,
    /// True for each buffer that the device has.
    posted: Vec<bool>,
    /// Buffers that were polled before waiting.
    ahead: Vec<Filled>,
    /// The device's counter of packets without a buffer. Opened at the start, because a confined
    /// process cannot open it.
    counter: Option<File>,
}

impl Sniffer {
    /// Opens a device and creates the queue pair, with `bytes` of buffers as far as the queue pair
    /// has room for them. No packets arrive before [`Sniffer::begin`].
    pub(super) fn open(name: &str, port: u8, bytes: usize) -> Result<Sniffer, Failure> {
        let context = device(name)?;
        // SAFETY: the context exists. The call writes the attributes, which are integers and valid
        // as zeros.
        let (limits, link_layer) = unsafe {
            let (mut device, mut attributes): (sys::ibv_device_attr, sys::ibv_port_attr) =
                (zeroed(), zeroed());
            check(sys::ibv_query_device(context.pointer(), &mut device)).map_err(failed("device"))?;
            check(sys::ibv_query_port(context.pointer(), port, &mut attributes)).map_err(failed("port"))?;
            ([device.max_qp_wr, device.max_cqe], attributes.link_layer)
        };
        // IBV_LINK_LAYER_INFINIBAND.
        if link_layer == 1 {
            return Err(Failure::NotEthernet);
        }
        let most = limits.map(|limit| usize::try_from(limit).unwrap_or(1)).into_iter().min().unwrap_or(1);
        let count = (bytes / SIZE).clamp(1, most.max(1));
        // SAFETY: each call gets objects created before that still exist, and attributes that are
        // integers and valid as zeros.
        unsafe {
            let domain = Owned::new(sys::ibv_alloc_pd(context.pointer()), |it| sys::ibv_dealloc_pd(it))
                .map_err(failed("protection domain"))?;
            let channel = sys::ibv_create_comp_channel(context.pointer());
            let channel = Owned::new(channel, |it| sys::ibv_destroy_comp_channel(it))
                .map_err(failed("completion channel"))?;
            rustix::io::ioctl_fionbio(BorrowedFd::borrow_raw(channel.pointer.as_ref().fd), true)
                .map_err(|errno| failed("completion channel")(errno.into()))?;
            let completions =
                sys::ibv_create_cq(context.pointer(), count as c_int, null_mut(), channel.pointer(), 0);
            let completions =
                Owned::new(completions, |it| sys::ibv_destroy_cq(it)).map_err(failed("completion queue"))?;
            let mut attributes: sys::ibv_qp_init_attr = zeroed();
            attributes.send_cq = completions.pointer();
            attributes.recv_cq = completions.pointer();
            attributes.cap.max_recv_wr = count as u32;
            attributes.cap.max_recv_sge = 1;
            attributes.qp_type = sys::ibv_qp_type::IBV_QPT_RAW_PACKET;
            let queue_pair = sys::ibv_create_qp(domain.pointer(), &mut attributes);
            let queue_pair = Owned::new(queue_pair, |it| sys::ibv_destroy_qp(it))
                .map_err(failed("raw packet queue pair"))?;
            let (state, of_port) =
                (sys::ibv_qp_attr_mask::IBV_QP_STATE.0, sys::ibv_qp_attr_mask::IBV_QP_PORT.0);
            let mut attributes: sys::ibv_qp_attr = zeroed();
            attributes.qp_state = sys::ibv_qp_state::IBV_QPS_INIT;
            attributes.port_num = port;
            check(sys::ibv_modify_qp(queue_pair.pointer(), &mut attributes, (state | of_port) as c_int))
                .map_err(failed("raw packet queue pair, to INIT"))?;
            let mut attributes: sys::ibv_qp_attr = zeroed();
            attributes.qp_state = sys::ibv_qp_state::IBV_QPS_RTR;
            check(sys::ibv_modify_qp(queue_pair.pointer(), &mut attributes, state as c_int))
                .map_err(failed("raw packet queue pair, to RTR"))?;
            let buffers = Buffers::new(&domain, count * SIZE)
                .map_err(|error| Failure::Memory { bytes: count * SIZE, error })?;
            let counter = format!("/sys/class/infiniband/{name}/ports/{port}/hw_counters/out_of_buffer");
            Ok(Sniffer {
                flow: None,
                queue_pair,
                buffers,
                completions,
                channel,
                _domain: domain,
                context,
                port,
                posted: vec![false; count],
                ahead: Vec::new(),
                counter: File::open(counter).ok(),
            })
        }
    }

    /// Starts the flow of packets.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        // SAFETY: the queue pair exists. The attributes are integers, valid as zeros, and no
        // specifications follow them.
        let flow = unsafe {
            let mut attributes: sys::ibv_flow_attr = zeroed();
            attributes.type_ = sys::ibv_flow_attr_type::IBV_FLOW_ATTR_SNIFFER;
            attributes.size = size_of::<sys::ibv_flow_attr>() as u16;
            attributes.port = self.port;
            Owned::new(sys::ibv_create_flow(self.queue_pair.pointer(), &mut attributes), |it| {
                sys::ibv_destroy_flow(it)
            })
        };
        self.flow = Some(flow?);
        Ok(())
    }

    /// Polls up to [`COMPLETIONS`] work completions.
    fn completed(&mut self, filled: &mut Vec<Filled>) -> io::Result<()> {
        // SAFETY: the queue exists. The call writes at most the requested number of completions
        // into an array of integers, which are valid as zeros.
        let (found, completions) = unsafe {
            let mut completions: [sys::ibv_wc; COMPLETIONS] = zeroed();
            let most = COMPLETIONS as c_int;
            (sys::ibv_poll_cq(self.completions.pointer(), most, completions.as_mut_ptr()), completions)
        };
        let found =
            usize::try_from(found).map_err(|_| io::Error::other("the completion queue cannot be polled"))?;
        for completion in completions.iter().take(found) {
            // Only a posted buffer can complete, and only once.
            let buffer = u32::try_from(completion.wr_id).ok();
            let has = buffer.and_then(|buffer| Some((buffer, self.posted.get_mut(buffer as usize)?)));
            let Some((buffer, posted @ true)) = has else {
                return Err(io::Error::other("a work completion for an unknown buffer"));
            };
            *posted = false;
            use sys::ibv_wc_status as status;
            let outcome = match completion.status {
                status::IBV_WC_SUCCESS => Outcome::Packet(completion.byte_len.min(SIZE as u32)),
                status::IBV_WC_LOC_LEN_ERR => Outcome::TooLong,
                status => Outcome::Failed(status),
            };
            filled.push(Filled { buffer, outcome });
        }
        Ok(())
    }
}

/// Opens the device with this name.
fn device(name: &str) -> Result<Owned<sys::ibv_context>, Failure> {
    let mut count = 0;
    // SAFETY: the call returns the length of the list, and devices are used before the list is
    // freed. A context outlives the list.
    unsafe {
        let list = sys::ibv_get_device_list(&mut count);
        let list = NonNull::new(list).ok_or_else(|| Failure::NoList(io::Error::last_os_error()))?;
        let devices = core::slice::from_raw_parts(list.as_ptr(), usize::try_from(count).unwrap_or(0));
        let name_of = |device: &*mut sys::ibv_device| {
            let name = sys::ibv_get_device_name(*device);
            if name.is_null() { String::new() } else { CStr::from_ptr(name).to_string_lossy().into_owned() }
        };
        let names: Vec<String> = devices.iter().map(name_of).collect();
        let context = match names.iter().position(|one| one == name) {
            None => Err(Failure::NoDevice(names)),
            Some(at) => Owned::new(sys::ibv_open_device(devices[at]), |it| sys::ibv_close_device(it))
                .map_err(failed("open")),
        };
        sys::ibv_free_device_list(list.as_ptr());
        context
    }
}

impl Device for Sniffer {
    fn buffers(&self) -> u32 {
        self.posted.len() as u32
    }

    fn size(&self) -> u32 {
        SIZE as u32
    }

    fn post(&mut self, buffers: &[u32]) -> io::Result<()> {
        // SAFETY: the memory is registered.
        let key = unsafe { self.buffers.region.as_ref() }.lkey;
        for batch in buffers.chunks(COMPLETIONS) {
            // SAFETY: both types are valid as zeros, including their pointers, which are not
            // dereferenced.
            let (mut requests, mut elements): ([sys::ibv_recv_wr; COMPLETIONS], [sys::ibv_sge; COMPLETIONS]) =
                unsafe { (zeroed(), zeroed()) };
            for (at, buffer) in batch.iter().enumerate() {
                let Some(posted @ false) = self.posted.get_mut(*buffer as usize) else {
                    return Err(io::ErrorKind::InvalidInput.into());
                };
                *posted = true;
                let start = self.buffers.at(*buffer);
                elements[at] = sys::ibv_sge { addr: start as usize as u64, length: SIZE as u32, lkey: key };
                requests[at].wr_id = u64::from(*buffer);
                requests[at].num_sge = 1;
            }
            let (requests, elements) = (requests.as_mut_ptr(), elements.as_mut_ptr());
            let mut bad = null_mut();
            // SAFETY: both arrays have at least as many entries as `batch`, and the library copies
            // them before it returns. The last request has no successor.
            unsafe {
                for at in 0..batch.len() {
                    (*requests.add(at)).sg_list = elements.add(at);
                    if at + 1 < batch.len() {
                        (*requests.add(at)).next = requests.add(at + 1);
                    }
                }
                check(sys::ibv_post_recv(self.queue_pair.pointer(), requests, &mut bad))?;
            }
        }
        Ok(())
    }

    fn poll(&mut self, filled: &mut Vec<Filled>) -> io::Result<()> {
        if self.ahead.is_empty() {
            return self.completed(filled);
        }
        filled.append(&mut self.ahead);
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        let mut ahead = core::mem::take(&mut self.ahead);
        // SAFETY: queue and channel exist. Each event is acknowledged after it was received.
        unsafe {
            check(sys::ibv_req_notify_cq(self.completions.pointer(), 0))?;
            // Completions before the request for notification cause no event.
            let polled = self.completed(&mut ahead);
            self.ahead = ahead;
            polled?;
            if !self.ahead.is_empty() {
                return Ok(());
            }
            let descriptor = BorrowedFd::borrow_raw(self.channel.pointer.as_ref().fd);
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            match poll(&mut polled, Timespec::try_from(time).ok().as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            let (mut queue, mut context) = (null_mut(), null_mut());
            // The channel is non-blocking, so the loop ends.
            while sys::ibv_get_cq_event(self.channel.pointer(), &mut queue, &mut context) == 0 {
                sys::ibv_ack_cq_events(queue, 1);
            }
        }
        Ok(())
    }

    fn bytes(&self, buffer: u32, length: u32) -> &[u8] {
        let length = (length as usize).min(SIZE);
        match self.posted.get(buffer as usize) {
            // SAFETY: the buffer is within the memory and has at least `length` initialized bytes.
            // The device does not have it, so it is not written while `self` is borrowed.
            Some(false) => unsafe { core::slice::from_raw_parts(self.buffers.at(buffer), length) },
            _ => &[],
        }
    }

    fn shortages(&mut self) -> Option<u64> {
        let mut text = [0; 32];
        let length = self.counter.as_ref()?.read_at(&mut text, 0).ok()?;
        core::str::from_utf8(&text[..length]).ok()?.trim().parse().ok()
    }
}

impl core::fmt::Debug for Sniffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sniffer").field("context", &self.context.pointer).finish_non_exhaustive()
    }
}
