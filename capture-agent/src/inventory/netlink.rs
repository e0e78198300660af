//! The message format of rdma netlink: builds requests and parses answers. No I/O.
//!
//! ```text
//! message:    length 4 | type 2 | flags 2 | sequence 4 | port 4 | attributes
//! type:       client (5, NLDEV) << 10 | command
//! attribute:  length 2 | type 2, its two high bits flags | value, padded to a multiple of 4
//! ```
//!
//! Numbers are in host byte order. An answer contains one attribute that is a table of entries, and
//! each entry is a table of attributes. Values of unexpected length are skipped; an entry that
//! exceeds its table ends the table. The numbers are the ABI of Linux,
//! `include/uapi/rdma/rdma_netlink.h`.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The supported requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// RDMA_NLDEV_CMD_GET: all devices.
    Devices = 1,
    /// RDMA_NLDEV_CMD_RES_QP_GET: the queue pairs of a device.
    QueuePairs = 10,
    /// RDMA_NLDEV_CMD_RES_CM_ID_GET: the CM IDs of a device.
    CmIds = 11,
}

const CLIENT_NLDEV: u16 = 5;
const HEADER: usize = 16;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST, NLM_F_ACK and NLM_F_DUMP.
const REQUEST_ALL: u16 = 1 | 4 | 0x300;

/// Attribute numbers: RDMA_NLDEV_ATTR_…
mod attribute {
    pub(super) const DEVICE_INDEX: u16 = 1;
    pub(super) const DEVICE_NAME: u16 = 2;
    pub(super) const PORT_INDEX: u16 = 3;
    pub(super) const QUEUE_PAIRS: u16 = 19;
    pub(super) const LOCAL_QP: u16 = 21;
    pub(super) const REMOTE_QP: u16 = 22;
    pub(super) const RECEIVE_PSN: u16 = 23;
    pub(super) const SEND_PSN: u16 = 24;
    pub(super) const TYPE: u16 = 26;
    pub(super) const STATE: u16 = 27;
    pub(super) const PROCESS: u16 = 28;
    pub(super) const KERNEL_NAME: u16 = 29;
    pub(super) const CM_IDS: u16 = 30;
    pub(super) const SOURCE: u16 = 33;
    pub(super) const DESTINATION: u16 = 34;
}

/// Builds a request for all objects of a kind, of all devices or of one.
pub fn request(command: Command, device: Option<u32>, sequence: u32) -> Vec<u8> {
    let mut attributes = Vec::new();
    if let Some(device) = device {
        attributes.extend(8u16.to_ne_bytes());
        attributes.extend(attribute::DEVICE_INDEX.to_ne_bytes());
        attributes.extend(device.to_ne_bytes());
    }
    let mut message = Vec::with_capacity(HEADER + attributes.len());
    message.extend(((HEADER + attributes.len()) as u32).to_ne_bytes());
    message.extend(message_type(command).to_ne_bytes());
    message.extend(REQUEST_ALL.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(attributes);
    message
}

const fn message_type(command: Command) -> u16 {
    CLIENT_NLDEV << 10 | command as u16
}

/// The status after a datagram of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// More datagrams follow.
    More,
    /// The answer is complete.
    Done,
    /// The kernel refused with this errno.
    Refused(i32),
}

/// An RDMA device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Index of the device.
    pub index: u32,
    /// Name, for example `rxe0`.
    pub name: String,
}

/// A queue pair as reported by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QpEntry {
    /// Number of the queue pair.
    pub local_qp: Option<u32>,
    /// Number of the remote queue pair.
    pub remote_qp: Option<u32>,
    /// The next PSN expected.
    pub receive_psn: Option<u32>,
    /// The next PSN to send.
    pub send_psn: Option<u32>,
    /// Transport service type; 2: RC.
    pub kind: Option<u8>,
    /// State, numbered from 0: Reset, Init, RTR, RTS, SQD, SQE, Error (IBTA volume 1, section
    /// 10.3.1).
    pub state: Option<u8>,
    /// The part of the kernel that owns it.
    pub owner: Option<String>,
    /// The process that owns it.
    pub process: Option<u32>,
}

/// A CM ID as reported by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CmIdEntry {
    /// Port of the device.
    pub port: Option<u32>,
    /// Number of its queue pair.
    pub local_qp: Option<u32>,
    /// Local address and port.
    pub source: Option<SocketAddr>,
    /// Remote address and port.
    pub destination: Option<SocketAddr>,
    /// The part of the kernel that owns it.
    pub owner: Option<String>,
    /// The process that owns it.
    pub process: Option<u32>,
}

