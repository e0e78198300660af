//! The reverse direction (RFC 8167), and the backchannel that NFS makes of it (RFC 8267, section 6.5; RFC 8881).
//!
//! Whether a callback came too early is decided when the connection ends, since only then it is known whether the capture holds all that
//! the client sent up to there. Limits of the backchannel are those of the sessions that were created on the connection itself; where one may have been
//! created or bound that the capture does not show, there are none.

use super::finding::{Basis, Finding, Value};
use super::rule::{Check, Document, Findings, Gate, Level, Rule, Source, Unseen};
use super::view::{Known, Memory, View};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::observation::Observed;
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Direction, Message, Security, Seen, Transaction};
use rdmascope_dissector::ulb::{Callback, ChannelAttributes, OperationKind};
use rdmascope_wire::Xid;
use rdmascope_wire::rpc::program;
use rdmascope_wire::rpcrdma::{Error, Procedure};

const SUPPORT: Source = Source { document: Document::Rfc8167, section: "6" };
const CALL: Source = Source { document: Document::Rfc8167, section: "5.1" };
const REPLY: Source = Source { document: Document::Rfc8167, section: "5.2" };
const CHUNKS: Source = Source { document: Document::Rfc8167, section: "5.3" };
const RETRANSMISSION: Source = Source { document: Document::Rfc8167, section: "5.4" };
const CALLBACKS: Source = Source { document: Document::Rfc8267, section: "6.5.2" };
const CHANNELS: Source = Source { document: Document::Rfc8881, section: "2.10.3.1" };
const BIND: Source = Source { document: Document::Rfc8881, section: "18.34" };
const CREATE: Source = Source { document: Document::Rfc8881, section: "18.36" };
const SEQUENCE: Source = Source { document: Document::Rfc8881, section: "20.9" };

