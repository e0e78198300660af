//! The reverse direction (RFC 8167), and its use as NFS backchannel (RFC 8267, section 6.5; RFC
//! 8881).
//!
//! Whether a callback was too early is decided when the connection ends. Only then is it known
//! whether the capture contains everything that the client sent before. The limits of the
//! backchannel are those of the sessions created on the connection itself. No limits are known if
//! the capture may lack the creation of a session, or if a session was bound to the connection.

mod checks;

use super::check::{Check, Checked, View};
use super::finding::Finding;
use super::known::{Known, Memory};
use super::rule::{Document, Level, Source, Unseen};
use alloc::string::String;
use alloc::vec::Vec;
use rdmascope_dissector::observation::Observed;
use rdmascope_dissector::transaction::{Direction, Message, Security, Seen, Transaction};
use rdmascope_dissector::ulb::ChannelAttributes;
use rdmascope_wire::Xid;
use rdmascope_wire::rpc::program;
use rdmascope_wire::rpcrdma::Error;

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

pub(crate) const RULES: &[Checked<Backchannel>] = &[
    Checked {
        id: "reverse-before-offer",
        level: Level::Violation,
        sources: &[SUPPORT, CHANNELS],
        sentence: "A server calls back over a connection only after the client offered that \
            connection for callbacks.",
        explanation: "A client offers a connection with a CREATE_SESSION that has \
            CREATE_SESSION4_FLAG_CONN_BACK_CHAN set, or with a BIND_CONN_TO_SESSION that names \
            the backchannel, sent on the same connection. A client of NFS version 4.0 or older \
            makes no offer. A callback is too early if the client answered it before it sent an \
            offer, or if there was no offer at all. A call of the NFS program itself in the \
            reverse direction counts too, including NULL: a client that is not prepared for it \
            may lose the connection. The finding is reported once, when the connection ends, and \
            only if the capture contains the connection from its CM exchange on. It is \
            inconclusive if the capture lacks a packet of the client, or if a call of the client \
            could not be read. Nothing is reported if calls are encrypted.",
        check: Check::Connection(checks::before_offer),
    },
    Checked {
        id: "reverse-after-refusal",
        level: Level::Warning,
        sources: &[CHANNELS, BIND, CREATE],
        sentence: "A server does not call back over a connection that it did not accept for the \
            backchannel.",
        explanation: "The rule is broken if the client offered the connection and no result of \
            CREATE_SESSION or BIND_CONN_TO_SESSION on it accepted the backchannel, but callbacks \
            were sent. The finding is reported once, when the connection ends, if the capture \
            contains the connection from its CM exchange on. It is inconclusive if packets are \
            missing, or if a call of the client could not be read.",
        check: Check::Connection(checks::after_refusal),
    },
    Checked {
        id: "reverse-not-offered",
        level: Level::Violation,
        sources: &[CREATE, BIND],
        sentence: "A server accepts a connection for the backchannel only if the client offered it.",
        explanation: "csr_flags is compared with csa_flags (CREATE_SESSION4_FLAG_CONN_BACK_CHAN), \
            and bctsr_dir with bctsa_dir. The rule applies if both the call and the result were \
            captured.",
        check: Check::Transaction(checks::not_offered),
    },
    Checked {
        id: "reverse-attributes",
        level: Level::Violation,
        sources: &[CREATE],
        sentence: "A server keeps the requested ca_maxoperations and ca_maxrequests of the \
            backchannel, and does not raise ca_maxrequestsize or ca_maxresponsesize.",
        explanation: "csr_back_chan_attrs is compared with csa_back_chan_attrs of the same CREATE_SESSION.",
        check: Check::Transaction(checks::attributes),
    },
    Checked {
        id: "reverse-operations",
        level: Level::Violation,
        sources: &[CREATE],
        sentence: "A CB_COMPOUND has no more operations than ca_maxoperations of the backchannel allows.",
        explanation: "The limit is the largest one of all sessions created on the connection, as \
            requested or as granted. Nothing is reported if the capture may lack the creation of \
            a session, or if a session was bound to the connection.",
        check: Check::Transaction(checks::operations),
    },
    Checked {
        id: "reverse-size",
        level: Level::Violation,
        sources: &[CREATE, CALLBACKS],
        sentence: "Messages of the backchannel are no longer than its ca_maxrequestsize and ca_maxresponsesize allow.",
        explanation: "The length is that of the RPC message before reduction, starting at the RPC \
            header. The limits are determined as for reverse-operations.",
        check: Check::Transaction(checks::size),
    },
    Checked {
        id: "reverse-program",
        level: Level::Violation,
        sources: &[CREATE],
        sentence: "A callback calls the program that the client named in CREATE_SESSION or BACKCHANNEL_CTL.",
        explanation: "The programs are csa_cb_program and bca_cb_program of the sessions created \
            on the connection. Nothing is reported if the capture may lack the creation of a \
            session, or if a session was bound to the connection.",
        check: Check::Transaction(checks::program),
    },
    Checked {
        id: "reverse-sequence",
        level: Level::Violation,
        sources: &[SEQUENCE],
        sentence: "A CB_COMPOUND on a backchannel begins with CB_SEQUENCE.",
        explanation: "This applies to every minor version. Callbacks of minor version 0 use a \
            connection of their own, on which they are forward calls.",
        check: Check::Transaction(checks::sequence),
    },
    Checked {
        id: "reverse-version",
        level: Level::Violation,
        sources: &[CALL],
        sentence: "Calls in both directions on one connection have the same rdma_vers.",
        explanation: "The rule covers reverse-direction calls that were answered. A message \
            without an answer may not be a call.",
        check: Check::Transaction(checks::version),
    },
    Checked {
        id: "reverse-long-message",
        level: Level::Violation,
        sources: &[CALLBACKS],
        sentence: "Callbacks are Short messages unless the client announced that it accepts Long \
            Calls.",
        explanation: "A client that accepts Long Calls asks for a ca_maxrequestsize of the \
            backchannel that is larger than the inline thresholds. A callback with a Read chunk \
            breaks the rule if no session created on the connection asked for that. The limits \
            are determined as for reverse-operations.",
        check: Check::Transaction(checks::long_message),
    },
    Checked {
        id: "reverse-chunks-unread",
        level: Level::Violation,
        sources: &[CHUNKS],
        sentence: "A Responder that does not read the chunks of a reverse-direction call answers it with ERR_CHUNK.",
        explanation: "The rule is broken if the call lists Read chunks, the capture shows no RDMA \
            READ of them, and the reply is not an RDMA_ERROR. The finding is reported once the \
            capture is known to contain everything that the client sent up to the reply.",
        check: Check::Transaction(checks::chunks_unread),
    },
    Checked {
        id: "reverse-chunks-refused",
        level: Level::Warning,
        sources: &[CHUNKS],
        sentence: "A server offers no chunks in the reverse direction to a client that has \
            refused them.",
        explanation: "A client without support for chunks answers a reverse-direction call that \
            has some with ERR_CHUNK. Each later call with chunks on the same connection is \
            reported.",
        check: Check::Transaction(checks::chunks_refused),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: SUPPORT,
        requirement: "A client has Receive buffers posted for callbacks before it offers a \
            connection for them.",
        reason: "Receive buffers are not on the wire. A missing one causes an RNR NAK, which has \
            other causes too.",
    },
    Unseen {
        source: SUPPORT,
        requirement: "An upper layer other than NFS calls in the reverse direction only after its \
            peer announced that it is prepared.",
        reason: "Each upper layer has its own announcement. rdmascope knows only that of NFS: it \
            judges NFS callbacks and the NFS program.",
    },
    Unseen {
        source: CALL,
        requirement: "The msg_type of a reverse-direction call is CALL.",
        reason: "Only msg_type distinguishes a call from a reply. With another value, the message \
            is judged as a reply without a call.",
    },
    Unseen {
        source: REPLY,
        requirement: "The msg_type of a reverse-direction reply is REPLY.",
        reason: "Only msg_type distinguishes a reply from a call. With another value, the message \
            is judged as a call.",
    },
    Unseen {
        source: RETRANSMISSION,
        requirement: "A client keeps a connection open as long as the server may have a reason to call back.",
        reason: "One connection does not show the state that the server holds, nor whether \
            another connection carries the backchannel.",
    },
    Unseen {
        source: CREATE,
        requirement: "A server has no more callbacks of one session outstanding than ca_maxrequests of its backchannel.",
        reason: "A backchannel may use several connections. On each of them, credits are judged \
            instead.",
    },
];

