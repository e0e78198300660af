//! What stands beside NFS version 3 on TCP: MOUNT version 3 (RFC 1813, appendix I) and the port mapper version 2 with the GETADDR of
//! rpcbind (RFC 1833). Calls in, replies out; the record marks of TCP (RFC 5531, section 11) are taken off and put on here too.

use super::admission::refusal;
use super::call::Caller;
use super::export::plain;
use super::types::{Handle, reader};
use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;
use rdmascope_wire::rpc::{self, Auth, flavor, program};
use rdmascope_wire::xdr::{Reader, put_opaque, put_u32};
use rdmascope_wire::{Layer, Stop, Xid};

/// The longest RPC message that is taken on TCP, in bytes.
pub const MOST_MESSAGE: usize = 8192;
/// The longest path: MNTPATHLEN.
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

/// What is exported, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services {
    /// The path that MNT takes, without a slash at its end; "/" is taken too.
    pub path: Vec<u8>,
    /// The handle of its root.
    pub root: Handle,
    /// The address that GETADDR tells.
    pub address: IpAddr,
    /// The port of MOUNT on TCP.
    pub mount_port: u16,
    /// The port of NFS/RDMA.
    pub nfs_port: u16,
}

impl Services {
    /// Answers a call to MOUNT or to the port mapper. `None` where its RPC header cannot be read.
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

    /// NULL, MNT, DUMP, UMNT, UMNTALL, EXPORT. Nobody is remembered who mounts.
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
                    // Two flavors: AUTH_SYS is preferred, AUTH_NONE is taken.
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
                // No groups: everybody. No further export.
                put_u32(out, 0);
                put_u32(out, 0);
            }
            _ => return Err(rpc::Status::ProcedureUnavailable),
        }
        Ok(())
    }

    /// The port of a program on TCP. NFS itself is here on RDMA only, and that is no protocol of version 2.
    fn port(&self, program: u32, version: u32) -> u16 {
        match (program, version) {
            (program::MOUNT, 3) => self.mount_port,
            (program::PORTMAPPER, 2..=4) => PORTMAPPER_PORT,
            _ => 0,
        }
    }

    /// NULL, GETPORT and DUMP. SET, UNSET and CALLIT are not taken.
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

    /// NULL and GETADDR of rpcbind: universal addresses by netid, "rdma" and "rdma6" among them (RFC 8166, section 9).
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

/// Why MOUNT gives no handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// MOUNT refuses.
    #[error("MOUNT answered with {0}")]
    Status(MountStatus),
    /// mountstat3 has a number that RFC 1813 does not know.
    #[error("MOUNT answered with status {0}")]
    UnknownStatus(u32),
    /// The RPC failed.
    #[error("the call was answered with {0}")]
    Rpc(rpc::Status),
    /// The reply could not be read.
    #[error("the reply could not be read: {0}")]
    Malformed(#[from] Stop),
    /// The reply is to another call.
    #[error("the reply has XID {0}")]
    OtherXid(Xid),
}

impl Caller {
    /// A call of MNT.
    pub fn mount(&mut self, path: &[u8]) -> (Xid, Vec<u8>) {
        let (xid, mut out) = self.begin(program::MOUNT, 3, 1);
        put_opaque(&mut out, path);
        (xid, out)
    }

    /// A call of GETPORT: the TCP port of a program.
    pub fn port(&mut self, program: u32, version: u32) -> (Xid, Vec<u8>) {
        let (xid, mut out) = self.begin(program::PORTMAPPER, 2, 3);
        for word in [program, version, TCP, 0] {
            put_u32(&mut out, word);
        }
        (xid, out)
    }

    fn begin(&mut self, program: u32, version: u32, procedure: u32) -> (Xid, Vec<u8>) {
        let (xid, mut out) = (self.next_xid(), Vec::new());
        let none = Auth { flavor: flavor::NONE, body: &[] };
        let credential = if program == program::PORTMAPPER {
            none
        } else {
            Auth { flavor: flavor::SYS, body: self.credential() }
        };
        rpc::Call { xid, rpc_version: rpc::VERSION, program, version, procedure, credential, verifier: none }
            .build(&mut out);
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

/// The root handle in the reply to [`Caller::mount`].
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

/// The port in the reply to [`Caller::port`]; 0: the program is not there.
pub fn port(xid: Xid, reply: &[u8]) -> Result<u16, MountError> {
    let mut from = results(xid, reply)?;
    Ok(u16::try_from(from.u32()?).unwrap_or(0))
}

/// Takes messages off a TCP stream: fragments put together by their record marks (RFC 5531, section 11).
#[derive(Debug, Default)]
pub struct Records {
    /// Bytes that were not looked at.
    bytes: Vec<u8>,
    whole: Vec<u8>,
}

/// A message on TCP is longer than [`MOST_MESSAGE`]: the stream cannot be followed any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of more than {MOST_MESSAGE} bytes")]
pub struct TooLong;

impl Records {
    /// Takes bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message. `None`: its end has not come.
    pub fn message(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        while let Some(mark) = self.bytes.first_chunk().map(|mark| u32::from_be_bytes(*mark)) {
            let (is_last, length) = (mark >> 31 == 1, (mark & 0x7fff_ffff) as usize);
            if self.whole.len() + length > MOST_MESSAGE {
                return Err(TooLong);
            }
            let Some(fragment) = self.bytes.get(4..4 + length) else { break };
            self.whole.extend_from_slice(fragment);
            self.bytes.drain(..4 + length);
            if is_last {
                return Ok(Some(core::mem::take(&mut self.whole)));
            }
        }
        Ok(None)
    }
}

/// A message with its record mark, as one fragment.
pub fn marked(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + message.len());
    put_u32(&mut out, 1 << 31 | message.len() as u32);
    out.extend_from_slice(message);
    out
}
