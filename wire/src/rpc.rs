//! The RPC message header (RFC 5531, section 9) and the RPCSEC_GSS credential (RFC 2203, section
//! 5).

use crate::xdr::{Reader, put_opaque, put_u32};
use crate::{Layer, Stop, Xid};
use alloc::vec::Vec;

/// The RPC version of this header.
pub const VERSION: u32 = 2;

/// Authentication flavors (RFC 5531, section 8.2; RFC 2203, section 5).
pub mod flavor {
    /// AUTH_NONE.
    pub const NONE: u32 = 0;
    /// AUTH_SYS.
    pub const SYS: u32 = 1;
    /// AUTH_SHORT.
    pub const SHORT: u32 = 2;
    /// RPCSEC_GSS.
    pub const RPCSEC_GSS: u32 = 6;
    /// AUTH_TLS (RFC 9289).
    pub const TLS: u32 = 7;
}

/// Program numbers of NFS and its companion protocols.
pub mod program {
    use core::ops::RangeInclusive;

    /// Portmapper and rpcbind (RFC 1833).
    pub const PORTMAPPER: u32 = 100_000;
    /// NFS, all versions (RFC 1813; RFC 7531).
    pub const NFS: u32 = 100_003;
    /// MOUNT (RFC 1813, appendix I; RFC 8267, section 5).
    pub const MOUNT: u32 = 100_005;
    /// NLM, the network lock manager (RFC 8267, section 5).
    pub const NLM: u32 = 100_021;
    /// NSM, the network status monitor (RFC 8267, section 5).
    pub const NSM: u32 = 100_024;
    /// NFSACL (RFC 8267, section 5).
    pub const NFSACL: u32 = 100_227;
    /// The transient program numbers (RFC 5531, section 13). A client chooses one for its NFSv4
    /// callbacks (RFC 7530, section 16.33).
    pub const TRANSIENT: RangeInclusive<u32> = 0x4000_0000..=0x5fff_ffff;
    /// The program number in the XDR of the callback program (RFC 7531), also chosen by Linux
    /// clients.
    pub const CALLBACK: u32 = 0x4000_0000;

    /// Returns true for a transient number, from which clients choose their NFSv4 callback
    /// programs.
    #[inline]
    pub fn is_callback(program: u32) -> bool {
        TRANSIENT.contains(&program)
    }
}

/// The message type, `msg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0.
    Call,
    /// 1.
    Reply,
}

/// An `opaque_auth`: a credential or a verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// One of [`flavor`].
    pub flavor: u32,
    /// The content, defined by the flavor, at most [`Auth::MOST`] bytes.
    pub body: &'a [u8],
}

impl<'a> Auth<'a> {
    /// The maximum length of the content in bytes (RFC 5531, section 8.2).
    pub const MOST: usize = 400;

    fn parse(reader: &mut Reader<'a>) -> Result<Auth<'a>, Stop> {
        Ok(Auth { flavor: reader.u32()?, body: reader.opaque()? })
    }
}

/// The header of a call, up to its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The transaction ID.
    pub xid: Xid,
    /// rpcvers, 2.
    pub rpc_version: u32,
    /// prog.
    pub program: u32,
    /// vers: the version of the program.
    pub version: u32,
    /// proc.
    pub procedure: u32,
    /// cred.
    pub credential: Auth<'a>,
    /// verf.
    pub verifier: Auth<'a>,
}

/// The header of a reply, up to its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The transaction ID.
    pub xid: Xid,
    /// Acceptance and result.
    pub status: Status,
    /// verf, present in accepted replies.
    pub verifier: Option<Auth<'a>>,
}

/// `reply_stat` and the status that it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// MSG_ACCEPTED, SUCCESS: results follow.
    Success,
    /// MSG_ACCEPTED, PROG_UNAVAIL.
    ProgramUnavailable,
    /// MSG_ACCEPTED, PROG_MISMATCH.
    ProgramMismatch {
        /// Lowest supported version of the program.
        low: u32,
        /// Highest supported version of the program.
        high: u32,
    },
    /// MSG_ACCEPTED, PROC_UNAVAIL.
    ProcedureUnavailable,
    /// MSG_ACCEPTED, GARBAGE_ARGS.
    GarbageArguments,
    /// MSG_ACCEPTED, SYSTEM_ERR.
    SystemError,
    /// MSG_ACCEPTED with an unassigned number.
    UnknownAccepted(u32),
    /// MSG_DENIED, RPC_MISMATCH.
    RpcMismatch {
        /// Lowest supported RPC version.
        low: u32,
        /// Highest supported RPC version.
        high: u32,
    },
    /// MSG_DENIED, AUTH_ERROR with its auth_stat.
    AuthError(u32),
    /// MSG_DENIED with an unassigned number.
    UnknownDenied(u32),
}