/// Parses a datagram of answers and calls `see` with the attributes of each answer to `command`.
fn answers<'a>(bytes: &'a [u8], command: Command, mut see: impl FnMut(Attributes<'a>)) -> Answered {
    let mut rest = bytes;
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(body) = rest.get(HEADER..length) else { return Answered::More };
        match u16::from_ne_bytes([header[4], header[5]]) {
            NLMSG_DONE => {
                // Contains the status of a dump that the kernel aborted.
                return match status(body) {
                    Some(status) if status < 0 => Answered::Refused(status.saturating_neg()),
                    _ => Answered::Done,
                };
            }
            NLMSG_ERROR => match status(body) {
                Some(0) => {}
                status => return Answered::Refused(status.unwrap_or(0).saturating_neg()),
            },
            kind if kind == message_type(command) => see(Attributes(body)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Answered::More
}

fn status(body: &[u8]) -> Option<i32> {
    body.first_chunk().map(|status| i32::from_ne_bytes(*status))
}

/// Collects the devices in a datagram.
pub fn devices(bytes: &[u8], found: &mut Vec<Device>) -> Answered {
    answers(bytes, Command::Devices, |attributes| {
        let (mut index, mut name) = (None, None);
        for (kind, value) in attributes {
            match kind {
                attribute::DEVICE_INDEX => index = number(value),
                attribute::DEVICE_NAME => name = text(value),
                _ => {}
            }
        }
        if let (Some(index), Some(name)) = (index, name) {
            found.push(Device { index, name });
        }
    })
}

/// Collects the queue pairs in a datagram.
pub fn queue_pairs(bytes: &[u8], found: &mut Vec<QpEntry>) -> Answered {
    entries(bytes, Command::QueuePairs, attribute::QUEUE_PAIRS, |attributes| {
        let mut entry = QpEntry::default();
        for (kind, value) in attributes {
            match kind {
                attribute::LOCAL_QP => entry.local_qp = number(value),
                attribute::REMOTE_QP => entry.remote_qp = number(value),
                attribute::RECEIVE_PSN => entry.receive_psn = number(value),
                attribute::SEND_PSN => entry.send_psn = number(value),
                attribute::TYPE => entry.kind = value.first().copied(),
                attribute::STATE => entry.state = value.first().copied(),
                attribute::KERNEL_NAME => entry.owner = text(value),
                attribute::PROCESS => entry.process = number(value),
                _ => {}
            }
        }
        found.push(entry);
    })
}

/// Collects the CM IDs in a datagram.
pub fn cm_ids(bytes: &[u8], found: &mut Vec<CmIdEntry>) -> Answered {
    entries(bytes, Command::CmIds, attribute::CM_IDS, |attributes| {
        let mut entry = CmIdEntry::default();
        for (kind, value) in attributes {
            match kind {
                attribute::PORT_INDEX => entry.port = number(value),
                attribute::LOCAL_QP => entry.local_qp = number(value),
                attribute::SOURCE => entry.source = address(value),
                attribute::DESTINATION => entry.destination = address(value),
                attribute::KERNEL_NAME => entry.owner = text(value),
                attribute::PROCESS => entry.process = number(value),
                _ => {}
            }
        }
        found.push(entry);
    })
}

/// Calls `see` for each entry of the table attribute `table`.
fn entries<'a>(
    bytes: &'a [u8],
    command: Command,
    table: u16,
    mut see: impl FnMut(Attributes<'a>),
) -> Answered {
    answers(bytes, command, |attributes| {
        for (_, entries) in attributes.filter(|(kind, _)| *kind == table) {
            Attributes(entries).for_each(|(_, entry)| see(Attributes(entry)));
        }
    })
}

/// Iterates over consecutive attributes.
#[derive(Clone, Copy)]
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        /// The two high bits mark nested tables and network byte order.
        const KIND: u16 = 0x3fff;
        let header = self.0.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = self.0.get(4..length)?;
        let kind = u16::from_ne_bytes([header[2], header[3]]) & KIND;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    }
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// Decodes a zero-terminated name. `None` if it contains characters that names cannot have.
fn text(value: &[u8]) -> Option<String> {
    const LONGEST: usize = 64;
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    let name = core::str::from_utf8(&value[..end]).ok()?;
    let is_name =
        !name.is_empty() && name.len() <= LONGEST && name.chars().all(|letter| letter.is_ascii_graphic());
    is_name.then(|| name.to_owned())
}

/// Decodes a `sockaddr_storage` of IPv4 or IPv6.
fn address(value: &[u8]) -> Option<SocketAddr> {
    const AF_INET: u16 = 2;
    const AF_INET6: u16 = 10;
    let family = u16::from_ne_bytes(*value.first_chunk()?);
    let port = u16::from_be_bytes(*value.get(2..)?.first_chunk()?);
    let ip = match family {
        AF_INET => IpAddr::V4(Ipv4Addr::from(*value.get(4..)?.first_chunk::<4>()?)),
        AF_INET6 => IpAddr::V6(Ipv6Addr::from(*value.get(8..)?.first_chunk::<16>()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}
