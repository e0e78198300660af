//! What is looked at in the header of a call before a procedure is (RFC 5531, section 9).

use super::store::{MOST_NAME, Who};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use rdmascope_wire::rpc::{self, flavor};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Stop};

/// AUTH_BADCRED of auth_stat. It is for a flavor that is not served too, for which RFC 5531 has no value of its own: AUTH_REJECTEDCRED says
/// "client must begin new session", and a new session would bring the same flavor again; AUTH_TOOWEAK says that a stronger one would do.
const BAD_CREDENTIAL: u32 = 1;

/// Why a call is refused before its procedure is looked at, where it is: it is not of RPC version 2, its credential is neither AUTH_NONE nor a
/// right AUTH_SYS, or its program or version is not among those `served`.
pub fn refusal(call: &rpc::Call<'_>, served: &[(u32, RangeInclusive<u32>)]) -> Option<rpc::Status> {
    admit(call, served).err()
}

/// Who calls, or the [`refusal`]. The order follows from the reply: a version of RPC and a credential that are not taken deny the call, and only
/// of a call that was accepted does accept_stat say whether its program and version are there.
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

/// Who calls: AUTH_NONE is nobody, AUTH_SYS is who it says (RFC 5531, section 8.2 and appendix A).
fn credential(call: &rpc::Call<'_>) -> Result<Who, rpc::Status> {
    match call.credential.flavor {
        flavor::NONE => Ok(Who { uid: 65_534, gid: 65_534, gids: vec![] }),
        flavor::SYS => auth_sys(call.credential.body).map_err(|_| rpc::Status::AuthError(BAD_CREDENTIAL)),
        _ => Err(rpc::Status::AuthError(BAD_CREDENTIAL)),
    }
}

/// authsys_parms: stamp, machine name of 255 bytes at most, uid, gid, 16 groups at most.
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
    fn what_denies_a_call_comes_before_what_is_said_of_an_accepted_one() {
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
        // Each has all that is wrong with the one behind it.
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
