//! How connections come about: the CM exchange (IBTA volume 1, chapter 12), and the private data (RFC 8797) of that or of MPA's start frames.

use super::check::{Check, Checked, Findings, View};
use super::finding::{Finding, Value, plural};
use super::known::{Known, Memory};
use super::reconnection::Settings;
use super::rule::{Document, Level, Source, Unseen};
use super::transport::TransportEvents;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::observation::{Announced, Closes, Faulty, Managed, Observed, Says, Sent};
use rdmascope_dissector::rdma::{End, Fault, Position};
use rdmascope_dissector::transaction::Seen;
use rdmascope_wire::cm::{Message, reject_reason_name};
use rdmascope_wire::private_data::{self, Negotiated, PrivateData, VERSION};

const FORMAT: Source = Source { document: Document::Rfc8797, section: "4" };
const SIZES: Source = Source { document: Document::Rfc8797, section: "4.2" };
const SILENT: Source = Source { document: Document::Rfc8797, section: "5.1" };
const SEARCH: Source = Source { document: Document::Rfc8797, section: "5.2" };
const REQ: Source = Source { document: Document::Ibta, section: "12.6.5" };
const REJ: Source = Source { document: Document::Ibta, section: "12.6.7" };
const REP: Source = Source { document: Document::Ibta, section: "12.6.8" };
const START: Source = Source { document: Document::Rfc5044, section: "7.1.1" };
const FIELDS: Source = Source { document: Document::Ibta, section: "12.7" };

