//! Parsing of the RPC messages of a transaction.

use super::identity::hash;
use super::open::{Open, saturate};
use crate::transaction::{AuthFault, GssCall, Message, Part, Security, Transaction, User};
use crate::ulb::{self, Chunks, OperationKind, Payload};
use rdmascope_wire::rpc::{self, Auth, GssCredential, GssProcedure, GssService, SysCredential, flavor};
use rdmascope_wire::rpcrdma::{Procedure, Segment};
use rdmascope_wire::{Layer, Stop, Xid};

impl Open {
    /// Parses the call from its Payload stream. `complete` means that no byte of the stream is
    /// missing.
    pub(super) fn read_call(&mut self, stream: &[u8], complete: bool) {
        self.call_read = true;
        let mut payload = Payload::new(stream, Chunks::Read(&self.read_lengths));
        let stop = read_call(&mut self.transaction, &mut payload).err().or(payload.disallowed());
        self.note_stop(stop, complete, false);
    }

    /// Parses the reply from its Payload stream. `complete` means that no byte of the stream is
    /// missing.
    pub(super) fn read_reply(&mut self, stream: &[u8], complete: bool) {
        self.reply_read = true;
        let mut payload = Payload::new(stream, Chunks::Write(&self.write_lengths));
        let stop = read_reply(&mut self.transaction, &mut payload).err().or(payload.disallowed());
        self.note_stop(stop, complete, true);
    }

    /// Parses a call in a Position Zero Read chunk, as far as it was captured.
    pub(super) fn read_long_call(&mut self) {
        if self.call_read {
            return;
        }
        let Some(call) = &self.transaction.call else { return };
        let Some(index) = call.read_chunks.iter().position(|chunk| chunk.position == 0) else { return };
        let segments = call.read_chunks[index].segments.clone();
        let used = segments.iter().map(|segment| segment.length);
        let end = self.gather(Part::ReadChunk(saturate(index)), false, used);
        let stream = core::mem::take(&mut self.call_stream);
        self.read_call(&stream[..end], end as u64 == Segment::total(&segments));
        self.call_stream = stream;
    }

    /// Parses a reply in the Reply chunk, or in a Position Zero Read chunk of the responder.
    pub(super) fn read_long_reply(&mut self) {
        let Some(reply) = &self.transaction.reply else { return };
        if self.reply_read || reply.procedure != Procedure::Nomsg {
            return;
        }
        let provided = reply.provided();
        let (part, segments) = match (provided, &reply.reply_chunk) {
            (Some(index), _) => (Part::ReadChunk(saturate(index)), reply.read_chunks[index].segments.clone()),
            (None, Some(chunk)) => (Part::ReplyChunk, chunk.segments.clone()),
            (None, None) => return,
        };
        let end = self.gather(part, provided.is_some(), segments.iter().map(|segment| segment.length));
        let stream = core::mem::take(&mut self.reply_stream);
        self.read_reply(&stream[..end], end as u64 == Segment::total(&segments));
        self.reply_stream = stream;
    }

    fn note_stop(&mut self, stop: Option<Stop>, complete: bool, of_reply: bool) {
        let Some(stop) = stop.map(|stop| if complete { stop } else { stop.in_cut_capture() }) else { return };
        let Transaction { stop: first, call, reply, .. } = &mut self.transaction;
        first.get_or_insert(stop);
        if let Some(message) = if of_reply { reply } else { call } {
            message.unread = Some(stop);
        }
    }
}

/// The XID of an RPC message. A chunk that holds a Payload stream begins with one in any case, a
/// Send with a header may hold something else after it.
fn xid_of(message: &Message, stream: &[u8]) -> Option<Xid> {
    match message.procedure {
        Procedure::Nomsg => stream.first_chunk().map(|bytes| Xid(u32::from_be_bytes(*bytes))),
        _ => rpc::peek(stream).ok().map(|(xid, _)| xid),
    }
}