impl Status {
    /// Returns true if no results follow this status (RFC 5531, section 9). False for unassigned
    /// statuses.
    pub fn has_no_results(&self) -> bool {
        !matches!(self, Status::Success | Status::UnknownAccepted(_) | Status::UnknownDenied(_))
    }
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Status::Success => f.write_str("SUCCESS"),
            Status::ProgramUnavailable => f.write_str("PROG_UNAVAIL"),
            Status::ProgramMismatch { low, high } => write!(f, "PROG_MISMATCH {low} to {high}"),
            Status::ProcedureUnavailable => f.write_str("PROC_UNAVAIL"),
            Status::GarbageArguments => f.write_str("GARBAGE_ARGS"),
            Status::SystemError => f.write_str("SYSTEM_ERR"),
            Status::UnknownAccepted(number) => write!(f, "accept_stat {number}"),
            Status::RpcMismatch { low, high } => write!(f, "RPC_MISMATCH {low} to {high}"),
            Status::AuthError(number) => match auth_stat_name(*number) {
                Some(name) => write!(f, "AUTH_ERROR {number} ({name})"),
                None => write!(f, "AUTH_ERROR {number}"),
            },
            Status::UnknownDenied(number) => write!(f, "reject_stat {number}"),
        }
    }
}

/// The name of an auth_stat (RFC 5531, section 9). `None` for unassigned numbers.
pub fn auth_stat_name(number: u32) -> Option<&'static str> {
    const NAMES: [&str; 15] = [
        "AUTH_OK",
        "AUTH_BADCRED",
        "AUTH_REJECTEDCRED",
        "AUTH_BADVERF",
        "AUTH_REJECTEDVERF",
        "AUTH_TOOWEAK",
        "AUTH_INVALIDRESP",
        "AUTH_FAILED",
        "AUTH_KERB_GENERIC",
        "AUTH_TIMEEXPIRE",
        "AUTH_TKT_FILE",
        "AUTH_DECODE",
        "AUTH_NET_ADDR",
        "RPCSEC_GSS_CREDPROBLEM",
        "RPCSEC_GSS_CTXPROBLEM",
    ];
    NAMES.get(usize::try_from(number).ok()?).copied()
}

/// Reads XID and `msg_type` of the message at the start of `bytes`.
#[inline]
pub fn peek(bytes: &[u8]) -> Result<(Xid, Kind), Stop> {
    let mut reader = Reader::new(bytes, Layer::Rpc);
    let xid = Xid(reader.u32()?);
    match reader.u32()? {
        0 => Ok((xid, Kind::Call)),
        1 => Ok((xid, Kind::Reply)),
        _ => Err(Stop::malformed(Layer::Rpc, 4)),
    }
}

/// Reads program, version and procedure of the call at the start of `bytes`. They have fixed
/// offsets before the credential, so this works when a snap length cuts off the credential.
#[inline]
pub fn called(bytes: &[u8]) -> Result<(u32, u32, u32), Stop> {
    let mut reader = Reader::new(bytes, Layer::Rpc);
    reader.u32()?;
    expect(&mut reader, 0)?;
    reader.u32()?;
    Ok((reader.u32()?, reader.u32()?, reader.u32()?))
}

impl Call<'static> {
    /// Creates a call of procedure 0 with AUTH_NONE. In every program of NFS, procedure 0 does
    /// nothing and has neither arguments nor results.
    pub const fn null(xid: Xid, program: u32, version: u32) -> Call<'static> {
        let none = Auth { flavor: flavor::NONE, body: &[] };
        Call { xid, rpc_version: VERSION, program, version, procedure: 0, credential: none, verifier: none }
    }
}

