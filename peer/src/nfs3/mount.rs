//! The TCP services that accompany NFS version 3: MOUNT version 3 (RFC 1813, appendix I), and the
//! port mapper version 2 with the GETADDR of rpcbind (RFC 1833). It also handles the record marks
//! of TCP (RFC 5531, section 11).

use super::admission::refusal;
use super::call::Caller;
use super::export::plain;
use super::types::{Handle, reader};
use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;
use rdmascope_wire::rpc::{self, flavor, program};
use rdmascope_wire::xdr::{Reader, put_opaque, put_u32};
use rdmascope_wire::{Layer, Stop, Xid};

/// The longest RPC message accepted on TCP, in bytes.
pub const MOST_MESSAGE: usize = 8192;
/// The longest path in bytes: MNTPATHLEN.
const MOST_PATH: usize = 1024;
/// The port of the port mapper.
pub const PORTMAPPER_PORT: u16 = 111;
/// IPPROTO_TCP in a mapping.
const TCP: u32 = 6;

super::types::numbers! {
    /// mountstat3 (appendix I, section 5.1.5).
    #[allow(missing_docs)]
    MountStatus {
        Ok = 0 "MNT3_OK",
        Perm = 1 "MNT3ERR_PERM",
        NoEnt = 2 "MNT3ERR_NOENT",
        Io = 5 "MNT3ERR_IO",
        Acces = 13 "MNT3ERR_ACCES",
        NotDir = 20 "MNT3ERR_NOTDIR",
        Inval = 22 "MNT3ERR_INVAL",
        NameTooLong = 63 "MNT3ERR_NAMETOOLONG",
        NotSupp = 10004 "MNT3ERR_NOTSUPP",
        ServerFault = 10006 "MNT3ERR_SERVERFAULT",
    }
}

/// The exported path, and the addresses of the services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services {
    /// The path for MNT without a trailing slash. MNT of "/" is accepted too.
    pub path: Vec<u8>,
    /// The handle of the root directory.
    pub root: Handle,
    /// The address that GETADDR returns.
    pub address: IpAddr,
    /// The TCP port of MOUNT.
    pub mount_port: u16,
    /// The NFS/RDMA port.
    pub nfs_port: u16,
}

impl Services {
    /// Answers a call to MOUNT or the port mapper. Returns `None` if its RPC header cannot be read.
    pub fn call(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut cursor = Reader::new(message, Layer::Rpc);
        let call = rpc::Call::parse(&mut cursor).ok()?;
        if let Some(status) = refusal(&call, &[(program::MOUNT, 3..=3), (program::PORTMAPPER, 2..=4)]) {
            return Some(plain(&call, status).message);
        }
        let mut out = plain(&call, rpc::Status::Success).message;
        let mut args = reader(cursor.rest());
        let done = match (call.program, call.version) {
            (program::MOUNT, _) => self.mount(call.procedure, &mut args, &mut out),
            (_, 2) => self.port_mapper(call.procedure, &mut args, &mut out),
            (_, _) => self.bind(call.procedure, &mut args, &mut out),
        };
        match done {
            Ok(()) => Some(out),
            Err(status) => Some(plain(&call, status).message),
        }
    }

    /// Executes NULL, MNT, DUMP, UMNT, UMNTALL and EXPORT. Mounts are not recorded.
    fn mount(&self, procedure: u32, args: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), rpc::Status> {
        match procedure {
            0 | 4 => {}
            1 => {
                let path = args.opaque().map_err(garbage)?;
                let is_root = trimmed(path) == trimmed(&self.path) || path == b"/";
                let status = match is_root {
                    true => MountStatus::Ok,
                    false if path.len() > MOST_PATH => MountStatus::NameTooLong,
                    false => MountStatus::NoEnt,
                };
                put_u32(out, status.number());
                if is_root {
                    put_opaque(out, self.root.bytes());
                    // Two flavors: AUTH_SYS is preferred, AUTH_NONE is accepted.
                    for word in [2, flavor::SYS, flavor::NONE] {
                        put_u32(out, word);
                    }
                }
            }
            2 => put_u32(out, 0),
            3 => {
                args.opaque().map_err(garbage)?;
            }
            5 => {
                put_u32(out, 1);
                put_opaque(out, &self.path);
                // No groups, which means everyone. No further export.
                put_u32(out, 0);
                put_u32(out, 0);
            }
            _ => return Err(rpc::Status::ProcedureUnavailable),
        }
        Ok(())
    }

    /// Returns the TCP port of a program. NFS itself runs on RDMA only, which port mapper version 2
    /// cannot express.
    fn port(&self, program: u32, version: u32) -> u16 {
        match (program, version) {
            (program::MOUNT, 3) => self.mount_port,
            (program::PORTMAPPER, 2..=4) => PORTMAPPER_PORT,
            _ => 0,
        }
    }

    /// Executes NULL, GETPORT and DUMP. SET, UNSET and CALLIT are not supported.
    fn port_mapper(
        &self,
        procedure: u32,
        args: &mut Reader<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), rpc::Status> {
        match procedure {
            0 => {}
            3 => {
                let [program, version, protocol, _] = words(args).map_err(garbage)?;
                let port = if protocol == TCP { self.port(program, version) } else { 0 };
                put_u32(out, port.into());
            }
            4 => {
                for (program, version) in [(program::PORTMAPPER, 2), (program::MOUNT, 3)] {
                    for word in [1, program, version, TCP, self.port(program, version).into()] {
                        put_u32(out, word);
                    }
                }
                put_u32(out, 0);
            }
            _ => return Err(rpc::Status::ProcedureUnavailable),
        }
        Ok(())
    }

