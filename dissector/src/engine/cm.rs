//! CM messages: setup and closing of connections (IBTA volume 1, section 12.9).

use super::ends::Speaker;
use super::newcomers::Held;
use super::{EndRef, Stage};
use crate::connection::{FlowKey, Origin, State};
use crate::frame::{Address, Frame};
use crate::observation::{Announced, Closes, Closing, Managed, Meaning, Observed};
use crate::protocol::Protocol;
use crate::rdma::End;
use crate::record::Time;
use crate::transaction::Seen;
use rdmascope_wire::cm::{
    CommunicationId, DisconnectRequest, Message, ReadyToUse, Reject, Rejected, Reply, Request,
    TransportServiceType,
};
use rdmascope_wire::rpcrdma::NFS_PORT;

/// Handles a CM message and returns the end that sent it.
pub(super) fn handle(
    stage: &mut Stage<'_>,
    frame: &Frame<'_>,
    (message, mad): (&Message<'_>, &[u8]),
    seen: Seen,
) -> Option<EndRef> {
    let now = seen.time;
    let (from, to) = (frame.source, frame.destination);
    let is_cut = message.is_cut();
    stage.context = frame.context;
    stage.sessions.note_hosts(from, to, frame.context);
    stage.release_named(from, to, message);
    let place = match message {
        Message::Request(request) => requested(stage, from, to, request, is_cut, now)?,
        Message::Reply(reply) => replied(stage, from, to, reply, is_cut, now)?,
        Message::DisconnectRequest(request) => disconnecting(stage, from, to, request)?,
        Message::Reject(reject) => rejecting(stage, (from, to), reject, seen)?,
        Message::DisconnectReply(reply) => {
            let place = sender(stage, to, reply.remote_communication_id)?;
            stage.sessions.close(place.session, stage.transactions, stage.report);
            place
        }
        Message::ReadyToUse(ready) => ready_to_use(stage, (from, to), ready)?,
        Message::MessageReceiptAcknowledgement(message) => {
            sender(stage, to, message.remote_communication_id)?
        }
        Message::LoadAlternatePath(load) => sender(stage, to, load.remote_communication_id)?,
        Message::AlternatePathResponse(response) => sender(stage, to, response.remote_communication_id)?,
        Message::ServiceIdResolutionRequest(_)
        | Message::ServiceIdResolutionReply(_)
        | Message::Unknown { .. } => return None,
    };
    let session = stage.sessions.session(place.session);
    session.ends[place.end].contexts.note(frame.context);
    session.span.1 = session.span.1.max(now);
    session.recent = true;
    stage.transactions.number(&mut session.peers);
    session.note_dropped(stage.transactions, stage.report);
    session.ends[place.end].first_frames.cm_message.get_or_insert(seen.frame);
    let is_judged = stage.transactions.is_judged();
    if stage.transactions.observes() {
        if let Some(announced) = announced((place.end, session.state), seen, message) {
            session.peers.observe(Observed::Announced(&announced), stage.report);
        }
        if let Message::DisconnectRequest(_) = message {
            let closes = Closes { from: place.end, seen, how: Closing::DisconnectRequest, numbers: None };
            session.peers.observe(Observed::Closes(closes), stage.report);
        }
        let managed = Managed { from: place.end, seen, message, mad };
        session.peers.observe(Observed::Managed(&managed), stage.report);
    }
    if is_judged && !matches!(message, Message::ReadyToUse(_) | Message::MessageReceiptAcknowledgement(_)) {
        let connection = session.summary();
        session.peers.observe(Observed::Established(&connection), stage.report);
    }
    Some(place)
}

/// The observation of a REQ, REP or REJ, after which the connection has this state.
fn announced<'a>((from, state): (End, State), seen: Seen, message: &Message<'a>) -> Option<Announced<'a>> {
    let (meaning, private_data) = match message {
        Message::Request(request) => (Meaning::Asks, request.consumer_private_data()),
        Message::Reply(reply) => (Meaning::Accepts, reply.private_data),
        Message::Reject(reject) if state == State::Requested => (Meaning::GivesUp, reject.private_data),
        Message::Reject(reject) => (Meaning::Rejects(Some(reject.reason)), reject.private_data),
        _ => return None,
    };
    let is_cut = message.is_cut();
    let name = message.name();
    Some(Announced { from, seen, name, meaning, private_data, is_cut, position: None, expects: None })
}