impl<'a> Call<'a> {
    /// Parses the call at the cursor and leaves the cursor at the arguments.
    #[inline]
    pub fn parse(reader: &mut Reader<'a>) -> Result<Call<'a>, Stop> {
        let xid = Xid(reader.u32()?);
        expect(reader, 0)?;
        Ok(Call {
            xid,
            rpc_version: reader.u32()?,
            program: reader.u32()?,
            version: reader.u32()?,
            procedure: reader.u32()?,
            credential: Auth::parse(reader)?,
            verifier: Auth::parse(reader)?,
        })
    }

    /// Appends the header.
    ///
    /// # Panics
    /// Panics if a credential or verifier is 4 GiB or longer.
    pub fn build(&self, out: &mut Vec<u8>) {
        for word in [self.xid.0, 0, self.rpc_version, self.program, self.version, self.procedure] {
            put_u32(out, word);
        }
        for auth in [self.credential, self.verifier] {
            put_u32(out, auth.flavor);
            put_opaque(out, auth.body);
        }
    }
}

impl<'a> Reply<'a> {
    /// Parses the reply at the cursor and leaves the cursor at the results.
    #[inline]
    pub fn parse(reader: &mut Reader<'a>) -> Result<Reply<'a>, Stop> {
        let xid = Xid(reader.u32()?);
        expect(reader, 1)?;
        let at = reader.position();
        match reader.u32()? {
            0 => {
                let verifier = Auth::parse(reader)?;
                let status = match reader.u32()? {
                    0 => Status::Success,
                    1 => Status::ProgramUnavailable,
                    2 => Status::ProgramMismatch { low: reader.u32()?, high: reader.u32()? },
                    3 => Status::ProcedureUnavailable,
                    4 => Status::GarbageArguments,
                    5 => Status::SystemError,
                    other => Status::UnknownAccepted(other),
                };
                Ok(Reply { xid, status, verifier: Some(verifier) })
            }
            1 => {
                let status = match reader.u32()? {
                    0 => Status::RpcMismatch { low: reader.u32()?, high: reader.u32()? },
                    1 => Status::AuthError(reader.u32()?),
                    other => Status::UnknownDenied(other),
                };
                Ok(Reply { xid, status, verifier: None })
            }
            _ => Err(Stop::malformed(Layer::Rpc, at)),
        }
    }

    /// Appends the header. An accepted reply without a verifier gets AUTH_NONE.
    ///
    /// # Panics
    /// Panics if the verifier is 4 GiB or longer.
    pub fn build(&self, out: &mut Vec<u8>) {
        put_u32(out, self.xid.0);
        put_u32(out, 1);
        let words: &[u32] = match &self.status {
            Status::Success => &[0],
            Status::ProgramUnavailable => &[1],
            Status::ProgramMismatch { low, high } => &[2, *low, *high],
            Status::ProcedureUnavailable => &[3],
            Status::GarbageArguments => &[4],
            Status::SystemError => &[5],
            Status::UnknownAccepted(number) => &[*number],
            Status::RpcMismatch { low, high } => &[1, 0, *low, *high],
            Status::AuthError(number) => &[1, 1, *number],
            Status::UnknownDenied(number) => &[1, *number],
        };
        let denied = matches!(
            self.status,
            Status::RpcMismatch { .. } | Status::AuthError(_) | Status::UnknownDenied(_)
        );
        if !denied {
            let verifier = self.verifier.unwrap_or(Auth { flavor: flavor::NONE, body: &[] });
            put_u32(out, 0);
            put_u32(out, verifier.flavor);
            put_opaque(out, verifier.body);
        }
        words.iter().for_each(|word| put_u32(out, *word));
    }
}

fn expect(reader: &mut Reader<'_>, kind: u32) -> Result<(), Stop> {
    let at = reader.position();
    if reader.u32()? == kind { Ok(()) } else { Err(Stop::malformed(Layer::Rpc, at)) }
}

/// The fields of an AUTH_SYS credential (RFC 5531, appendix A) between its stamp and its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysCredential<'a> {
    /// machinename, at most 255 bytes by the specification.
    pub machine: &'a [u8],
    /// uid.
    pub uid: u32,
    /// gid.
    pub gid: u32,
}

impl<'a> SysCredential<'a> {
    /// The maximum number of groups (RFC 5531, appendix A).
    pub const MOST_GROUPS: u32 = 16;
    /// The maximum length of a machine name in bytes (RFC 5531, appendix A).
    pub const LONGEST_MACHINE: usize = 255;

    /// The number of groups in the body of a credential of flavor [`flavor::SYS`].
    pub fn groups(body: &[u8]) -> Result<u32, Stop> {
        let mut reader = Reader::new(body, Layer::Rpc);
        reader.u32()?;
        reader.opaque()?;
        reader.u32()?;
        reader.u32()?;
        reader.u32()
    }