/// The operation that a CB_COMPOUND of minor versions 1 and 2 begins with.
const CB_SEQUENCE: OperationKind = OperationKind::Callback(Callback::Sequence);

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "reverse-before-offer",
        level: Level::Violation,
        sources: &[SUPPORT, CHANNELS],
        sentence: "A server calls back over a connection only after the client offered that connection for callbacks.",
        explanation: "A client offers a connection with a CREATE_SESSION that has CREATE_SESSION4_FLAG_CONN_BACK_CHAN set, or with a \
            BIND_CONN_TO_SESSION that names the backchannel, sent on the same connection. A client of NFS version 4.0 or older makes no \
            offer. A callback is too early if the client answered it before it sent an offer, or if there was no offer at all. The \
            finding is reported once, when the connection ends, and only where the capture holds the connection from its CM exchange \
            on. It is inconclusive where the capture lacks a packet of the client, or where a call of the client could not be read. \
            Nothing is reported where calls are encrypted.",
        check: Check::Connection(before_offer),
    },
    Rule {
        id: "reverse-after-refusal",
        level: Level::Warning,
        sources: &[CHANNELS, BIND, CREATE],
        sentence: "A server does not call back over a connection that it did not accept for the backchannel.",
        explanation: "The client offered the connection, and no result of CREATE_SESSION or BIND_CONN_TO_SESSION on it accepted the \
            backchannel, but callbacks came. The finding is reported once, when the connection ends, where the capture holds all that \
            both ends sent.",
        check: Check::Connection(after_refusal),
    },
    Rule {
        id: "reverse-not-offered",
        level: Level::Violation,
        sources: &[CREATE, BIND],
        sentence: "A server accepts a connection for the backchannel only if the client offered it.",
        explanation: "csr_flags is compared with csa_flags (CREATE_SESSION4_FLAG_CONN_BACK_CHAN), and bctsr_dir with bctsa_dir. The \
            rule is decided where both the call and the result were captured.",
        check: Check::Transaction(not_offered),
    },
    Rule {
        id: "reverse-attributes",
        level: Level::Violation,
        sources: &[CREATE],
        sentence: "A server keeps ca_maxoperations and ca_maxrequests of the backchannel as the client asked, and does not raise \
            ca_maxrequestsize or ca_maxresponsesize.",
        explanation: "csr_back_chan_attrs is compared with csa_back_chan_attrs of the same CREATE_SESSION.",
        check: Check::Transaction(attributes),
    },
    Rule {
        id: "reverse-operations",
        level: Level::Violation,
        sources: &[CREATE],
        sentence: "A CB_COMPOUND has no more operations than ca_maxoperations of the backchannel allows.",
        explanation: "The limit is the largest one of all sessions created on the connection, as asked for or as granted. Nothing is \
            decided where the capture may lack the creation of a session, or where a session was bound to the connection.",
        check: Check::Transaction(operations),
    },
    Rule {
        id: "reverse-size",
        level: Level::Violation,
        sources: &[CREATE, CALLBACKS],
        sentence: "Messages of the backchannel are no longer than its ca_maxrequestsize and ca_maxresponsesize allow.",
        explanation: "The length is that of the RPC message before reduction, from the RPC header on. The limits are found as for \
            reverse-operations.",
        check: Check::Transaction(size),
    },
    Rule {
        id: "reverse-program",
        level: Level::Violation,
        sources: &[CREATE],
        sentence: "A callback calls the program that the client named in CREATE_SESSION or BACKCHANNEL_CTL.",
        explanation: "The programs are csa_cb_program and bca_cb_program of the sessions created on the connection. Nothing is decided \
            where the capture may lack the creation of a session, or where a session was bound to the connection.",
        check: Check::Transaction(program),
    },
    Rule {
        id: "reverse-sequence",
        level: Level::Violation,
        sources: &[SEQUENCE],
        sentence: "A CB_COMPOUND on a backchannel begins with CB_SEQUENCE.",
        explanation: "This holds for every minor version. Callbacks of minor version 0 use a connection of their own, on which they are \
            forward calls.",
        check: Check::Transaction(sequence),
    },
    Rule {
        id: "reverse-version",
        level: Level::Violation,
        sources: &[CALL],
        sentence: "Calls in both directions on one connection have the same rdma_vers.",
        explanation: "The rule is decided for reverse-direction calls that were answered. A message without an answer may not have been \
            a call.",
        check: Check::Transaction(version),
    },
    Rule {
        id: "reverse-long-message",
        level: Level::Violation,
        sources: &[CALLBACKS],
        sentence: "Callbacks are Short messages unless the client said that it accepts Long Calls.",
        explanation: "A client that accepts Long Calls asks for a ca_maxrequestsize of the backchannel that is larger than the inline \
            thresholds. A callback with a Read chunk breaks the rule where no session created on the connection asked for that. The \
            limits are found as for reverse-operations.",
        check: Check::Transaction(long_message),
    },
    Rule {
        id: "reverse-chunks-unread",
        level: Level::Violation,
        sources: &[CHUNKS],
        sentence: "A Responder that does not read the chunks of a reverse-direction call answers it with ERR_CHUNK.",
        explanation: "The rule is broken where the call lists Read chunks, no RDMA READ of them was seen, and the reply is no \
            RDMA_ERROR. The finding stands once it is certain that the capture holds all that the client sent up to the reply.",
        check: Check::Transaction(chunks_unread),
    },
    Rule {
        id: "reverse-chunks-refused",
        level: Level::Warning,
        sources: &[CHUNKS],
        sentence: "A server offers no chunks in the reverse direction to a client that refused them before.",
        explanation: "A client without support for chunks answers a reverse-direction call that has some with ERR_CHUNK. Each later \
            call with chunks on the same connection is reported.",
        check: Check::Transaction(chunks_refused),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: SUPPORT,
        requirement: "A client has Receive buffers ready for callbacks before it offers a connection for them.",
        reason: "Receive buffers are not on the wire. A missing one shows as an RNR NAK, which has other causes too.",
    },
    Unseen {
        source: SUPPORT,
        requirement: "An upper layer other than NFS calls in the reverse direction only after its peer said that it is prepared.",
        reason: "Each upper layer has its own way to say so. Only that of NFS is known here.",
    },
    Unseen {
        source: CALL,
        requirement: "The msg_type of a reverse-direction call is CALL.",
        reason: "Only msg_type distinguishes a call from a reply. With another value the message is judged as a reply without a call.",
    },
    Unseen {
        source: REPLY,
        requirement: "The msg_type of a reverse-direction reply is REPLY.",
        reason: "Only msg_type distinguishes a reply from a call. With another value the message is judged as a call.",
    },
    Unseen {
        source: RETRANSMISSION,
        requirement: "A client keeps a connection open as long as the server may have a reason to call back.",
        reason: "One connection does not show which state the server holds, or whether another connection carries the backchannel.",
    },
    Unseen {
        source: CREATE,
        requirement: "A server has no more callbacks of one session outstanding than ca_maxrequests of its backchannel.",
        reason: "A backchannel may use several connections. On each of them credits are judged instead.",
    },
];

