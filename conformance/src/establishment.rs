//! Connection establishment: the CM exchange (IBTA volume 1, chapter 12), and the private data (RFC
//! 8797) of the CM exchange or of MPA's start frames.

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
use rdmascope_dissector::observation::{Announced, Closes, Faulty, Managed, Meaning, Observed, Sent};
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
        explanation: "The rule looks at the first REQ and the first REP of a connection; over \
            iWARP, at the MPA Request and Reply. Receivers ignore these bits.",
        check: Check::Announced(reserved),
    },
    Checked {
        id: "private-data-version",
        level: Level::Warning,
        sources: &[FORMAT, SEARCH],
        sentence: "The private data has version 1, the only defined version.",
        explanation: "A receiver that does not know the version uses the defaults: inline \
            thresholds of 1024 bytes and no remote invalidation.",
        check: Check::Announced(version),
    },
    Checked {
        id: "private-data-offset",
        level: Level::Warning,
        sources: &[FORMAT, SEARCH],
        sentence: "The private data begins with the first byte that the consumer sends.",
        explanation: "Other layers may put data in front of it, and a receiver searches for the \
            identifier at any alignment, so the rule is a warning. But a receiver that looks only \
            at the front does not find it. In a REQ, offsets are counted from the end of the \
            header of the RDMA connection manager; in an MPA start frame of revision 2, from the \
            end of IRD and ORD.",
        check: Check::Announced(offset),
    },
    Checked {
        id: "private-data-truncated",
        level: Level::Warning,
        sources: &[FORMAT, SEARCH],
        sentence: "The private data is long enough for all its fields after the identifier.",
        explanation: "If it is not, a receiver uses the defaults. Nothing is reported for \
            messages that the capture truncated.",
        check: Check::Announced(truncated),
    },
    Checked {
        id: "private-data-twice",
        level: Level::Warning,
        sources: &[SEARCH, Source { document: Document::Rfc8797, section: "7" }],
        sentence: "A message has only one identifier of private data.",
        explanation: "A receiver uses the first one. Data of another layer that contains the \
            identifier by chance changes the negotiated settings.",
        check: Check::Announced(repeated),
    },
    Checked {
        id: "private-data-one-sided",
        level: Level::Advice,
        sources: &[SILENT],
        sentence: "If only one end sends private data, the connection has inline thresholds of \
            1024 bytes and no remote invalidation.",
        explanation: "The rule applies if REQ and REP, or MPA Request and Reply, were captured \
            completely.",
        check: Check::Announced(one_sided),
    },
    Checked {
        id: "private-data-sizes",
        level: Level::Advice,
        sources: &[SIZES],
        sentence: "If an end announces a larger send size than its peer can receive, part of its \
            buffers is never used.",
        explanation: "The smaller of the two sizes is the inline threshold. Each end derives it \
            from both announcements, so neither is at fault. The rule applies if REQ and REP, or \
            MPA Request and Reply, were captured completely and both carry private data.",
        check: Check::Announced(sizes),
    },
    Checked {
        id: "private-data-changed",
        level: Level::Advice,
        sources: &[FORMAT],
        sentence: "Inline thresholds or remote invalidation change when the same two ends connect \
            again.",
        explanation: "A change is allowed, and implementations have to be prepared for it. But a \
            call that fitted the inline threshold of the previous connection may not fit when it \
            is retransmitted. Two connections have the same ends if both addresses and the port \
            are the same.",
        check: Check::Established(changed),
    },
    Checked {
        id: "connection-start",
        level: Level::Violation,
        sources: &[REQ, REP, FIELDS],
        sentence: "The first request has the Starting PSN that the other end announced.",
        explanation: "A PSN before the announced one is a violation. A PSN after it may follow \
            packets that the capture lacks, and counts as a gap. If it is far off, the finding is \
            inconclusive. If the other end acknowledges a PSN before the one that it announced, \
            that end is at fault: it expected another PSN than it announced. Packets before the \
            announced PSN are not judged.",
        check: Check::Connection(start),
    },
    Checked {
        id: "connection-path-mtu",
        level: Level::Violation,
        sources: &[REQ, FIELDS],
        sentence: "A REQ contains a path MTU of 256, 512, 1024, 2048 or 4096 bytes.",
        explanation: "Other encodings are reserved.",
        check: Check::Managed(path_mtu),
    },
    Checked {
        id: "connection-rejected",
        level: Level::Warning,
        sources: &[REJ, START],
        sentence: "A REQ is answered with a REP, and an MPA Request with a Reply that does not \
            reject the connection.",
        explanation: "Each REJ that answers a captured REQ is reported, with its reason and the \
            events before it; over iWARP, each MPA Reply with R set, which has no reason.",
        check: Check::Announced(rejected),
    },
    Checked {
        id: "connection-unanswered",
        level: Level::Warning,
        sources: &[REQ, START],
        sentence: "A REQ or an MPA Request is answered.",
        explanation: "The finding is reported when the connection or the capture ends, if the \
            only packets seen of the connection are REQs, and the REJ of a client that gives up. An \
            RTU shows that there was an answer. \
            The finding is certain if the client gave up, or sent the REQ more than 3 times, and \
            the capture contains any packet that the other host sent to this one, on any \
            connection. Otherwise the capture may lack the answer. An MPA Request counts as \
            unanswered if no MPA Reply was seen, nor an FPDU, which shows that there was one. The finding is certain if one end then \
            closed the connection and the TCP sequence numbers show that the other end had sent \
            nothing.",
        check: Check::Connection(unanswered),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[
    Unseen {
        source: FORMAT,
        requirement: "Receivers ignore the reserved bits of the private data.",
        reason: "Ignoring bits has no effect on the wire.",
    },
    Unseen {
        source: FORMAT,
        requirement: "Implementations are prepared for the settings to change upon a reconnection.",
        reason: "The preparation of an implementation is not on the wire. private-data-changed \
            reports a change, and inline-threshold a Send that is then too long.",
    },
    Unseen {
        source: SIZES,
        requirement: "The sizes are those of the sender's buffers, divided by 1024, less one.",
        reason: "Buffers are not on the wire.",
    },
    Unseen {
        source: SEARCH,
        requirement: "Receivers search for the identifier at any alignment, and check the version \
            and length after it.",
        reason: "A receiver that did not is visible only if it then sends more than was \
            announced, which inline-threshold reports.",
    },
    Unseen {
        source: Source { document: Document::Rfc8166, section: "5" },
        requirement: "On InfiniBand a Responder's address is translated to a service endpoint.",
        reason: "The REQ shows only the result: a service ID with a port.",
    },
];

/// The state that its rules read.
pub(crate) type Read = (CmExchange, TransportEvents);

/// The messages and private data of the CM exchange.
#[derive(Clone, Debug, Default)]
pub(crate) struct CmExchange {
    /// The first REQ, their count, and the last REQ; or the MPA Request.
    request: Option<(Seen, u32, Seen)>,
    /// The sequence number of the MPA Request.
    position: Option<Position>,
    /// The sequence number that its sender expected next.
    expects: Option<Position>,
    /// Whether the sender of the REQ gave up because no answer came.
    has_given_up: bool,
    /// The first message that closed the connection.
    closed: Option<Closes>,
    /// The first message that requests the connection, and the first that accepts it.
    announced: [Option<Seen>; 2],
    /// The private data of both ends, that of the end that opened the connection first; `None` if
    /// unknown.
    private_data: [Option<Option<PrivateData>>; 2],
    /// The settings that the same two ends last negotiated; set only once the connection is
    /// accepted.
    pub(crate) before: Option<Settings>,
    /// By end: a first request without the announced PSN.
    starts: [Option<Start>; 2],
}

/// A first request without the announced PSN.
#[derive(Clone, Copy, Debug)]
struct Start {
    seen: Seen,
    position: Position,
    announced: Position,
    /// The other end acknowledged packets before the announced PSN.
    is_taken: bool,
}

impl CmExchange {
    /// The frame that accepts the connection, and the settings that result from the private data.
    pub(crate) fn agreed(&self) -> Option<(u64, Negotiated)> {
        let [Some(request), Some(reply)] = self.private_data else { return None };
        Some((self.announced[1]?.frame, Negotiated::new(request, reply)))
    }

    /// Records which ends acknowledged packets before the PSN that they announced.
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
        let [requested, accepted] = self.announced;
        [requested, last, accepted].into_iter().flatten().map(|seen| seen.frame)
    }
}