pub(crate) const RULES: &[Checked<Read>] = &[
    Checked {
        id: "private-data-reserved",
        level: Level::Violation,
        sources: &[FORMAT],
        sentence: "The reserved bits of the private data are zero.",
        explanation: "The rule looks at the first REQ and the first REP of a connection, over iWARP at the MPA Request and Reply. Receivers \
            ignore these bits.",
        check: Check::Announced(reserved),
    },
    Checked {
        id: "private-data-version",
        level: Level::Warning,
        sources: &[FORMAT, SEARCH],
        sentence: "The private data has version 1, the only one that is defined.",
        explanation: "A receiver that does not know the version uses the defaults: inline thresholds of 1024 bytes and no remote \
            invalidation.",
        check: Check::Announced(version),
    },
    Checked {
        id: "private-data-offset",
        level: Level::Warning,
        sources: &[FORMAT, SEARCH],
        sentence: "The private data begins with the first byte that the consumer sends.",
        explanation: "Other layers may put something in front of it, and a receiver searches for the identifier at any alignment, so \
            this is no violation. But a receiver that looks only at the front does not find it. In a REQ the bytes are counted from \
            behind the header of the RDMA connection manager, in an MPA start frame of revision 2 from behind IRD and ORD.",
        check: Check::Announced(offset),
    },
    Checked {
        id: "private-data-truncated",
        level: Level::Warning,
        sources: &[FORMAT, SEARCH],
        sentence: "The private data is long enough for all its fields behind the identifier.",
        explanation: "Otherwise a receiver uses the defaults. Nothing is reported for messages that the capture cut.",
        check: Check::Announced(truncated),
    },
    Checked {
        id: "private-data-twice",
        level: Level::Warning,
        sources: &[SEARCH, Source { document: Document::Rfc8797, section: "7" }],
        sentence: "A message has only one identifier of private data.",
        explanation: "A receiver uses the first one. Data of another layer that contains the identifier by chance changes what is \
            negotiated.",
        check: Check::Announced(twice),
    },
    Checked {
        id: "private-data-one-sided",
        level: Level::Advice,
        sources: &[SILENT],
        sentence: "Where only one end sends private data, the connection has inline thresholds of 1024 bytes and no remote invalidation.",
        explanation: "The rule is decided where REQ and REP, or MPA Request and Reply, were captured whole.",
        check: Check::Announced(one_sided),
    },
    Checked {
        id: "private-data-sizes",
        level: Level::Advice,
        sources: &[SIZES],
        sentence: "Where an end announces a larger send size than its peer can receive, part of its buffers is never used.",
        explanation: "The smaller of both sizes is the inline threshold. Each end takes it from what both announce, so neither is at fault. The rule is decided where REQ and REP, or MPA \
            Request and Reply, were captured whole and both carry private data.",
        check: Check::Announced(sizes),
    },
    Checked {
        id: "private-data-changed",
        level: Level::Advice,
        sources: &[FORMAT],
        sentence: "Inline thresholds or remote invalidation change when the same two ends connect again.",
        explanation: "That is allowed, and implementations have to be prepared for it. But a call that fitted the inline threshold of \
            the previous connection may not fit when it is sent again. Two connections have the same ends where both addresses and the \
            port are the same.",
        check: Check::Established(changed),
    },
    Checked {
        id: "connection-start",
        level: Level::Violation,
        sources: &[REQ, REP, FIELDS],
        sentence: "The first request has the Starting PSN that the other end announced.",
        explanation: "A finding of a PSN before the announced one stands. A PSN behind it may follow packets that the capture lacks, \
            and counts as a gap. Where it is far off, the finding is inconclusive. If the other end acknowledges a PSN before the one that \
            it announced, it is the one at fault: it expected another PSN than it said. What is sent before the announced PSN is not judged.",
        check: Check::Connection(start),
    },
    Checked {
        id: "connection-path-mtu",
        level: Level::Violation,
        sources: &[REQ, FIELDS],
        sentence: "A REQ names a path MTU of 256, 512, 1024, 2048 or 4096 bytes.",
        explanation: "Other encodings are reserved.",
        check: Check::Managed(path_mtu),
    },
    Checked {
        id: "connection-rejected",
        level: Level::Warning,
        sources: &[REJ, START],
        sentence: "A REQ is answered with a REP, an MPA Request with a Reply that does not reject.",
        explanation: "Each REJ that answers a captured REQ is reported, with its reason and with the events before it; over iWARP each MPA \
            Reply with R set, which has no reason.",
        check: Check::Announced(rejected),
    },
    Checked {
        id: "connection-unanswered",
        level: Level::Warning,
        sources: &[REQ, START],
        sentence: "A REQ and an MPA Request are answered.",
        explanation: "The finding is reported when the connection or the capture ends, if no packet of the connection was seen except \
            REQs. An RTU says that there was an answer. The finding stands where the REQ was sent again, and where the capture holds \
            something that the other host sent to this one, on whatever connection. Otherwise the capture may lack the answer. An MPA Request \
            is not answered where no MPA Reply was seen, and no FPDU, which says that there was one. The finding stands where one end then closed \
            the connection, and the sequence numbers of TCP say that the other end had sent nothing.",
        check: Check::Connection(unanswered),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: FORMAT,
        requirement: "Receivers ignore the reserved bits of the private data.",
        reason: "Ignoring bits has no effect that is on the wire.",
    },
    Unseen {
        source: FORMAT,
        requirement: "Implementations are prepared for the settings to change upon a reconnection.",
        reason: "Being prepared is not on the wire. private-data-changed reports a change, and inline-threshold a Send that is then too long.",
    },
    Unseen {
        source: SIZES,
        requirement: "The sizes are those of the sender's buffers, divided by 1024, less one.",
        reason: "Buffers are not on the wire.",
    },
    Unseen {
        source: SEARCH,
        requirement: "Receivers search for the identifier at any alignment, and check the version and length behind it.",
        reason: "A receiver that did not shows only where it then sends more than was announced, which inline-threshold finds.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "5" },
        requirement: "On InfiniBand a Responder's address is translated to a service endpoint.",
        reason: "The REQ shows only the result: a service ID with a port.",
    },
];

/// The memories that its rules read.
pub(crate) type Read = (CmExchange, TransportEvents);