/// Callbacks on a connection, and what allows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backchannel {
    /// The first call that offers the connection.
    offer: Option<Seen>,
    /// Calls that offer it and are not answered yet.
    unanswered: u32,
    /// Some result took it.
    taken: bool,
    /// The reply that first declined it.
    declined: Option<u64>,
    /// Calls of the client that could not be read: they may have been offers.
    unread: bool,
    /// Some of these were encrypted or wrapped.
    sealed: bool,
    /// NFS version and minor version of the client's last call before an offer.
    spoken: Option<(u32, Option<u32>)>,
    /// Callbacks that ended before an offer was sent.
    early: Callbacks,
    /// Callbacks after the connection was declined.
    refused: Callbacks,
    /// What the sessions created on the connection allow at most.
    limits: Option<ChannelAttributes>,
    /// The largest ca_maxrequestsize that a client asked for.
    largest_asked: u32,
    /// Callback programs that clients named.
    programs: Vec<u32>,
    /// There may be sessions whose limits are not known.
    unlimited: bool,
    /// rdma_vers of the first call of the forward direction.
    version: Option<(u32, u64)>,
    /// The ERR_CHUNK that first answered a reverse-direction call with chunks.
    err_chunk: Option<u64>,
    /// Up to which frame the capture holds all that each end sent, as the end of the connection shows.
    complete: [Option<u64>; 2],
}

/// Some callbacks.
#[derive(Clone, Debug, Default)]
struct Callbacks {
    count: u64,
    /// XID and number of the first.
    first: Option<(Xid, u64)>,
    /// The packets that completed the calls, of as many as a finding names, with whether each was answered.
    calls: Vec<(Seen, bool)>,
}

impl Callbacks {
    fn note(&mut self, transaction: &Transaction, call: &Message) {
        self.count += 1;
        self.first.get_or_insert((transaction.xid, transaction.number));
        if self.calls.len() < Finding::MOST_FRAMES {
            self.calls.push((call.seen, transaction.reply.is_some()));
        }
    }

    fn finding(&self, message: String) -> Finding {
        let (xid, number) = self.first.unzip();
        Finding { direction: Some(Direction::Backward), xid, transaction: number, ..Finding::new(message) }
            .frames(self.calls.iter().map(|(seen, _)| seen.frame))
    }
}

impl Backchannel {
    /// Callback programs that are remembered.
    const MOST_PROGRAMS: usize = 8;