    /// Parses the body of a credential of flavor [`flavor::SYS`].
    pub fn parse(body: &'a [u8]) -> Result<SysCredential<'a>, Stop> {
        let mut reader = Reader::new(body, Layer::Rpc);
        reader.u32()?;
        Ok(SysCredential { machine: reader.opaque()?, uid: reader.u32()?, gid: reader.u32()? })
    }
}

/// The RPCSEC_GSS credential (RFC 2203, section 5; RFC 5403, section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GssCredential<'a> {
    /// RPCSEC_GSS version: 1, 2 or 3.
    pub version: u32,
    /// gss_proc.
    pub procedure: GssProcedure,
    /// seq_num.
    pub sequence: u32,
    /// service.
    pub service: GssService,
    /// The context handle.
    pub handle: &'a [u8],
}

impl<'a> GssCredential<'a> {
    /// Parses the body of a credential of flavor [`flavor::RPCSEC_GSS`].
    pub fn parse(body: &'a [u8]) -> Result<GssCredential<'a>, Stop> {
        let mut reader = Reader::new(body, Layer::RpcsecGss);
        let version = reader.u32()?;
        Ok(GssCredential {
            version,
            procedure: match reader.u32()? {
                0 => GssProcedure::Data,
                1 => GssProcedure::Init,
                2 => GssProcedure::ContinueInit,
                3 => GssProcedure::Destroy,
                4 if version == 2 => GssProcedure::BindChannel,
                other => GssProcedure::Unknown(other),
            },
            sequence: reader.u32()?,
            service: match reader.u32()? {
                1 => GssService::None,
                2 => GssService::Integrity,
                3 => GssService::Privacy,
                4 if version > 1 => GssService::ChannelProtection,
                other => GssService::Unknown(other),
            },
            handle: reader.opaque()?,
        })
    }
}

/// gss_proc of an RPCSEC_GSS credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum GssProcedure {
    Data,
    Init,
    ContinueInit,
    Destroy,
    BindChannel,
    Unknown(u32),
}

impl GssProcedure {
    /// Its name (RFC 5403, section 3.2); `None` for unassigned numbers.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            GssProcedure::Data => "RPCSEC_GSS_DATA",
            GssProcedure::Init => "RPCSEC_GSS_INIT",
            GssProcedure::ContinueInit => "RPCSEC_GSS_CONTINUE_INIT",
            GssProcedure::Destroy => "RPCSEC_GSS_DESTROY",
            GssProcedure::BindChannel => "RPCSEC_GSS_BIND_CHANNEL",
            GssProcedure::Unknown(_) => return None,
        })
    }
}