    /// Executes NULL and GETADDR of rpcbind. GETADDR returns universal addresses by netid,
    /// including "rdma" and "rdma6" (RFC 8166, section 9).
    fn bind(&self, procedure: u32, args: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), rpc::Status> {
        match procedure {
            0 => {}
            3 => {
                let (program, version) = (args.u32().map_err(garbage)?, args.u32().map_err(garbage)?);
                let netid = args.opaque().map_err(garbage)?;
                let six = if self.address.is_ipv6() { &b"6"[..] } else { b"" };
                let port = if netid == [b"tcp", six].concat() {
                    self.port(program, version)
                } else if netid == [b"rdma", six].concat() && (program, version) == (program::NFS, 3) {
                    self.nfs_port
                } else {
                    0
                };
                let universal = match port {
                    0 => Vec::new(),
                    port => format!("{}.{}.{}", self.address, port >> 8, port & 0xff).into_bytes(),
                };
                put_opaque(out, &universal);
            }
            _ => return Err(rpc::Status::ProcedureUnavailable),
        }
        Ok(())
    }
}

fn garbage(_: Stop) -> rpc::Status {
    rpc::Status::GarbageArguments
}

fn words<const N: usize>(args: &mut Reader<'_>) -> Result<[u32; N], Stop> {
    let mut words = [0; N];
    for word in &mut words {
        *word = args.u32()?;
    }
    Ok(words)
}

fn trimmed(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// Why MOUNT returned no handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// MOUNT returned an error status.
    #[error("MOUNT answered with {0}")]
    Status(MountStatus),
    /// MOUNT returned a mountstat3 that RFC 1813 does not define.
    #[error("MOUNT answered with status {0}")]
    UnknownStatus(u32),
    /// The RPC failed.
    #[error("the call was answered with {0}")]
    Rpc(rpc::Status),
    /// The reply is malformed.
    #[error("unreadable reply: {0}")]
    Malformed(#[from] Stop),
    /// The reply belongs to another call.
    #[error("the reply has XID {0}")]
    OtherXid(Xid),
}

impl Caller {
    /// Builds a call of MNT.
    pub fn mount(&mut self, path: &[u8]) -> (Xid, Vec<u8>) {
        let (xid, mut out) = self.begin(program::MOUNT, 3, 1);
        put_opaque(&mut out, path);
        (xid, out)
    }

    /// Builds a call of GETPORT for the TCP port of a program.
    pub fn port(&mut self, program: u32, version: u32) -> (Xid, Vec<u8>) {
        let (xid, mut out) = self.begin(program::PORTMAPPER, 2, 3);
        for word in [program, version, TCP, 0] {
            put_u32(&mut out, word);
        }
        (xid, out)
    }
}

fn results(xid: Xid, reply: &[u8]) -> Result<Reader<'_>, MountError> {
    let mut cursor = Reader::new(reply, Layer::Rpc);
    let header = rpc::Reply::parse(&mut cursor)?;
    if header.xid != xid {
        return Err(MountError::OtherXid(header.xid));
    }
    if header.status != rpc::Status::Success {
        return Err(MountError::Rpc(header.status));
    }
    Ok(reader(cursor.rest()))
}

/// Returns the root handle in the reply to [`Caller::mount`].
pub fn mounted(xid: Xid, reply: &[u8]) -> Result<Handle, MountError> {
    let mut from = results(xid, reply)?;
    match from.u32()? {
        0 => Ok(Handle::parse(&mut from)?),
        number => match MountStatus::from_number(number) {
            Some(status) => Err(MountError::Status(status)),
            None => Err(MountError::UnknownStatus(number)),
        },
    }
}

/// Returns the port in the reply to [`Caller::port`]; 0 if the program is not registered.
pub fn port(xid: Xid, reply: &[u8]) -> Result<u16, MountError> {
    let mut from = results(xid, reply)?;
    Ok(u16::try_from(from.u32()?).unwrap_or(0))
}

/// Extracts messages from a TCP stream by joining fragments at their record marks (RFC 5531,
/// section 11).
#[derive(Debug, Default)]
pub struct Records {
    /// Bytes that are not parsed yet.
    bytes: Vec<u8>,
    /// The fragments of the current message so far.
    message: Vec<u8>,
}

/// A TCP message exceeds [`MOST_MESSAGE`]. The stream cannot be parsed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of more than {MOST_MESSAGE} bytes")]
pub struct TooLong;

impl Records {
    /// Adds bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete message, or `None` if it is incomplete.
    pub fn message(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        while let Some(mark) = self.bytes.first_chunk().map(|mark| u32::from_be_bytes(*mark)) {
            let (is_last, length) = (mark >> 31 == 1, (mark & 0x7fff_ffff) as usize);
            if self.message.len() + length > MOST_MESSAGE {
                return Err(TooLong);
            }
            let Some(fragment) = self.bytes.get(4..4 + length) else { break };
            self.message.extend_from_slice(fragment);
            self.bytes.drain(..4 + length);
            if is_last {
                return Ok(Some(core::mem::take(&mut self.message)));
            }
        }
        Ok(None)
    }
}

/// Returns a message with its record mark, as one fragment.
pub fn marked(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + message.len());
    put_u32(&mut out, 1 << 31 | message.len() as u32);
    out.extend_from_slice(message);
    out
}