/// True for the reverse direction, and for operations about the backchannel.
pub(crate) fn may_break(transaction: &Transaction) -> bool {
    transaction.direction == Direction::Backward || transaction.details.backchannel.is_some()
}

/// Callbacks on a connection, and the offers and limits that apply to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backchannel {
    /// The first call that offers the connection.
    offer: Option<Seen>,
    /// Calls that offer it and are not answered yet.
    unanswered: u32,
    /// A result accepted the offer.
    taken: bool,
    /// The first reply that declined it.
    declined: Option<u64>,
    /// Some calls of the client could not be read and may have been offers.
    unread: bool,
    /// Some of these were encrypted or wrapped.
    sealed: bool,
    /// NFS version and minor version of the client's last call before an offer.
    client_version: Option<(u32, Option<u32>)>,
    /// Callbacks, and calls of the NFS program, that ended before an offer was sent.
    early: Callbacks,
    /// Some of these are calls of the NFS program.
    early_nfs: bool,
    /// Callbacks after the connection was declined.
    refused: Callbacks,
    /// The largest limits of the sessions created on the connection.
    limits: Option<ChannelAttributes>,
    /// The largest ca_maxrequestsize that a client requested.
    largest_requested: u32,
    /// Callback programs that clients named.
    programs: Vec<u32>,
    /// There may be sessions with unknown limits.
    unlimited: bool,
    /// rdma_vers of the first call of the forward direction, with its frame.
    version: Option<(u32, u64)>,
    /// The first ERR_CHUNK that answered a reverse-direction call with chunks.
    err_chunk: Option<u64>,
    /// By end: the frame up to which the capture contains everything that the end sent, known at
    /// the end of the connection.
    complete: [Option<u64>; 2],
}