/// What the ends said in the CM exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct CmExchange {
    /// The first REQ, how many there were, and the last; or the MPA Request.
    request: Option<(Seen, u32, Seen)>,
    /// The sequence number that the sender of the MPA Request expected next.
    expects: Option<Position>,
    /// What closed it first.
    closed: Option<Closes>,
    /// The first message that asks for the connection, and the first that accepts it.
    announced: [Option<Seen>; 2],
    /// The private data of both, the end that opened the connection first; `None` where it is not known whether there is any.
    said: [Option<Option<PrivateData>>; 2],
    /// What the same two ends agreed on last; set only when the connection was seen accepted.
    pub(crate) before: Option<Settings>,
    /// By end: a first request without the PSN that was announced.
    starts: [Option<Start>; 2],
}

/// A first request without the PSN that was announced.
#[derive(Clone, Copy, Debug)]
struct Start {
    seen: Seen,
    position: Position,
    announced: Position,
    /// The other end acknowledged what is before the announced PSN.
    is_taken: bool,
}

impl CmExchange {
    /// The frame that accepts the connection, and what came of the private data.
    pub(crate) fn agreed(&self) -> Option<(u64, Negotiated)> {
        let [Some(request), Some(reply)] = self.said else { return None };
        Some((self.announced[1]?.frame, Negotiated::new(request, reply)))
    }

    /// Notes who acknowledged what is before the PSN that it announced.
    #[inline]
    fn note_taken(&mut self, known: &Known) {
        for (from, start) in End::BOTH.into_iter().zip(&mut self.starts) {
            let Some(start) = start else { continue };
            let acknowledged = known.half_flows[from].acknowledged.map(|(position, _)| position);
            start.is_taken |= acknowledged.is_some_and(|until| {
                start.position.distance(until) >= 0 && until.distance(start.announced) > 0
            });
        }
    }

    fn frames(&self) -> impl Iterator<Item = u64> {
        let last = self.request.map(|(_, _, last)| last);
        let [asked, accepted] = self.announced;
        [asked, last, accepted].into_iter().flatten().map(|seen| seen.frame)
    }
}

/// Its place among what is remembered of the end that opened the connection and of the other one.
fn place(announced: &Announced<'_>) -> Option<usize> {
    match announced.says {
        Says::Asks => Some(0),
        Says::Accepts => Some(1),
        Says::Rejects(_) => None,
    }
}

/// Whether it is the first one of the connection that asks for it, or that accepts it.
fn is_first(announced: &Announced<'_>, view: &View<'_, Read>) -> bool {
    place(announced).is_some_and(|place| view.memory.0.announced[place].is_none())
}

/// The private data where it is whole; `None` where the capture may have cut it off.
fn said(announced: &Announced<'_>) -> Option<Option<PrivateData>> {
    match private_data::find(announced.private_data).map(|found| found.fields) {
        Some(Ok(fields)) => Some(Some(fields)),
        _ if announced.is_cut => None,
        _ => Some(None),
    }
}

fn about(announced: &Announced<'_>, message: &str) -> Finding {
    Finding::new(format!("{}: {message}", announced.name)).by(announced.from).frames([announced.seen.frame])
}

impl Memory for CmExchange {
    fn sent(&mut self, _: &Sent<'_>, known: &Known) {
        self.note_taken(known);
    }

    fn observed(&mut self, observed: &Observed<'_>, known: &Known) {
        self.note_taken(known);
        if let Observed::Faulty(Faulty { from, seen, position, fault: Fault::Start { announced }, .. }) =
            observed
        {
            let (seen, position, announced) = (*seen, *position, *announced);
            self.starts[*from].get_or_insert(Start { seen, position, announced, is_taken: false });
        }
        match observed {
            Observed::Announced(announced) => {
                if announced.says == Says::Asks {
                    self.expects = announced.expects;
                    let (first, times, _) = self.request.unwrap_or((announced.seen, 0, announced.seen));
                    self.request = Some((first, times + 1, announced.seen));
                }
                let Some(place) = place(announced) else { return };
                self.announced[place].get_or_insert(announced.seen);
                self.said[place] = self.said[place].or(said(announced));
            }
            Observed::Closes(closes) => _ = self.closed.get_or_insert(*closes),
            _ => {}
        }
    }

    /// CM messages are seen whole or not at all.
    fn joined(&mut self) {}
}