fn read_call(transaction: &mut Transaction, payload: &mut Payload<'_>) -> Result<(), Stop> {
    if let Some(message) = &mut transaction.call {
        message.rpc_xid = xid_of(message, payload.reader().rest());
    }
    let (program, version, number) = rpc::called(payload.reader().rest())?;
    let procedure = ulb::Procedure { program, version, number };
    transaction.procedure = Some(procedure);
    let call = rpc::Call::parse(payload.reader()).map_err(in_rpc)?;
    let security = security(&call.credential);
    transaction.security = Some(security);
    transaction.user = user(&call.credential, &mut transaction.details);
    transaction.gss = gss_call(&call.credential);
    if let Some(message) = &mut transaction.call {
        message.auth_fault = credential_fault(&call.credential).or_else(|| verifier_fault(&call.verifier));
    }
    if enter(security, payload)? {
        ulb::call(procedure, payload, &mut transaction.details)?;
        if let Some(message) = &mut transaction.call {
            message.unused = unused(security, procedure, &transaction.details, payload);
        }
    }
    Ok(())
}

fn read_reply(transaction: &mut Transaction, payload: &mut Payload<'_>) -> Result<(), Stop> {
    if let Some(message) = &mut transaction.reply {
        message.rpc_xid = xid_of(message, payload.reader().rest());
    }
    let reply = rpc::Reply::parse(payload.reader()).map_err(in_rpc)?;
    transaction.rpc_status = Some(reply.status);
    if let Some(message) = &mut transaction.reply {
        message.auth_fault = reply.verifier.as_ref().and_then(verifier_fault);
    }
    if reply.status.has_no_results()
        && let Some(message) = &mut transaction.reply
    {
        message.unused = payload.reader().rest().len() as u32;
    }
    // Without the call, the procedure of the results is unknown.
    let (Some(procedure), rpc::Status::Success) = (transaction.procedure, reply.status) else {
        return Ok(());
    };
    // If the capture cut off the credential, the verifier of the reply shows at least whether it
    // was RPCSEC_GSS.
    let plain = reply.verifier.is_none_or(|verifier| verifier.flavor != flavor::RPCSEC_GSS);
    let security = transaction.security.unwrap_or(if plain { Security::None } else { Security::GssUnknown });
    if let Some(gss) = &mut transaction.gss
        && gss.sequence.is_none()
    {
        // A window that cannot be parsed stays unknown, and has no other effect.
        let _ = note_window(gss, payload);
    }
    if enter(security, payload)? {
        let outcome = ulb::reply(procedure, payload, &mut transaction.details);
        // The status precedes the results, so it is known even if they cannot be parsed completely.
        transaction.status = transaction.details.status;
        outcome?;
        if let Some(message) = &mut transaction.reply {
            message.unused = unused(security, procedure, &transaction.details, payload);
        }
    }
    Ok(())
}

/// Number of bytes after arguments or results that were parsed completely.
fn unused(
    security: Security,
    procedure: ulb::Procedure,
    details: &ulb::Details,
    payload: &mut Payload<'_>,
) -> u32 {
    let unused = payload.reader().rest().len() as u32;
    let is_unknown = |operation: &ulb::Operation| {
        matches!(operation.kind, OperationKind::Unknown(_) | OperationKind::UnknownProcedure(_))
    };
    let is_read = unused == 0
        || security != Security::GssIntegrity
            && ulb::has_binding(procedure.program, procedure.version)
            && !details.operations.iter().any(is_unknown);
    if is_read { unused } else { 0 }
}

/// Skips the RPCSEC_GSS fields before arguments or results. Returns false if those are not
/// readable.
fn enter(security: Security, payload: &mut Payload<'_>) -> Result<bool, Stop> {
    match security {
        // RFC 2203, section 5.3.2.2: a counted databody of sequence number and arguments, then a
        // checksum.
        Security::GssIntegrity => {
            payload.u32()?;
            payload.u32()?;
            Ok(true)
        }
        Security::GssPrivacy | Security::GssControl(_) | Security::GssUnknown => Ok(false),
        _ => Ok(true),
    }
}

