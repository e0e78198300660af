//! A packet ring shared with the kernel: an AF_PACKET socket with TPACKET_V3 (packet(7); Linux,
//! Documentation/networking/packet_mmap.rst). Packets are read in place, without a copy.
//!
//! It uses `unsafe` for socket options and for the shared memory.

use super::filter::Instruction;
use memmap2::{MmapOptions, MmapRaw};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Options of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'a> {
    /// Index of the interface; 0 means all.
    pub interface: u32,
    /// The filter program.
    pub filter: &'a [Instruction],
    /// Size of the ring in bytes, at least [`BLOCK`].
    pub size: usize,
    /// Exclude packets sent by this host.
    pub incoming_only: bool,
    /// Interfaces to put into promiscuous mode.
    pub promiscuous: &'a [u32],
    /// Use hardware timestamps for packets that have one.
    pub hardware_time: bool,
}

/// Size of a block in bytes. The kernel delivers a block when it is full, or [`RETIRE`] after its
/// first packet.
pub(super) const BLOCK: usize = 1 << 20;
/// A power of two that divides [`BLOCK`]. With TPACKET_V3 it does not limit the length of packets.
const FRAME: usize = 1 << 11;
/// Maximum time that a packet waits in a block that does not fill up.
pub(super) const RETIRE: Duration = Duration::from_millis(20);
/// Space in bytes before a packet, for a VLAN tag (IEEE 802.1Q).
const TAG: usize = 4;
/// The EtherType of a VLAN tag, if the kernel does not report it.
const VLAN: u16 = 0x8100;

/// A packet in the ring.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// Index of its interface.
    pub interface: u32,
    /// True if the time is a hardware timestamp.
    pub hardware_time: bool,
    /// Length on the wire in bytes.
    pub length: u32,
    /// The captured bytes from the Ethernet header on, with the VLAN tag that the kernel removed.
    pub data: &'a [u8],
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// Packets may be available.
    Ready,
    /// The timeout expired.
    TimedOut,
    /// The interface went down or disappeared.
    Down,
}

/// A ring and its socket.
#[derive(Debug)]
pub(super) struct Ring {
    socket: Socket,
    memory: MmapRaw,
    blocks: usize,
    /// The current block.
    block: usize,
    /// Number of packets left in the block, and the offset of the next one. `None` while the kernel
    /// owns the block.
    left: Option<(u32, usize)>,
}

impl Ring {
    /// Creates a ring and starts the capture. EPERM means that CAP_NET_RAW is missing.
    pub(super) fn open(options: &Options<'_>) -> io::Result<Ring> {
        // Without a protocol the socket receives nothing until it is bound.
        let socket = socket_with(
            AddressFamily::PACKET,
            SocketType::RAW,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        let blocks = (options.size / BLOCK).max(1);
        set(&socket, libc::PACKET_VERSION, &libc::c_int::from(libc::tpacket_versions::TPACKET_V3 as u8))?;
        set(&socket, libc::PACKET_RESERVE, &(TAG as libc::c_int))?;
        if options.incoming_only {
            set(&socket, libc::PACKET_IGNORE_OUTGOING, &1)?;
        }
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (blocks * (BLOCK / FRAME)) as u32,
            tp_retire_blk_tov: RETIRE.as_millis() as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::PACKET_RX_RING, &request)?;
        attach(&socket, options.filter)?;
        for interface in options.promiscuous {
            promiscuous(&socket, *interface)?;
        }
        if options.hardware_time {
            const RAW_HARDWARE: libc::c_int = 1 << 6;
            set(&socket, libc::PACKET_TIMESTAMP, &RAW_HARDWARE)?;
        }
        let memory = MmapOptions::new().len(blocks * BLOCK).map_raw(&socket)?;
        bind(&socket, options.interface)?;
        Ok(Ring { socket: Socket(socket), memory, blocks, block: 0, left: None })
    }