/// The index of its sender: 0 for the end that opened the connection, 1 for the other one.
fn place(announced: &Announced<'_>) -> Option<usize> {
    match announced.meaning {
        Meaning::Asks => Some(0),
        Meaning::Accepts => Some(1),
        Meaning::Rejects(_) | Meaning::GivesUp => None,
    }
}

/// Whether it is the first message that requests the connection, or the first that accepts it.
fn is_first(announced: &Announced<'_>, view: &View<'_, Read>) -> bool {
    place(announced).is_some_and(|place| view.memory.0.announced[place].is_none())
}

/// The private data, if it is complete; `None` if the capture may have truncated it.
fn private_data_of(announced: &Announced<'_>) -> Option<Option<PrivateData>> {
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
                if announced.meaning == Meaning::Asks {
                    (self.position, self.expects) = (announced.position, announced.expects);
                    let (first, times, _) = self.request.unwrap_or((announced.seen, 0, announced.seen));
                    self.request = Some((first, times + 1, announced.seen));
                }
                self.has_given_up |= announced.meaning == Meaning::GivesUp;
                let Some(place) = place(announced) else { return };
                self.announced[place].get_or_insert(announced.seen);
                self.private_data[place] = self.private_data[place].or(private_data_of(announced));
            }
            Observed::Closes(closes) => _ = self.closed.get_or_insert(*closes),
            _ => {}
        }
    }

    /// CM messages are seen completely or not at all.
    fn joined(&mut self) {}
}