/// The service of an RPCSEC_GSS credential. With Kerberos: krb5, krb5i and krb5p.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GssService {
    /// rpc_gss_svc_none: only the header is protected.
    None,
    /// rpc_gss_svc_integrity: arguments and results are in the clear, with a checksum.
    Integrity,
    /// rpc_gss_svc_privacy: arguments and results are encrypted.
    Privacy,
    /// rpc_gss_svc_channel_prot: the channel protects everything, and verifiers are AUTH_NONE
    /// (RFC 5403, section 3.4).
    ChannelProtection,
    /// An unassigned number.
    Unknown(u32),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hand_written_call_is_parsed() {
        // RFC 5531, section 9: xid, CALL, rpcvers 2, NFS (100003) version 3, procedure 0, AUTH_NONE
        // twice.
        let words: [u32; 10] = [0x1122_3344, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let mut reader = Reader::new(&bytes, Layer::Rpc);
        let call = Call::parse(&mut reader).unwrap();
        assert_eq!(peek(&bytes), Ok((Xid(0x1122_3344), Kind::Call)));
        assert_eq!((call.program, call.version, call.procedure), (100_003, 3, 0));
        assert_eq!(called(&bytes[..24]), Ok((100_003, 3, 0)));
        assert_eq!(called(&bytes[..23]), Err(Stop::short(Layer::Rpc, 20, 4, 23)));
        assert_eq!(call.credential, Auth { flavor: flavor::NONE, body: &[] });
        assert!(reader.rest().is_empty());
        for length in 0..bytes.len() {
            let stop = Call::parse(&mut Reader::new(&bytes[..length], Layer::Rpc)).unwrap_err();
            assert_eq!(stop.offset + stop.available, length);
        }
    }

    #[test]
    fn hand_written_sys_credential_is_parsed() {
        // RFC 5531, appendix A: stamp, machinename "node1" with its padding, uid 1000, gid 100, one
        // group.
        let mut body = vec![0, 0, 0, 9, 0, 0, 0, 5, b'n', b'o', b'd', b'e', b'1', 0, 0, 0];
        body.extend([0, 0, 3, 0xe8, 0, 0, 0, 100, 0, 0, 0, 1, 0, 0, 0, 4]);
        let credential = SysCredential::parse(&body).unwrap();
        assert_eq!(credential, SysCredential { machine: b"node1", uid: 1000, gid: 100 });
        assert_eq!(SysCredential::parse(&body[..24]), Ok(credential));
        for length in 0..24 {
            let stop = SysCredential::parse(&body[..length]).unwrap_err();
            assert_eq!(stop.offset + stop.available, length);
        }
    }

    /// RFC 5531, section 9: the numbers of auth_stat.
    #[test]
    fn names_of_auth_stat() {
        let shown = |number| alloc::format!("{}", Status::AuthError(number));
        assert_eq!(shown(1), "AUTH_ERROR 1 (AUTH_BADCRED)");
        assert_eq!(shown(5), "AUTH_ERROR 5 (AUTH_TOOWEAK)");
        assert_eq!(shown(8), "AUTH_ERROR 8 (AUTH_KERB_GENERIC)");
        assert_eq!(shown(12), "AUTH_ERROR 12 (AUTH_NET_ADDR)");
        assert_eq!(shown(13), "AUTH_ERROR 13 (RPCSEC_GSS_CREDPROBLEM)");
        assert_eq!(shown(14), "AUTH_ERROR 14 (RPCSEC_GSS_CTXPROBLEM)");
        assert_eq!(shown(15), "AUTH_ERROR 15");
    }

    #[test]
    fn hand_written_gss_credential_is_parsed() {
        // RFC 2203, section 5.3.1: version 1, RPCSEC_GSS_DATA, sequence 9, integrity, a handle of
        // two bytes.
        let body = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 2, 0xab, 0xcd, 0, 0];
        let credential = GssCredential::parse(&body).unwrap();
        assert_eq!(credential.procedure, GssProcedure::Data);
        assert_eq!(credential.service, GssService::Integrity);
        assert_eq!((credential.sequence, credential.handle), (9, &[0xab, 0xcd][..]));
    }

    /// RFC 5403, section 3.2. RFC 7861, section 2.5, has no RPCSEC_GSS_BIND_CHANNEL.
    #[test]
    fn procedure_and_service_4_depend_on_the_version() {
        let parsed = |version| {
            let body = [0, 0, 0, version, 0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 0];
            GssCredential::parse(&body).map(|credential| (credential.procedure, credential.service))
        };
        assert_eq!(parsed(1), Ok((GssProcedure::Unknown(4), GssService::Unknown(4))));
        assert_eq!(parsed(2), Ok((GssProcedure::BindChannel, GssService::ChannelProtection)));
        assert_eq!(parsed(3), Ok((GssProcedure::Unknown(4), GssService::ChannelProtection)));
    }

    fn any_status() -> impl Strategy<Value = Status> {
        prop_oneof![
            Just(Status::Success),
            Just(Status::ProgramUnavailable),
            any::<(u32, u32)>().prop_map(|(low, high)| Status::ProgramMismatch { low, high }),
            Just(Status::ProcedureUnavailable),
            Just(Status::GarbageArguments),
            Just(Status::SystemError),
            (6u32..).prop_map(Status::UnknownAccepted),
            any::<(u32, u32)>().prop_map(|(low, high)| Status::RpcMismatch { low, high }),
            any::<u32>().prop_map(Status::AuthError),
            (2u32..).prop_map(Status::UnknownDenied),
        ]
    }

    proptest! {
        #[test]
        fn replies_round_trip(xid: u32, status in any_status(), flavor: u32, body in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut out = Vec::new();
            Reply { xid: Xid(xid), status, verifier: Some(Auth { flavor, body: &body }) }.build(&mut out);
            let mut reader = Reader::new(&out, Layer::Rpc);
            let reply = Reply::parse(&mut reader).unwrap();
            prop_assert_eq!(reply.status, status);
            if let Some(verifier) = reply.verifier {
                prop_assert_eq!(verifier, Auth { flavor, body: &body });
            }
            prop_assert!(reader.rest().is_empty());
        }

        #[test]
        fn calls_round_trip(fields: [u32; 6], credential in proptest::collection::vec(any::<u8>(), 0..20)) {
            let call = Call {
                xid: Xid(fields[0]),
                rpc_version: fields[1],
                program: fields[2],
                version: fields[3],
                procedure: fields[4],
                credential: Auth { flavor: fields[5], body: &credential },
                verifier: Auth { flavor: flavor::NONE, body: &[] },
            };
            let mut out = Vec::new();
            call.build(&mut out);
            prop_assert_eq!(Call::parse(&mut Reader::new(&out, Layer::Rpc)).unwrap(), call);
        }
    }
}