    /// Returns the next packet, or `None` if none is available.
    pub(super) fn next(&mut self) -> Option<Packet<'_>> {
        let (left, at) = loop {
            match self.left {
                // The block returns to the kernel only now, when the last packet is no longer
                // borrowed.
                Some((0, _)) => {
                    self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
                    self.block = (self.block + 1) % self.blocks;
                    self.left = None;
                }
                Some(left) => break left,
                None if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 => return None,
                None => {
                    let block = self.bytes();
                    self.left = Some((word(block, 12), word(block, 16) as usize));
                }
            }
        };
        let header = self.bytes().get(at..at + HEADER)?;
        let next = at + word(header, 0) as usize;
        let time = i64::from(word(header, 4)) * 1_000_000_000 + i64::from(word(header, 8));
        let (captured, length, status) = (word(header, 12) as usize, word(header, 16), word(header, 20));
        let start = at + usize::from(half(header, 24));
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let protocol =
                if status & libc::TP_STATUS_VLAN_TPID_VALID != 0 { half(header, 36) } else { VLAN };
            [protocol, word(header, 32) as u16].map(u16::to_be_bytes)
        });
        let interface = word(header, INTERFACE);
        self.left = Some((left - 1, next));
        let block = self.block_mut();
        let (data, length): (&[u8], _) = match tag {
            Some([protocol, control]) if captured >= 12 => {
                let tagged = block.get_mut(start - TAG..start + captured)?;
                // The tag follows the two addresses.
                tagged.copy_within(TAG..TAG + 12, 0);
                tagged[12..14].copy_from_slice(&protocol);
                tagged[14..16].copy_from_slice(&control);
                (tagged, length.saturating_add(TAG as u32))
            }
            _ => (block.get(start..start + captured)?, length),
        };
        let hardware_time = status & libc::TP_STATUS_TS_RAW_HARDWARE != 0;
        Some(Packet { time, interface, hardware_time, length, data })
    }

    /// Waits for packets, at most `time`.
    pub(super) fn wait(&self, time: Duration) -> io::Result<Waited> {
        let mut sockets = [PollFd::new(&self.socket.0, PollFlags::IN)];
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut sockets, Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Waited::TimedOut),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        if !sockets[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return Ok(Waited::Ready);
        }
        match sockopt::socket_error(&self.socket.0)? {
            Ok(()) => Ok(Waited::Ready),
            Err(rustix::io::Errno::NETDOWN | rustix::io::Errno::NODEV) => Ok(Waited::Down),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the status word of the current block: owned by the kernel or by this process.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: `block` is less than `blocks`, so the address is in the mapping, which lives as
        // long as `self`. A block begins with a version, an offset, and this word, and is
        // page-aligned. The kernel writes the word too, so it is accessed as an atomic.
        unsafe { AtomicU32::from_ptr(self.memory.as_mut_ptr().add(self.block * BLOCK + 8).cast()) }
    }

    /// Returns the current block. Call it only while this process owns the block.
    fn bytes(&self) -> &[u8] {
        // SAFETY: in the mapping, as for `status`. The kernel does not write to a block that it has
        // delivered until the block is returned, for which `next` requires `&mut self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_mut_ptr().add(self.block * BLOCK), BLOCK) }
    }

    /// Returns the current block for writing. Call it only while this process owns the block.
    fn block_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; `&mut self` excludes other references.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().add(self.block * BLOCK), BLOCK) }
    }
}

impl core::ops::Deref for Ring {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}

/// The socket of a ring. A clone refers to the same socket.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

impl Socket {
    /// Replaces the filter program, after indexes of interfaces have changed.
    pub(super) fn chosen_by(&self, program: &[Instruction]) -> io::Result<()> {
        attach(&self.0, program)
    }

    /// Continues with an interface that came back with another index.
    pub(super) fn rebind(&self, interface: u32) -> io::Result<()> {
        bind(&self.0, interface)
    }

    /// Puts an interface that came back into promiscuous mode.
    pub(super) fn promiscuous(&self, interface: u32) -> io::Result<()> {
        promiscuous(&self.0, interface)
    }

    /// Returns the index of an interface, and true if it is up. `None` if it does not exist.
    pub(super) fn interface(&self, name: &str) -> Option<(u32, bool)> {
        let index = rustix::net::netdevice::name_to_index(&self.0, name).ok()?;
        let mut request = request(name);
        ioctl(&self.0, libc::SIOCGIFFLAGS, &mut request).ok()?;
        // SAFETY: the call has initialized this member of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        Some((index, libc::c_int::from(flags) & libc::IFF_UP != 0))
    }