/// A group of callbacks.
#[derive(Clone, Debug, Default)]
struct Callbacks {
    count: u64,
    /// XID and number of the first.
    first: Option<(Xid, u64)>,
    /// The packets that completed the calls, each with whether it was answered. Limited to the
    /// frames that a finding can name.
    calls: Vec<(Seen, bool)>,
}

impl Callbacks {
    fn footprint(&self) -> usize {
        size_of_val(&self.calls[..])
    }

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
    /// Callback programs that are kept.
    const MOST_PROGRAMS: usize = 8;

    /// Records a call of the client, with the contents of its reply.
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
            self.client_version = self.client_version.or(Some((procedure.version, None)).filter(|_| is_nfs));
            return;
        }
        if procedure.is_compound() {
            let read = transaction.call.is_some() && details.minor_version.is_some();
            let wrapped = [Some(Security::GssIntegrity), Some(Security::GssPrivacy)];
            self.sealed |= !read && wrapped.contains(&transaction.security);
            // The reply alone fills the other fields.
            let has_offer = details.backchannel.is_some_and(|facts| facts.offered.is_some());
            self.unread |= !read || (transaction.stop.is_some() && !has_offer);
            if self.offer.is_none() {
                self.client_version = Some((4, details.minor_version));
            }
        }
        if details.backchannel.is_some() {
            self.note_session(transaction);
        }
    }

    fn note_session(&mut self, transaction: &Transaction) {
        let Some(facts) = transaction.details.backchannel else { return };
        if facts.offered == Some(true) {
            self.unanswered = self.unanswered.saturating_sub(1);
            if self.offer.is_none() {
                // A Long Call is read only after its reply, so the calls before it are unknown.
                self.offer = transaction.call.as_ref().map(|call| call.seen);
                self.unread = true;
            }
            match (facts.taken, &transaction.reply) {
                (Some(false), Some(reply)) => self.declined = self.declined.or(Some(reply.seen.frame)),
                (None, Some(_)) if transaction.status.is_some_and(|status| status != 0) => {}
                _ => self.taken = true,
            }
        }
        if let Some(program) = facts.program
            && !self.programs.contains(&program)
        {
            self.unlimited |= self.programs.len() == Backchannel::MOST_PROGRAMS;
            self.programs.push(program);
            self.programs.truncate(Backchannel::MOST_PROGRAMS);
        }
        self.largest_requested =
            self.largest_requested.max(facts.requested.map_or(0, |requested| requested.largest_request));
        match (facts.requested, facts.granted) {
            (Some(requested), Some(granted)) => {
                let most = |limits: ChannelAttributes, other: ChannelAttributes| ChannelAttributes {
                    largest_request: limits.largest_request.max(other.largest_request),
                    largest_response: limits.largest_response.max(other.largest_response),
                    most_operations: limits.most_operations.max(other.most_operations),
                    most_requests: limits.most_requests.max(other.most_requests),
                };
                let limits = most(requested, granted);
                self.limits = Some(self.limits.map_or(limits, |before| most(before, limits)));
            }
            // BACKCHANNEL_CTL.
            (None, None) if facts.offered.is_none() => {}
            // Bound to a session that another connection created, or the result is missing.
            _ => {
                self.unlimited |=
                    facts.taken != Some(false) && transaction.status.is_none_or(|status| status == 0)
            }
        }
    }

    /// Records a callback.
    fn note_backward(&mut self, transaction: &Transaction) {
        let Some(call) = &transaction.call else { return };
        if transaction.error == Some(Error::Chunk) && !call.read_chunks.is_empty() {
            self.err_chunk = self.err_chunk.or(transaction.reply.as_ref().map(|reply| reply.seen.frame));
        }
        let is_nfs = transaction.procedure.is_some_and(|procedure| procedure.program == program::NFS);
        if self.offer.is_none() && (is_nfs || is_callback(transaction)) {
            self.early.note(transaction, call);
            self.early_nfs |= is_nfs;
            return;
        }
        if !is_callback(transaction) {
            return;
        }
        if self.declined.is_some_and(|declined| declined < call.seen.frame) && !self.taken {
            self.refused.note(transaction, call);
        }
    }

    /// Whether a result accepted the connection for the backchannel.
    pub(crate) fn is_accepted(&self) -> bool {
        self.taken
    }

    /// The largest limits of the sessions, if all sessions are known so far.
    fn limits(&self, view: &View<'_, Backchannel>) -> Option<&ChannelAttributes> {
        self.limits.as_ref().filter(|_| self.knows_sessions(view))
    }

    fn knows_sessions(&self, view: &View<'_, Backchannel>) -> bool {
        view.is_fully_captured(view.requester) && !self.unread && !self.unlimited && self.unanswered == 0
    }
}

impl Memory for Backchannel {
    fn footprint(&self) -> usize {
        self.early.footprint() + self.refused.footprint() + size_of_val(&self.programs[..])
    }

    fn transaction(&mut self, transaction: &Transaction, _: &Known) {
        match transaction.direction {
            Direction::Forward => self.note_forward(transaction),
            Direction::Backward => self.note_backward(transaction),
        }
    }

    fn observed(&mut self, observed: &Observed<'_>, _: &Known) {
        match observed {
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

/// Whether it calls a program in the range from which clients choose for their callbacks (RFC 5531,
/// section 13).
fn is_callback(transaction: &Transaction) -> bool {
    transaction.procedure.is_some_and(|procedure| procedure.is_callback())
}