    /// Notes a call of the client, with what its reply said.
    fn note_forward(&mut self, transaction: &Transaction) {
        if self.version.is_none() {
            self.version = transaction.call.as_ref().map(|call| (call.version, call.seen.frame));
        }
        let details = &transaction.details;
        let Some(procedure) = transaction.procedure else {
            self.unread = true;
            return;
        };
        if !procedure.is_nfs4() {
            let is_nfs = procedure.program == program::NFS;
            self.spoken = self.spoken.or(Some((procedure.version, None)).filter(|_| is_nfs));
            return;
        }
        if procedure.is_compound() {
            let read = transaction.call.is_some() && details.minor_version.is_some();
            let wrapped = [Some(Security::GssIntegrity), Some(Security::GssPrivacy)];
            self.sealed |= !read && wrapped.contains(&transaction.security);
            self.unread |= !read || (transaction.stop.is_some() && details.backchannel.is_none());
            if self.offer.is_none() {
                self.spoken = Some((4, details.minor_version));
            }
        }
        if details.backchannel.is_some() {
            self.note_session(transaction);
        }
    }

    fn note_session(&mut self, transaction: &Transaction) {
        let Some(said) = transaction.details.backchannel else { return };
        if said.offered == Some(true) {
            self.unanswered = self.unanswered.saturating_sub(1);
            if self.offer.is_none() {
                // A Long Call, which is read after its reply only: what came before it is not known.
                self.offer = transaction.call.as_ref().map(|call| call.seen);
                self.unread = true;
            }
            match (said.taken, &transaction.reply) {
                (Some(false), Some(reply)) => self.declined = self.declined.or(Some(reply.seen.frame)),
                (None, Some(_)) if transaction.status.is_some_and(|status| status != 0) => {}
                _ => self.taken = true,
            }
        }
        if let Some(program) = said.program
            && !self.programs.contains(&program)
        {
            self.unlimited |= self.programs.len() == Backchannel::MOST_PROGRAMS;
            self.programs.push(program);
            self.programs.truncate(Backchannel::MOST_PROGRAMS);
        }
        self.largest_asked = self.largest_asked.max(said.asked.map_or(0, |asked| asked.largest_request));
        match (said.asked, said.granted) {
            (Some(asked), Some(granted)) => {
                let most = |limits: ChannelAttributes, other: ChannelAttributes| ChannelAttributes {
                    largest_request: limits.largest_request.max(other.largest_request),
                    largest_response: limits.largest_response.max(other.largest_response),
                    most_operations: limits.most_operations.max(other.most_operations),
                    most_requests: limits.most_requests.max(other.most_requests),
                };
                let limits = most(asked, granted);
                self.limits = Some(self.limits.map_or(limits, |before| most(before, limits)));
            }
            // BACKCHANNEL_CTL.
            (None, None) if said.offered.is_none() => {}
            // Bound to a session that another connection created, or a result that is not there.
            _ => {
                self.unlimited |=
                    said.taken != Some(false) && transaction.status.is_none_or(|status| status == 0)
            }
        }
    }

    /// Notes a callback.
    fn note_backward(&mut self, transaction: &Transaction) {
        let Some(call) = &transaction.call else { return };
        if transaction.error == Some(Error::Chunk) && !call.read_chunks.is_empty() {
            self.err_chunk = self.err_chunk.or(transaction.reply.as_ref().map(|reply| reply.seen.frame));
        }
        if !is_callback(transaction) {
            return;
        }
        if self.offer.is_none() {
            self.early.note(transaction, call);
        } else if self.declined.is_some_and(|declined| declined < call.seen.frame) && !self.taken {
            self.refused.note(transaction, call);
        }
    }

    /// What the sessions allow at most, where all of them are known by now.
    fn limits(&self, view: &View) -> Option<&ChannelAttributes> {
        self.limits.as_ref().filter(|_| self.knows_sessions(view))
    }

    fn knows_sessions(&self, view: &View) -> bool {
        view.is_whole(view.requester) && !self.unread && !self.unlimited && self.unanswered == 0
    }
}