/// Handles an RTU. It proves that the REP arrived, even if the capture lacks it. Then the ID of its
/// receiver may be known from an earlier connection only.
fn ready_to_use(
    stage: &mut Stage<'_>,
    (from, to): (Address, Address),
    ready: &ReadyToUse<'_>,
) -> Option<EndRef> {
    let id = ready.local_communication_id;
    let by_sender = stage.sessions.find_exchange_anywhere(from, id, Speaker::Named, stage.context);
    let place = by_sender.or_else(|| sender(stage, to, ready.remote_communication_id))?;
    let session = stage.sessions.session(place.session);
    if session.state == State::Requested {
        session.state = State::Open;
    }
    Some(place)
}

/// The sender of a message: the other end of the one whose ID the message names.
fn sender(stage: &Stage<'_>, to: Address, id: CommunicationId) -> Option<EndRef> {
    let receiver = stage.sessions.find_exchange_anywhere(to, id, Speaker::Other, stage.context)?;
    Some(receiver.other())
}

/// Handles a REJ. A requester that gives up because no REP came sends one too. It names only its own
/// ID, and its connection stays requested.
fn rejecting(
    stage: &mut Stage<'_>,
    (from, to): (Address, Address),
    reject: &Reject<'_>,
    seen: Seen,
) -> Option<EndRef> {
    let id = reject.local_communication_id;
    let by_sender = || stage.sessions.find_exchange_anywhere(from, id, Speaker::Named, stage.context);
    let place = sender(stage, to, reject.remote_communication_id).or_else(by_sender)?;
    let session = stage.sessions.session(place.session);
    let is_requester = session.peers.requester == Some(place.end);
    if session.state != State::Requested || !is_requester || reject.message_rejected == Rejected::Reply {
        session.state = State::Rejected(reject.reason);
        session.ends[place.end].first_frames.reject.get_or_insert(seen.frame);
    }
    Some(place)
}

fn requested(
    stage: &mut Stage<'_>,
    from: Address,
    to: Address,
    request: &Request<'_>,
    is_cut: bool,
    now: Time,
) -> Option<EndRef> {
    if request.transport_service_type != TransportServiceType::ReliableConnection {
        return None;
    }
    let id = request.local_communication_id;
    let known = stage.sessions.find_exchange(from, id, Speaker::Named, stage.context).filter(|place| {
        // A communication ID may be reused: for another queue pair, or after the connection is
        // over.
        let session = stage.sessions.session(place.session);
        let qpn = session.ends[place.end].qpn;
        matches!(session.state, State::Requested | State::Open)
            && qpn.is_none_or(|qpn| qpn == request.local_qpn)
    });
    let key = FlowKey { source: to, destination: from, destination_qp: request.local_qpn };
    let active = match known {
        // A repeated REQ has nothing new.
        Some(place) if stage.sessions.session(place.session).origin == Origin::Cm => return Some(place),
        // The REP was captured first.
        Some(place) => place,
        None if stage.holds_newcomers() => {
            let ids = [Some((from, request.local_communication_id)), None];
            stage.hold(|record, dropped| Held::message(record, dropped, &key, ids));
            return None;
        }
        None => {
            let session = stage.sessions.add([from, to], now, stage.transactions, stage.report);
            let active = EndRef { session, end: End::First };
            stage.sessions.note_context(active, stage.context);
            stage.sessions.name(from, request.local_communication_id, active);
            stage.sessions.session(session).state = State::Requested;
            active
        }
    };
    let passive = active.other();
    let connection = stage.sessions.session(active.session);
    connection.origin = Origin::Cm;
    connection.port = request.service_id.rdma_cm_port().map(|(_, port)| port);
    connection.agree_on_path_mtu(request.path_mtu_bytes());
    connection.partition_key = Some(request.partition_key);
    connection.limit_reads(passive.end, request.responder_resources);
    connection.peers.requester = Some(active.end);
    if let Some(Ok((header, _))) = request.rdma_cm_ip() {
        connection.ends[active.end].ip = header.source();
        connection.ends[passive.end].ip = header.destination();
        connection.peers.ips = End::BOTH.map(|end| connection.ends[end].ip);
    }
    connection.ends[active.end].note_private_data(request.consumer_private_data(), is_cut);
    let protocol = Protocol::of_service(request.service_id);
    connection.peers.protocol = connection.peers.protocol.or(protocol);
    let speaks = connection.port == Some(NFS_PORT) || connection.ends[active.end].private_data.is_some();
    connection.peers.speaks_rpc = connection.peers.speaks_rpc.or(speaks.then_some(true));
    // Each side names the PSN that it expects first: that of the other side's first request.
    if !connection.peers.paired {
        connection.begin(passive.end, request.starting_psn);
    }
    stage.known.take(&key);
    stage.sessions.claim(key, passive, stage.transactions, stage.report);
    Some(active)
}