fn reserved(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(Some(fields)) = private_data_of(announced).filter(|_| is_first(announced, view)) else { return };
    if fields.is_valid() && fields.reserved != 0 {
        let message = format!("reserved bits 0x{:02x} in the private data", fields.reserved);
        let finding = about(announced, &message);
        findings.add(finding.values(Value::Hexadecimal(fields.reserved.into()), Value::Hexadecimal(0)));
    }
}

fn version(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Some(Some(fields)) = private_data_of(announced).filter(|_| is_first(announced, view)) else { return };
    if fields.version != VERSION {
        let finding = about(announced, &format!("private data of version {}", fields.version));
        findings.add(finding.values(Value::Count(fields.version.into()), Value::Count(VERSION.into())));
    }
}

fn offset(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let found = private_data::find(announced.private_data).filter(|_| is_first(announced, view));
    let Some(found) = found.filter(|found| found.offset > 0) else { return };
    let message =
        format!("private data after {} byte{} of something else", found.offset, plural(found.offset));
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

fn repeated(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let count = private_data::find_all(announced.private_data).count() as u64;
    if count > 1 && is_first(announced, view) {
        let finding = about(announced, &format!("{count} identifiers of private data"));
        findings.add(finding.values(Value::Count(count), Value::Count(1)));
    }
}

/// The private data of both ends, if this is the first message that accepts the connection.
fn both(announced: &Announced<'_>, view: &View<'_, Read>) -> Option<[Option<PrivateData>; 2]> {
    if announced.meaning != Meaning::Accepts || !is_first(announced, view) {
        return None;
    }
    Some([view.memory.0.private_data[0]?, private_data_of(announced)?])
}

fn one_sided(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let (silent, message) = match both(announced, view) {
        Some([Some(_), None]) => (
            announced.from,
            "the Responder sends no private data, but the \
            Requester does",
        ),
        Some([None, Some(_)]) => {
            (announced.from.other(), "the Requester sends no private data, but the Responder does")
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
                "the {} sends up to {sends} bytes inline, but the {} receives up to {receives}",
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

/// Whether a PSN is before the announced one. Later PSNs may follow missing packets, as far as a
/// sender can be ahead; packets before the first PSN cannot be missing.
fn is_before(position: Position, announced: Position) -> bool {
    (-(1 << 16)..0).contains(&announced.distance(position))
}

fn path_mtu(managed: &Managed<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Managed { from, seen, message: message @ Message::Request(request), .. } = managed else { return };
    let is_first = view.memory.0.request.is_none_or(|(_, times, _)| times == 1);
    if is_first && request.path_mtu_bytes().is_none() {
        let encoded = request.path_packet_payload_mtu;
        let finding = Finding::new(format!("{}: path MTU encoded as {encoded}", message.name()));
        let finding = finding.by(*from).frames([seen.frame]);
        findings.add(finding.values(Value::Count(encoded.into()), Value::Words("1 to 5".to_owned())));
    }
}

fn rejected(announced: &Announced<'_>, view: &View<'_, Read>, findings: &mut Findings<'_>) {
    let Meaning::Rejects(reason) = announced.meaning else { return };
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

/// A client that sends more REQs than this has no answer, even if the capture lacks one packet.
const TIMES: u32 = 3;

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
    let is_certain = (view.memory.0.has_given_up || times > TIMES) && view.has_packets_from(responder);
    let message = match times {
        1 => "a REQ was not answered".to_owned(),
        _ => format!("a REQ that was sent {times} times was not answered within {waited} ms"),
    };
    findings.add(
        Finding::new(message)
            .by(responder)
            .frames([first.frame, last.frame])
            .observed(Value::Count(times.into()))
            .unless(!is_certain),
    );
}

/// The finding about an MPA Request at `first` whose Reply was not seen.
fn unanswered_over_tcp(first: Seen, connection: &Connection, view: &View<'_, Read>) -> Finding {
    let CmExchange { position, expects, closed, .. } = &view.memory.0;
    let (last, how) = match closed {
        Some(Closes { from, seen, how, .. }) => {
            let sender = if *from == view.requester { "the Requester" } else { "the Responder" };
            (Some(seen), format!(", when {sender} sent a {}", how.name()))
        }
        None => (None, String::new()),
    };
    let waited = last.map_or(connection.last, |seen| seen.time).since(first.time) / 1_000_000;
    // A request that was lost has no answer.
    let acknowledged = view.half_flows[view.requester].acknowledged.map(|(until, _)| until);
    let has_arrived = position.zip(acknowledged).is_some_and(|(sent, until)| sent.distance(until) >= 0);
    let is_silent = closed.is_some_and(|closed| closed.shows_silence(view.requester, *expects));
    let is_certain = has_arrived && is_silent;
    Finding::new(format!("an MPA Request was not answered within {waited} ms{how}"))
        .by(view.requester.other())
        .frames(core::iter::once(first.frame).chain(last.map(|seen| seen.frame)))
        .unless(!is_certain)
}