impl Memory for Backchannel {
    fn transaction(&mut self, transaction: &Transaction, _: &Known) {
        match transaction.direction {
            Direction::Forward => self.note_forward(transaction),
            Direction::Backward => self.note_backward(transaction),
        }
    }

    fn observed(&mut self, what: &Observed<'_>, _: &Known) {
        match what {
            Observed::Offered(offered) => {
                self.offer.get_or_insert(offered.seen);
                self.unanswered += 1;
            }
            Observed::Ending(ending) => self.complete = ending.complete,
            _ => {}
        }
    }

    fn joined(&mut self) {
        *self = Self::default();
    }
}

/// Whether it calls a program of the range from which clients choose for their callbacks (RFC 5531, section 13).
fn is_callback(transaction: &Transaction) -> bool {
    transaction.procedure.is_some_and(|procedure| procedure.is_callback())
}

/// The call of a CB_COMPOUND.
fn callback(transaction: &Transaction) -> Option<&Message> {
    let compound = transaction.procedure.is_some_and(|procedure| procedure.is_compound());
    transaction.call.as_ref().filter(|_| compound && is_callback(transaction))
}

fn before_offer(_: &Connection, view: &View, findings: &mut Findings<'_>) {
    let (backchannel, client) = (&view.memories.reverse, view.requester);
    let Callbacks { count, calls, .. } = &backchannel.early;
    // Where the client's calls are encrypted, its offer is too.
    if *count == 0 || !view.from_start() || backchannel.sealed {
        return;
    }
    // What was answered came before what the client sent later. Of the rest it has to be known that the client sent nothing else.
    let is_complete =
        calls.iter().any(|(call, answered)| *answered || backchannel.complete[client] >= Some(call.frame));
    let why = match (backchannel.offer, backchannel.spoken) {
        (Some(_), _) => "before the client offered it for them".to_owned(),
        (None, Some((4, Some(minor)))) => {
            format!("that a client of NFS version 4.{minor} never offered for them")
        }
        (None, Some((version, _))) => {
            format!("that a client of NFS version {version} never offered for them")
        }
        (None, None) => "that the client never offered for them".to_owned(),
    };
    let callbacks = if *count == 1 { "1 callback".to_owned() } else { format!("{count} callbacks") };
    let lacks = view.lost[client] > 0 || backchannel.unread || !is_complete;
    findings.add(
        backchannel
            .early
            .finding(format!("{callbacks} over a connection {why}"))
            .by(client.other())
            .frames(backchannel.offer.map(|offer| offer.frame))
            .values(Value::Count(*count), Value::Count(0))
            .unless(lacks),
    );
}

fn after_refusal(_: &Connection, view: &View, findings: &mut Findings<'_>) {
    let backchannel = &view.memories.reverse;
    let count = backchannel.refused.count;
    if count == 0 || backchannel.taken || backchannel.unanswered > 0 || !view.from_start() {
        return;
    }
    let callbacks = if count == 1 { "1 callback".to_owned() } else { format!("{count} callbacks") };
    findings.add(
        backchannel
            .refused
            .finding(format!(
                "{callbacks} over a connection that the server did not take for the backchannel"
            ))
            .by(view.requester.other())
            .frames(backchannel.declined)
            .unless(view.lost != [0, 0] || backchannel.unread),
    );
}

pub(crate) static GATE: Gate = Gate { transaction: may_break, ..Gate::OPEN };

/// Of the reverse direction, or about the backchannel.
fn may_break(transaction: &Transaction, _: &View) -> bool {
    transaction.direction == Direction::Backward || transaction.details.backchannel.is_some()
}

fn not_offered(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    let Some(said) = transaction.details.backchannel else { return };
    if (said.offered, said.taken) != (Some(false), Some(true)) {
        return;
    }
    let frames = [&transaction.call, &transaction.reply].into_iter().flatten();
    findings.add(
        Finding::new("the server took a connection for the backchannel that the client did not offer")
            .by(view.answerer(transaction.direction))
            .of(transaction)
            .frames(frames.map(|message| message.seen.frame)),
    );
}