fn reserved(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(Some(fields)) = said(announced).filter(|_| is_first(announced, view)) else { return };
    if fields.is_valid() && fields.reserved != 0 {
        let message = format!("reserved bits 0x{:02x} in the private data", fields.reserved);
        let finding = about(announced, &message);
        findings.add(finding.values(Value::Hexadecimal(fields.reserved.into()), Value::Hexadecimal(0)));
    }
}

fn version(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(Some(fields)) = said(announced).filter(|_| is_first(announced, view)) else { return };
    if fields.version != VERSION {
        let finding = about(announced, &format!("private data of version {}", fields.version));
        findings.add(finding.values(Value::Count(fields.version.into()), Value::Count(VERSION.into())));
    }
}

fn offset(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let found = private_data::find(announced.private_data).filter(|_| is_first(announced, view));
    let Some(found) = found.filter(|found| found.offset > 0) else { return };
    let message =
        format!("private data behind {} byte{} of something else", found.offset, plural(found.offset));
    let finding = about(announced, &message);
    findings.add(finding.values(Value::Bytes(found.offset as u64), Value::Bytes(0)));
}

fn truncated(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let found = private_data::find(announced.private_data).filter(|_| is_first(announced, view));
    let Some(found) = found.filter(|found| found.fields.is_err() && !announced.is_cut) else { return };
    let room = (announced.private_data.len() - found.offset) as u64;
    let finding = about(announced, &format!("room for {room} bytes of private data"));
    findings.add(finding.values(Value::Bytes(room), Value::Bytes(PrivateData::LENGTH as u64)));
}

fn twice(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let count = private_data::find_all(announced.private_data).count() as u64;
    if count > 1 && is_first(announced, view) {
        let finding = about(announced, &format!("{count} identifiers of private data"));
        findings.add(finding.values(Value::Count(count), Value::Count(1)));
    }
}

/// The private data of both ends, where this is the first message that accepts the connection.
fn both(announced: &Announced<'_>, view: &View<'_, Read>) -> Option<[Option<PrivateData>; 2]> {
    if announced.says != Says::Accepts || !is_first(announced, view) {
        return None;
    }
    Some([view.memory.0.said[0]?, said(announced)?])
}

fn one_sided(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let (silent, message) = match both(announced, view) {
        Some([Some(_), None]) => (announced.from, "the Responder sends no private data, the Requester does"),
        Some([None, Some(_)]) => {
            (announced.from.other(), "the Requester sends no private data, the Responder does")
        }
        _ => return,
    };
    findings.add(about(announced, message).by(silent).frames(view.memory.0.frames()));
}

fn sizes(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some([Some(request), Some(reply)]) = both(announced, view) else { return };
    if !request.is_valid() || !reply.is_valid() {
        return;
    }
    let passive = announced.from;
    for (sender, sends, receives) in [
        (passive.other(), request.send_bytes(), reply.receive_bytes()),
        (passive, reply.send_bytes(), request.receive_bytes()),
    ] {
        if sends > receives {
            let names = if sender == view.requester { ["client", "server"] } else { ["server", "client"] };
            let message = format!(
                "the {} sends up to {sends} bytes inline, the {} receives up to {receives}",
                names[0], names[1]
            );
            let finding = about(announced, &message).frames(view.memory.0.frames());
            let finding = finding.values(Value::Bytes(sends.into()), Value::Bytes(receives.into()));
            findings.add(Finding { by: None, ..finding });
        }
    }
}

fn changed(_: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(before) = view.memory.0.before else { return };
    let Some((frame, now)) = view.memory.0.agreed().filter(|(_, now)| *now != before.negotiated) else {
        return;
    };
    let words = |settings: Negotiated| {
        let invalidation = if settings.remote_invalidation { "with" } else { "without" };
        format!(
            "{} and {} bytes, {invalidation} remote invalidation",
            settings.call_inline_threshold, settings.reply_inline_threshold
        )
    };
    let (then, now) = (words(before.negotiated), words(now));
    findings.add(
        Finding::new(format!(
            "inline thresholds are now {now}; they were {then} on connection {}",
            before.connection.0
        ))
        .frames([before.frame, frame])
        .values(Value::Words(now), Value::Words(then)),
    );
}