fn security(credential: &Auth<'_>) -> Security {
    match credential.flavor {
        flavor::NONE => Security::None,
        flavor::SYS => Security::Sys,
        flavor::RPCSEC_GSS => {
            GssCredential::parse(credential.body).map_or(Security::GssUnknown, |gss| gss_security(&gss))
        }
        other => Security::Other(other),
    }
}

/// gss_proc decides whether a call controls a context. Only RPCSEC_GSS_DATA has a service that
/// protects arguments and results.
fn gss_security(credential: &GssCredential<'_>) -> Security {
    match (credential.procedure, credential.service) {
        (GssProcedure::Data, GssService::None | GssService::ChannelProtection) => Security::Gss,
        (GssProcedure::Data, GssService::Integrity) => Security::GssIntegrity,
        (GssProcedure::Data, GssService::Privacy) => Security::GssPrivacy,
        (GssProcedure::Data, GssService::Unknown(_)) | (GssProcedure::Unknown(_), _) => Security::GssUnknown,
        (procedure, _) => Security::GssControl(procedure),
    }
}

fn credential_fault(credential: &Auth<'_>) -> Option<AuthFault> {
    /// Bytes of the shortest AUTH_SYS credential with too many groups. It is shorter than one with a
    /// machine name that is too long.
    const SHORTEST: usize = 4 * (6 + SysCredential::MOST_GROUPS as usize);
    let Auth { flavor, body } = *credential;
    if body.len() > Auth::MOST {
        return Some(AuthFault::LongCredential(body.len() as u32));
    }
    if flavor != flavor::SYS || body.len() < SHORTEST {
        return None;
    }
    let machine = SysCredential::parse(body).ok()?.machine.len();
    if machine > SysCredential::LONGEST_MACHINE {
        return Some(AuthFault::MachineName(machine as u32));
    }
    let groups = SysCredential::groups(body).ok()?;
    (groups > SysCredential::MOST_GROUPS).then_some(AuthFault::Groups(groups))
}

fn verifier_fault(verifier: &Auth<'_>) -> Option<AuthFault> {
    (verifier.body.len() > Auth::MOST).then_some(AuthFault::LongVerifier(verifier.body.len() as u32))
}

fn user(credential: &Auth<'_>, details: &mut ulb::Details) -> Option<User> {
    if credential.flavor != flavor::SYS {
        return None;
    }
    let SysCredential { machine, uid, gid } = SysCredential::parse(credential.body).ok()?;
    Some(User { machine: details.keep(machine), uid, gid })
}

/// The context and the sequence number of a call.
fn gss_call(credential: &Auth<'_>) -> Option<GssCall> {
    if credential.flavor != flavor::RPCSEC_GSS {
        return None;
    }
    let gss = GssCredential::parse(credential.body).ok()?;
    let establishes = matches!(gss.procedure, GssProcedure::Init | GssProcedure::ContinueInit);
    let sequence = (!establishes).then_some(gss.sequence);
    Some(GssCall { context: hash(gss.handle), sequence, window: None })
}

/// Parses an `rpc_gss_init_res` up to its window (RFC 2203, section 5.2.3.1).
fn note_window(gss: &mut GssCall, payload: &mut Payload<'_>) -> Result<(), Stop> {
    let handle = payload.opaque()?;
    let (major, _minor, window) = (payload.u32()?, payload.u32()?, payload.u32()?);
    // GSS_S_COMPLETE. The window of GSS_S_CONTINUE_NEEDED does not count yet.
    if major == 0 {
        (gss.context, gss.window) = (hash(handle), Some(window));
    }
    Ok(())
}

/// Sets the layer of a stop to RPC, because the RPC header is parsed with the cursor of the upper
/// layer.
fn in_rpc(stop: Stop) -> Stop {
    Stop { layer: Layer::Rpc, ..stop }
}