fn attributes(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    let Some(said) = transaction.details.backchannel else { return };
    let (Some(asked), Some(granted)) = (said.asked, said.granted) else { return };
    let of =
        |name: &'static str, field: fn(&ChannelAttributes) -> u32| (name, field(&asked), field(&granted));
    let kept = [of("ca_maxoperations", |it| it.most_operations), of("ca_maxrequests", |it| it.most_requests)];
    let limited = [
        of("ca_maxrequestsize", |it| it.largest_request),
        of("ca_maxresponsesize", |it| it.largest_response),
    ];
    let changed = kept.into_iter().filter(|(_, asked, granted)| asked != granted);
    let raised = limited.into_iter().filter(|(_, asked, granted)| asked < granted);
    for (name, asked, granted) in changed.chain(raised) {
        let frames = [&transaction.call, &transaction.reply].into_iter().flatten();
        findings.add(
            Finding::new(format!("{name} of the backchannel went from {asked} to {granted}"))
                .by(view.answerer(transaction.direction))
                .of(transaction)
                .frames(frames.map(|message| message.seen.frame))
                .values(Value::Count(granted.into()), Value::Count(asked.into())),
        );
    }
}

fn operations(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    if transaction.direction == Direction::Forward {
        return;
    }
    let Some(call) = callback(transaction) else { return };
    let Some(limits) = view.memories.reverse.limits(view) else { return };
    let Some(count) = transaction.details.called.filter(|called| *called > limits.most_operations) else {
        return;
    };
    findings.add(
        Finding::new(format!(
            "a CB_COMPOUND of {count} operations where the backchannel allows {}",
            limits.most_operations
        ))
        .by(view.caller(transaction.direction))
        .of(transaction)
        .message(call)
        .values(Value::Count(count.into()), Value::Count(limits.most_operations.into()))
        .rests_on(Basis::Silence(view.requester)),
    );
}

fn size(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    if transaction.direction == Direction::Forward {
        return;
    }
    let (Some(call), Some(limits)) = (callback(transaction), view.memories.reverse.limits(view)) else {
        return;
    };
    let (caller, answerer) = (view.caller(transaction.direction), view.answerer(transaction.direction));
    let messages = [
        (Some(call), limits.largest_request, caller, "call", "ca_maxrequestsize"),
        (transaction.reply.as_ref(), limits.largest_response, answerer, "reply", "ca_maxresponsesize"),
    ];
    for (message, most, end, what, limit) in messages {
        let length = message.and_then(|message| message.message_length).unwrap_or(0);
        if length <= u64::from(most) {
            continue;
        }
        findings.add(
            Finding::new(format!("a {what} of {length} bytes on a backchannel whose {limit} is {most}"))
                .by(end)
                .of(transaction)
                .frames(message.into_iter().flat_map(|message| [message.first.frame, message.seen.frame]))
                .values(Value::Bytes(length), Value::Bytes(most.into()))
                .rests_on(Basis::Silence(view.requester)),
        );
    }
}

fn program(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    if transaction.direction == Direction::Forward {
        return;
    }
    let backchannel = &view.memories.reverse;
    let (Some(call), Some(procedure)) = (&transaction.call, transaction.procedure) else { return };
    let [first, ..] = backchannel.programs[..] else { return };
    let is_known = backchannel.programs.contains(&procedure.program);
    if is_known || !is_callback(transaction) || !backchannel.knows_sessions(view) {
        return;
    }
    findings.add(
        Finding::new(format!("a callback of program {} where the client named {first}", procedure.program))
            .by(view.caller(transaction.direction))
            .of(transaction)
            .message(call)
            .values(Value::Hexadecimal(procedure.program.into()), Value::Hexadecimal(first.into()))
            .rests_on(Basis::Silence(view.requester)),
    );
}