    /// Returns the number of packets accepted by the filter since the last call, and how many of
    /// them were dropped because the ring was full.
    pub(super) fn counts(&self) -> io::Result<(u32, u32)> {
        let mut statistics = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        get(&self.0, libc::PACKET_STATISTICS, &mut statistics)?;
        Ok((statistics.tp_packets, statistics.tp_drops))
    }

    pub(super) fn try_clone(&self) -> io::Result<Socket> {
        self.0.try_clone().map(Socket)
    }
}

/// Distributes the packets over several bound rings (PACKET_FANOUT in packet(7)).
///
/// The kernel chooses a ring by a hash of addresses and ports. So the packets of a flow stay in one
/// ring, in order, and the source ports of RoCEv2 spread the queue pairs over the rings, whatever
/// the adapter does. If a ring is full, its packets go to another ring.
pub(super) fn share(rings: &[Ring], incoming_only: bool) -> io::Result<()> {
    // linux/if_packet.h
    const FANOUT: libc::c_int = 18;
    const HASH: u32 = 0;
    const ROLLOVER: u32 = 0x1000;
    const UNIQUE_ID: u32 = 0x2000;
    const IGNORE_OUTGOING: u32 = 0x4000;
    let mode = HASH | ROLLOVER | if incoming_only { IGNORE_OUTGOING } else { 0 };
    let mut id = None;
    for ring in rings {
        match id {
            None => {
                set(&ring.socket.0, FANOUT, &((mode | UNIQUE_ID) << 16))?;
                let mut word = 0u32;
                get(&ring.socket.0, FANOUT, &mut word)?;
                id = Some(word & 0xffff);
            }
            Some(id) => set(&ring.socket.0, FANOUT, &(mode << 16 | id))?,
        }
    }
    Ok(())
}

/// Length of a `tpacket3_hdr` and the following `sockaddr_ll`.
const HEADER: usize = 48 + 20;
/// Offset of the interface index in the `sockaddr_ll`.
const INTERFACE: usize = 48 + 4;

/// Reads a word of the kernel, in host byte order.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

/// Makes the adapter of an interface timestamp all received packets.
///
/// EOPNOTSUPP and ERANGE mean that the adapter cannot. EPERM means that timestamps are off and
/// CAP_NET_ADMIN, which is needed to enable them, is missing.
pub(super) fn stamp_in_hardware(name: &str) -> io::Result<()> {
    const ALL: libc::c_int = 1;
    const SET: libc::c_ulong = 0x89b0;
    const GET: libc::c_ulong = 0x89b1;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // struct hwtstamp_config (linux/net_tstamp.h): flags, tx_type, rx_filter.
    let mut config: [libc::c_int; 3] = [0; 3];
    let mut request = request(name);
    request.ifr_ifru.ifru_data = config.as_mut_ptr().cast();
    if ioctl(&socket, GET, &mut request).is_ok() && config[2] == ALL {
        return Ok(());
    }
    config[2] = ALL;
    request.ifr_ifru.ifru_data = config.as_mut_ptr().cast();
    ioctl(&socket, SET, &mut request)?;
    // A driver may grant less than was requested.
    if config[2] == ALL { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ERANGE)) }
}

/// Creates an interface request. Names longer than IFNAMSIZ are truncated and match no interface.
fn request(name: &str) -> libc::ifreq {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
    };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn ioctl(socket: &OwnedFd, operation: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the kernel accesses an `ifreq` and the memory that its caller in this file made it
    // point to.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), operation as _, &raw mut *request) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn promiscuous(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface as libc::c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Sets a packet socket option.
fn set<T: Copy>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, option, value)
}

/// Reads a packet socket option.
fn get<T: Copy>(socket: &OwnedFd, option: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, all within `value`, and all `T` here are
    // integers.
    let status = unsafe {
        let to = (&raw mut *value).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, to, &raw mut length)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_option<T: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has.
    let status = unsafe {
        let (from, length) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
        libc::setsockopt(socket.as_raw_fd(), level, option, from, length)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Attaches a filter program.
fn attach(socket: &OwnedFd, program: &[Instruction]) -> io::Result<()> {
    let mut program: Vec<libc::sock_filter> = program
        .iter()
        .map(|one| libc::sock_filter { code: one.code, jt: one.jump_true, jf: one.jump_false, k: one.value })
        .collect();
    let length = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel copies the program during the call.
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Starts receiving from an interface, or from all.
fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the kernel reads as many bytes as `address` has.
    let status = unsafe {
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
