//! Checks of a call's RPC header before its procedure is executed (RFC 5531, section 9).

use super::store::{MOST_NAME, Who};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use rdmascope_wire::rpc::{self, flavor};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Stop};

/// AUTH_BADCRED of auth_stat. Also used for an unsupported flavor, for which RFC 5531 has no value:
/// AUTH_REJECTEDCRED means "client must begin new session", which would repeat the flavor, and
/// AUTH_TOOWEAK means that a stronger flavor would be accepted.
const BAD_CREDENTIAL: u32 = 1;

/// Returns the reason to refuse a call before its procedure is executed: the RPC version is not 2,
/// the credential is neither AUTH_NONE nor a valid AUTH_SYS, or the program or version is not
/// `served`.
pub fn refusal(call: &rpc::Call<'_>, served: &[(u32, RangeInclusive<u32>)]) -> Option<rpc::Status> {
    admit(call, served).err()
}

/// Returns the caller, or the [`refusal`]. The order follows from the reply: an RPC version or
/// credential error denies the call, and only an accepted call has an accept_stat about program and
/// version.
pub(super) fn admit(call: &rpc::Call<'_>, served: &[(u32, RangeInclusive<u32>)]) -> Result<Who, rpc::Status> {
    if call.rpc_version != rpc::VERSION {
        return Err(rpc::Status::RpcMismatch { low: rpc::VERSION, high: rpc::VERSION });
    }
    let who = credential(call)?;
    let (_, versions) =
        served.iter().find(|(program, _)| *program == call.program).ok_or(rpc::Status::ProgramUnavailable)?;
    if !versions.contains(&call.version) {
        return Err(rpc::Status::ProgramMismatch { low: *versions.start(), high: *versions.end() });
    }
    Ok(who)
}

/// Returns the caller: nobody for AUTH_NONE, the given IDs for AUTH_SYS (RFC 5531, section 8.2 and
/// appendix A).
fn credential(call: &rpc::Call<'_>) -> Result<Who, rpc::Status> {
    match call.credential.flavor {
        flavor::NONE => Ok(Who { uid: 65_534, gid: 65_534, gids: vec![] }),
        flavor::SYS => auth_sys(call.credential.body).map_err(|_| rpc::Status::AuthError(BAD_CREDENTIAL)),
        _ => Err(rpc::Status::AuthError(BAD_CREDENTIAL)),
    }
}

/// Parses authsys_parms: stamp, machine name of at most 255 bytes, uid, gid, at most 16 groups.
fn auth_sys(body: &[u8]) -> Result<Who, Stop> {
    let mut reader = Reader::new(body, Layer::Rpc);
    reader.u32()?;
    let at = reader.position();
    if reader.opaque()?.len() > MOST_NAME {
        return Err(Stop::malformed(Layer::Rpc, at));
    }
    let (uid, gid, at) = (reader.u32()?, reader.u32()?, reader.position());
    let count = reader.u32()?;
    if count > 16 {
        return Err(Stop::malformed(Layer::Rpc, at));
    }
    let gids = (0..count).map(|_| reader.u32()).collect::<Result<Vec<u32>, Stop>>()?;
    Ok(Who { uid, gid, gids })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_wire::Xid;
    use rdmascope_wire::rpc::{Auth, Status};

    #[test]
    fn denial_takes_precedence_over_accept_errors() {
        let none = Auth { flavor: flavor::NONE, body: &[] };
        let tls = Auth { flavor: flavor::TLS, body: &[] };
        let short = Auth { flavor: flavor::SYS, body: &[0; 4] };
        let (xid, procedure) = (Xid(1), 0);
        let call = rpc::Call {
            xid,
            rpc_version: 2,
            program: 7,
            version: 4,
            procedure,
            credential: none,
            verifier: none,
        };
        let served = [(6, 1..=2), (7, 3..=4)];
        assert_eq!(refusal(&call, &served), None);
        // Each call has all errors of the following ones.
        let mut wrong = rpc::Call { rpc_version: 3, credential: tls, program: 8, version: 9, ..call };
        assert_eq!(refusal(&wrong, &served), Some(Status::RpcMismatch { low: 2, high: 2 }));
        wrong.rpc_version = 2;
        assert_eq!(refusal(&wrong, &served), Some(Status::AuthError(1)));
        wrong.credential = short;
        assert_eq!(refusal(&wrong, &served), Some(Status::AuthError(1)));
        wrong.credential = none;
        assert_eq!(refusal(&wrong, &served), Some(Status::ProgramUnavailable));
        wrong.program = 7;
        assert_eq!(refusal(&wrong, &served), Some(Status::ProgramMismatch { low: 3, high: 4 }));
    }
}