fn sequence(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    if transaction.direction == Direction::Forward {
        return;
    }
    let Some(call) = callback(transaction) else { return };
    let details = &transaction.details;
    let (Some(minor), Some(first)) = (details.minor_version, details.operations.first()) else { return };
    if first.kind == CB_SEQUENCE {
        return;
    }
    findings.add(
        Finding::new(format!("a CB_COMPOUND of minor version {minor} that begins with {}", first.name()))
            .by(view.caller(transaction.direction))
            .of(transaction)
            .message(call)
            .values(Value::Name(first.name()), Value::Name(CB_SEQUENCE.name())),
    );
}

fn version(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    if transaction.direction == Direction::Forward {
        return;
    }
    let (Some(call), Some(_)) = (&transaction.call, &transaction.reply) else { return };
    let Some((forward, frame)) =
        view.memories.reverse.version.filter(|(forward, _)| *forward != call.version)
    else {
        return;
    };
    let message =
        format!("a reverse-direction call of version {} where calls forward have {forward}", call.version);
    findings.add(
        Finding::new(message)
            .by(view.caller(transaction.direction))
            .of(transaction)
            .message(call)
            .frames([frame])
            .values(Value::Count(call.version.into()), Value::Count(forward.into())),
    );
}

fn long_message(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    if transaction.direction == Direction::Forward {
        return;
    }
    // What was refused was not read, so it is not known what it calls.
    let may_be = transaction.procedure.is_none() || is_callback(transaction);
    let Some(call) = transaction.call.as_ref().filter(|call| may_be && !call.read_chunks.is_empty()) else {
        return;
    };
    let backchannel = &view.memories.reverse;
    let thresholds = End::BOTH.map(|end| view.inline_threshold(end));
    let ([Some(one), Some(other)], Some(_)) = (thresholds, backchannel.limits(view)) else { return };
    let (threshold, asked) = (one.min(other), backchannel.largest_asked);
    if asked > threshold {
        return;
    }
    findings.add(
        Finding::new(format!(
            "a callback with a Read chunk where ca_maxrequestsize is {asked} and the inline threshold {threshold}"
        ))
        .by(view.caller(transaction.direction))
        .of(transaction)
        .message(call)
        .values(Value::Bytes(asked.into()), Value::Bytes(threshold.into()))
        .rests_on(Basis::Silence(view.requester)),
    );
}

fn chunks_unread(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    if transaction.direction == Direction::Forward {
        return;
    }
    let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return };
    let bytes: u64 = call
        .read_chunks
        .iter()
        .flat_map(|chunk| &chunk.segments)
        .map(|segment| u64::from(segment.length))
        .sum();
    if bytes == 0 || transaction.timing.reads.is_some() || reply.procedure == Procedure::Error {
        return;
    }
    let client = view.answerer(transaction.direction);
    findings.add(
        Finding::new(format!(
            "a reverse-direction call was answered although its {bytes} bytes of Read chunks were not read"
        ))
        .by(client)
        .of(transaction)
        .frames([call.seen.frame, reply.seen.frame])
        .values(Value::Name("RDMA_MSG"), Value::Name("ERR_CHUNK"))
        .rests_on(Basis::Silence(client))
        .unless(!view.is_whole(client) || call.stop.is_some()),
    );
}

fn chunks_refused(transaction: &Transaction, view: &View, findings: &mut Findings<'_>) {
    let Some(refused) = view.memories.reverse.err_chunk else { return };
    let Some(call) = &transaction.call else { return };
    if transaction.direction == Direction::Forward || call.read_chunks.is_empty() || call.seen.frame < refused
    {
        return;
    }
    findings.add(
        Finding::new(
            "a reverse-direction call with chunks to a client that answered the like with ERR_CHUNK",
        )
        .by(view.caller(transaction.direction))
        .of(transaction)
        .message(call)
        .frames([refused]),
    );
}