fn start(_: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let exchange = &view.memory.0;
    for (from, start) in End::BOTH.into_iter().zip(&exchange.starts) {
        let Some(Start { seen, position, announced, is_taken }) = *start else { continue };
        let message = format!("the first request carries PSN {position} where {announced} was announced");
        let (message, by) = match is_taken {
            true => (format!("{message}, and is acknowledged"), from.other()),
            false => (message, from),
        };
        findings.add(
            Finding::new(message)
                .by(by)
                .frames(exchange.frames().chain([seen.frame]))
                .values(Value::Count(position.number().into()), Value::Count(announced.number().into()))
                .unless(!is_before(position, announced)),
        );
    }
}

/// Whether a PSN is before the one that was announced. As many packets as a sender can be ahead may be missing; what is before the first
/// PSN cannot.
fn is_before(position: Position, announced: Position) -> bool {
    (-(1 << 16)..0).contains(&announced.distance(position))
}

fn path_mtu(managed: &Managed<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Managed { from, seen, message: message @ Message::Request(request) } = managed else { return };
    let is_first = view.memory.0.request.is_none_or(|(_, times, _)| times == 1);
    if is_first && request.path_mtu_bytes().is_none() {
        let encoded = request.path_packet_payload_mtu;
        let finding = Finding::new(format!("{}: path MTU encoded as {encoded}", message.name()));
        let finding = finding.by(*from).frames([seen.frame]);
        findings.add(finding.values(Value::Count(encoded.into()), Value::Words("1 to 5".to_owned())));
    }
}

fn rejected(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Says::Rejects(reason) = announced.says else { return };
    let (name, number) = match reason {
        Some(reason) => {
            (reject_reason_name(reason).unwrap_or("a reason without a name"), format!(" (reason {reason})"))
        }
        None => ("the MPA Reply has R set", String::new()),
    };
    let events = view.memory.1.events.describe(view.requester);
    let led = if events.is_empty() { String::new() } else { format!(" after {events}") };
    findings.add(
        Finding::new(format!("connection rejected: {name}{number}{led}"))
            .by(announced.from)
            .frames(view.memory.0.frames().chain([announced.seen.frame]))
            .observed(Value::Words(name.to_owned())),
    );
}

fn unanswered(connection: &Connection, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some((first, times, last)) = view.memory.0.request else { return };
    let responder = view.requester.other();
    if connection.state != State::Requested {
        return;
    }
    if connection.is_iwarp {
        findings.add(unanswered_over_tcp(first, connection, view));
        return;
    }
    if connection.requester.sent.packets + connection.responder.sent.packets > 0 {
        return;
    }
    let waited = connection.last.since(first.time) / 1_000_000;
    let what = if times == 1 { "a REQ".to_owned() } else { format!("a REQ that was sent {times} times") };
    findings.add(
        Finding::new(format!("{what} was not answered within {waited} ms"))
            .by(responder)
            .frames([first.frame, last.frame])
            .observed(Value::Count(times.into()))
            .unless(times == 1 || !view.is_heard(responder)),
    );
}

/// Of an MPA Request at `first`, whose Reply was not seen.
fn unanswered_over_tcp(first: Seen, connection: &Connection, view: &View<'_, Read>) -> Finding {
    let CmExchange { expects, closed, .. } = &view.memory.0;
    let (last, how) = match closed {
        Some(Closes { from, seen, how, .. }) => {
            let who = if *from == view.requester { "the Requester" } else { "the Responder" };
            (Some(seen), format!(", when {who} sent a {}", how.name()))
        }
        None => (None, String::new()),
    };
    let waited = last.map_or(connection.last, |seen| seen.time).since(first.time) / 1_000_000;
    let is_certain = closed.is_some_and(|closed| closed.shows_silence(view.requester, *expects));
    Finding::new(format!("an MPA Request was not answered within {waited} ms{how}"))
        .by(view.requester.other())
        .frames(core::iter::once(first.frame).chain(last.map(|seen| seen.frame)))
        .unless(!is_certain)
}