fn replied(
    stage: &mut Stage<'_>,
    from: Address,
    to: Address,
    reply: &Reply<'_>,
    is_cut: bool,
    now: Time,
) -> Option<EndRef> {
    let key = FlowKey { source: to, destination: from, destination_qp: reply.local_qpn };
    let id = reply.remote_communication_id;
    let active = match stage.sessions.find_exchange_anywhere(to, id, Speaker::Other, stage.context) {
        Some(active) => {
            let passive = active.other();
            if stage.sessions.session(active.session).peers.paired {
                return Some(passive);
            }
            active
        }
        None if stage.holds_newcomers() => {
            let ids = [(to, reply.remote_communication_id), (from, reply.local_communication_id)];
            stage.hold(|record, dropped| Held::message(record, dropped, &key, ids.map(Some)));
            return None;
        }
        // The capture starts between REQ and REP: the queue pair of the active side is unknown.
        None => {
            let session = stage.sessions.add([to, from], now, stage.transactions, stage.report);
            let active = EndRef { session, end: End::First };
            stage.sessions.name(to, reply.remote_communication_id, active);
            stage.sessions.session(session).peers.requester = Some(active.end);
            active
        }
    };
    let passive = active.other();
    stage.sessions.note_context(passive, stage.context);
    stage.sessions.name(from, reply.local_communication_id, passive);
    let connection = stage.sessions.session(active.session);
    connection.state = State::Open;
    connection.ends[passive.end].note_private_data(reply.private_data, is_cut);
    if connection.ends[passive.end].private_data.is_some() {
        connection.peers.speaks_rpc = Some(true);
    }
    stage.known.take(&key);
    let begins = (reply.starting_psn, now);
    let Stage { sessions, transactions, report, .. } = stage;
    let joined = sessions.join_announced((&key, active), begins, transactions, report);
    let active = joined.unwrap_or_else(|| {
        sessions.session(active.session).begin(active.end, reply.starting_psn);
        sessions.claim(key, active, transactions, report);
        active
    });
    sessions.session(active.session).limit_reads(active.end, reply.responder_resources);
    Some(active.other())
}

fn disconnecting(
    stage: &mut Stage<'_>,
    from: Address,
    to: Address,
    request: &DisconnectRequest<'_>,
) -> Option<EndRef> {
    // If the CM setup was not captured, the queue pair identifies the connection.
    let key = FlowKey { source: from, destination: to, destination_qp: request.remote_qpn };
    let place = match sender(stage, to, request.remote_communication_id) {
        Some(place) => place,
        None => stage.sessions.find_flow(&key, stage.context)?,
    };
    stage.sessions.close(place.session, stage.transactions, stage.report);
    Some(place)
}
