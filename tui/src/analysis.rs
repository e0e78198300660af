//! The analysis of the shown capture: engine, judge and records. It takes records as they arrive,
//! returns new results in [`Batch`]es, and answers requests of the screen.

mod lifetimes;
mod packets;
mod save;

use crate::chart::Series;
use crate::overview::{Gathering, SessionFacts};
use crate::packets::Page;
use crate::ring::Ring;
use crate::rows::RowMaker;
use crate::session::{Batch, ConnectionNow, Found, OpenCall, Progress, Session, Snapshot};
use crate::store::Store;
use lifetimes::Lifetimes;
use rdmascope_analysis::carriers::Carriers;
use rdmascope_analysis::ending::{self, Ending};
use rdmascope_analysis::events::{Open, SessionEvent};
use rdmascope_analysis::findings::{Findings, is_about};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::one_capture::OneCapture;
use rdmascope_analysis::policy::Allowances;
use rdmascope_analysis::report::Report;
use rdmascope_analysis::time::Zone;
use rdmascope_analysis::timeline::{Config, Happening, Moment, Now, Timeline};
use rdmascope_capture_agent::{FileEnding, Note};
use rdmascope_conformance::{Finding, Judge, Level};
use rdmascope_dissector::connection::{Connection, ConnectionId, State};
use rdmascope_dissector::engine::{self, Totals};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::observation::Observed;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_dissector::transport::Dissected;
use rdmascope_present::fields::{Field, headers, rpc};
use rdmascope_present::ladder::Ladder;
use rdmascope_present::page::report::Text;
use rdmascope_present::text::Style;
use std::collections::HashSet;
use std::path::PathBuf;

/// A request of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Show the session at another moment.
    Seek(Moment),
    /// Load a transaction with its exchange.
    Exchange(Named),
    /// Load a frame.
    Frame(u64),
    /// Write packets to a new file, with comments by their numbers.
    Save(PacketSet, PathBuf, Vec<(u64, String)>),
    /// List packets from this record on that pass the filter line, with times of day in this zone.
    Packets(String, Zone, u64),
    /// Find the text in a packet after this record, or before it.
    Find(String, u64, bool),
    /// Write the report of `analyze` for a terminal of this width.
    Report(u16),
}

/// A selection of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PacketSet {
    /// All packets that are available.
    #[default]
    All,
    /// Those of a connection.
    Connection(ConnectionId),
    /// Those of a connection, from one record to another.
    Between(ConnectionId, u64, u64),
    /// Those of several transactions: the connection, the first record and the last one of each.
    Rows(Vec<(ConnectionId, u64, u64)>),
    /// These records, in ascending order.
    Frames(Vec<u64>),
}

/// A transaction, and its place in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its number.
    pub number: u64,
    /// The record of its first packet.
    pub first: u64,
    /// The record at which it ended.
    pub ended: u64,
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Answer {
    /// The session at that moment.
    Moment(Box<Snapshot>),
    /// The transaction.
    Exchange(Box<Exchanged>),
    /// The frame.
    Frame(Box<FrameFields>),
    /// The number of packets that were written to this file.
    Saved(PathBuf, u64),
    /// Packets.
    Packets(Box<Page>),
    /// The search of packets found this one, or none up to the last record that was looked at.
    Found {
        /// The record.
        number: Option<u64>,
        /// The last record.
        last: u64,
    },
    /// The report for this width.
    Report(u16, Vec<u8>),
    /// The request that failed, and the reason.
    Failed(Request, String),
}

/// A transaction with its exchange.
#[derive(Debug)]
pub struct Exchanged {
    /// The transaction, with its steps and contents.
    pub transaction: Transaction,
    /// The connection, in its state after the last record.
    pub connection: Option<Connection>,
    /// The ladder of its packets.
    pub ladder: Ladder,
    /// The fields of the Sends of call and reply, as far as they were captured.
    pub sends: [Vec<Field>; 2],
    /// The messages of both that were conveyed in a chunk, with their fields and bytes.
    pub messages: [Option<(Vec<Field>, Vec<u8>)>; 2],
    /// The frames that carried its bytes.
    pub carriers: Carriers,
    /// The findings about it, or with its packets as evidence.
    pub findings: Findings,
    /// The events of its connection during the transaction.
    pub events: Vec<SessionEvent>,
}

/// A frame.
#[derive(Debug)]
pub struct FrameFields {
    /// Its number.
    pub number: u64,
    /// Its capture time.
    pub time: Time,
    /// The fields of its bytes.
    pub fields: Vec<Field>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The analysis of the shown capture.
pub struct Analysis {
    timeline: Timeline,
    store: Store,
    maker: RowMaker,
    report: Report,
    one_capture: OneCapture,
    gathering: Gathering,
    /// The latest time that a live source has reached.
    clock: Option<Time>,
    frame: frame::Config,
    start: Option<Time>,
    rows: u64,
    found: u64,
    allowances: Allowances,
    dropped: u64,
    resent: Option<Series>,
    /// Results that were not returned yet.
    batch: Batch,
    /// The transaction that was requested last: its frames show its operations.
    last: Option<Transaction>,
    style: Style,
    /// The totals of the whole capture, once it has ended.
    ended: Option<Ending>,
    /// The numbers of the ended transactions, by the order in which they began, up to
    /// [`Session::MOST_ROWS`].
    numbers: Vec<u32>,
    lifetimes: Lifetimes,
}

/// Records after the end of a transaction that may contain its last acknowledgements.
const TRAILING: u64 = 512;
/// Records before the first packet of a transaction that are replayed for it.
const LEADING: u64 = 64;

impl Analysis {
    /// Creates an analysis without records. `frame` configures the decoding of frames; rules of at
    /// least `level` are checked. `style` has the colours of the report.
    pub fn new(frame: frame::Config, level: Level, style: Style) -> Analysis {
        let config =
            Config { engine: engine::Config { frame, ..engine::Config::default() }, ..Config::default() };
        Analysis {
            timeline: Timeline::new(config, Judge::new(move |rule| rule.level <= level)),
            store: Store::default(),
            maker: RowMaker::default(),
            report: Report::default(),
            one_capture: OneCapture::default(),
            gathering: Gathering::default(),
            clock: None,
            frame,
            start: None,
            rows: 0,
            found: 0,
            allowances: Allowances::default(),
            dropped: 0,
            resent: None,
            batch: Batch::default(),
            last: None,
            style,
            ended: None,
            numbers: Vec::new(),
            lifetimes: Lifetimes::default(),
        }
    }

    /// Sets the findings that are allowed.
    pub fn allow(&mut self, allowances: Allowances) {
        self.allowances = allowances;
    }

    /// The configuration for the decoding of frames.
    pub fn frame(&self) -> frame::Config {
        self.frame
    }

    /// Keeps the latest records of a live capture in half of this number of bytes, and bounds the
    /// state of connections by an eighth.
    pub(crate) fn keep_latest(&mut self, memory: usize) {
        /// Less is not enough for the connections of one host.
        const LEAST: usize = 16 << 20;
        self.store = Store::Ring(Ring::new(memory / 2));
        // The latest state, the shown state and the checkpoints share the other half.
        self.timeline.bound_memory((memory / 8).max(LEAST));
    }

    /// Sets the store from which records are read again.
    pub fn store(&mut self, store: Store) {
        self.store = store;
    }

    /// Takes the next record.
    pub fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) {
        self.start.get_or_insert(record.time);
        self.dropped += u64::from(record.dropped);
        if let Store::Ring(ring) = &mut self.store {
            ring.push(record);
        }
        let number = self.timeline.taken() + 1;
        self.follow(number, |timeline, report| {
            timeline.take_reporting(record, dissected, &mut |happening| report(happening))
        });
    }

    /// Advances the time to `now` without a record. Returns whether something may have ended as a
    /// result, or whether calls have waited for longer.
    pub fn time(&mut self, now: Time) -> bool {
        /// Time after which a longer wait is shown, in nanoseconds.
        const SEEN: u64 = 250_000_000;
        let before = self.clock.max(self.timeline.latest().time()).unwrap_or(now);
        let waits = now.since(before) >= SEEN && self.timeline.latest().open_transactions().next().is_some();
        if waits {
            self.clock = Some(now);
        }
        if self.timeline.latest().engine().next_deadline().is_none_or(|deadline| deadline > now) {
            return waits;
        }
        let number = self.timeline.taken();
        self.follow(number, |timeline, report| timeline.handle_time(now, &mut |happening| report(happening)));
        true
    }

    /// Takes a note of the capture: connections that a kernel knew.
    pub fn note(&mut self, note: &Note) {
        self.timeline.take_note(note);
    }

    /// Ends the capture. `files` gives the ending of each file, if the source is files.
    pub fn finish(&mut self, files: Vec<FileEnding>) {
        let number = self.timeline.taken();
        let mut totals = Totals::default();
        self.follow(number, |timeline, report| {
            totals = timeline.finish_reporting(&mut |happening| report(happening));
        });
        let one_capture = core::mem::take(&mut self.one_capture);
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let input = ending::arguments(&names);
        self.lifetimes.finish();
        self.ended =
            Some(Ending { totals, files, port: self.frame.port, one_capture, input, ..Ending::default() });
    }

    fn follow(&mut self, record: u64, handle: impl FnOnce(&mut Timeline, &mut dyn FnMut(Happening<'_>))) {
        let Analysis {
            timeline,
            maker,
            report,
            one_capture,
            gathering,
            start,
            rows,
            allowances,
            resent,
            batch,
            numbers,
            lifetimes,
            ..
        } = self;
        let start = start.unwrap_or_default();
        let mut findings = Vec::new();
        handle(timeline, &mut |happening| match happening {
            Happening::Event(event) => {
                report.handle(event);
                one_capture.handle(event);
                lifetimes.handle(event);
                allowances.take(event);
                if let Event::Observation(observation) = event
                    && let Observed::Repeated(repeated) = observation.kind
                {
                    resent.get_or_insert_with(|| Series::new(start)).add(repeated.seen.time);
                }
                if let Event::Transaction(transaction) = event {
                    *rows += 1;
                    note_number(numbers, transaction);
                    if *rows <= Session::MOST_ROWS as u64 {
                        let row = maker.row(transaction, start, record);
                        gathering.transaction(transaction, row.file(), start);
                        batch.rows.push(row);
                    } else {
                        let mut file = None;
                        maker.follow(transaction).file(&mut |path| file = Some(path.to_vec()));
                        gathering.transaction(transaction, file.as_deref(), start);
                        batch.further_rows += 1;
                    }
                }
            }
            Happening::Finding(finding) => findings.push(finding.clone()),
        });
        findings.into_iter().for_each(|finding| self.found(record, finding));
    }

    fn found(&mut self, record: u64, finding: Finding) {
        let Analysis { timeline, allowances, gathering, found, batch, .. } = self;
        let allowance = allowances.find(&finding, |id| timeline.latest().connection(id));
        *found += 1;
        if allowance.is_none() {
            gathering.finding(&finding);
        }
        if *found <= Config::default().findings as u64 {
            let time = timeline.latest().time();
            batch.findings.push(Found { record, time, finding, allowance });
        } else if allowance.is_none() {
            batch.further_findings += 1;
        }
    }

    /// Returns the results since the last call. With `is_full`, they include events, report and the
    /// state after the last record, which take time to compute.
    pub fn batch(&mut self, progress: Progress, is_full: bool) -> Batch {
        let latest = self.timeline.latest();
        let totals = self.ended.as_ref().map_or(*latest.totals(), |ending| ending.totals);
        let mut batch = core::mem::take(&mut self.batch);
        batch.learned = self.maker.learned();
        (batch.start, batch.totals, batch.dropped, batch.progress) =
            (self.start, totals, self.dropped, progress);
        if is_full {
            self.add_summary(&mut batch, totals);
        }
        batch
    }

    /// Adds events, the overview and the state after the last record.
    fn add_summary(&mut self, batch: &mut Batch, totals: Totals) {
        let Analysis { timeline, report, gathering, clock, ended, dropped, resent, .. } = self;
        let latest = timeline.latest();
        let open: Vec<Connection> = latest.connections().collect();
        let mut now = Ending { totals, ..Ending::default() };
        if let Some((_, last)) = &mut now.totals.span {
            *last = clock.map_or(*last, |clock| clock.max(*last));
        }
        let end = now.totals.span.map(|(_, last)| last);
        let events = match (&ended, end) {
            (None, Some(now)) => {
                let open = Open::new(open.iter().cloned(), latest.open_transactions());
                report.gathered().list_now(&open, now)
            }
            _ => report.gathered().list(end),
        };
        let waiting = latest.open_transactions().filter(|open| open.direction == Direction::Forward);
        let facts = SessionFacts {
            report,
            ending: ended.as_ref().unwrap_or(&now),
            events: &events,
            open: &open,
            waiting: waiting.map(|open| (open.connection, open.since.time)).collect(),
            has_ended: ended.is_some(),
            dropped: *dropped,
        };
        batch.overview = Some(Box::new(gathering.overview(&facts)));
        batch.events = Some(events);
        batch.now = Some(Box::new(snapshot(latest, &self.lifetimes, &self.maker)));
        batch.resent.clone_from(resent);
        batch.has_report = ended.is_some();
    }

    /// Answers a request of the screen.
    pub fn answer(&mut self, request: Request) -> Answer {
        let result = match request.clone() {
            Request::Report(width) => self.report(width),
            _ if matches!(self.store, Store::Pending) => Err("the capture is still being copied".to_owned()),
            Request::Seek(moment) => self.seek(moment),
            Request::Exchange(named) => self.exchange(named),
            Request::Frame(number) => self.packet(number),
            Request::Save(selection, path, comments) => self.save(selection, path, &comments),
            Request::Packets(line, zone, first) => self.packets(line, zone, first),
            Request::Find(text, from, on) => self.find_packet(&text, from, on),
        };
        result.unwrap_or_else(|error| Answer::Failed(request, error))
    }

    fn report(&self, width: u16) -> Result<Answer, String> {
        let ending = self.ended.as_ref().ok_or("the report is written at the end of the capture")?;
        let style = self.style.with_width(Some(usize::from(width).max(40)));
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let _ = Text { report: &self.report, ending, style }.write(&mut text);
        Ok(Answer::Report(width, text))
    }

    fn seek(&mut self, moment: Moment) -> Result<Answer, String> {
        let moment = match moment {
            Moment::Record(number) => Moment::Record(number.min(self.timeline.taken())),
            time => time,
        };
        let now = self.timeline.seek(&self.store, moment).map_err(|error| error.to_string())?;
        Ok(Answer::Moment(Box::new(snapshot(now, &self.lifetimes, &self.maker))))
    }

    fn exchange(&mut self, named: Named) -> Result<Answer, String> {
        let Analysis { timeline, store, report, .. } = self;
        let last = named.ended.saturating_add(TRAILING).min(timeline.taken());
        let range = named.first.saturating_sub(LEADING).max(1)..=last;
        let mut found = None;
        let replayed = timeline.replay_closely(store, range.clone(), &mut |happening| {
            if let Happening::Event(Event::Transaction(transaction)) = happening
                && transaction.number == named.number
            {
                found = Some((*transaction).clone());
            }
        });
        replayed.map_err(|error| error.to_string())?;
        let transaction = found.ok_or("the transaction is no longer available")?;
        let mut all = Findings::new(Findings::ALL);
        let latest = timeline.latest();
        let listed = || latest.findings().iter().chain(timeline.findings_at_the_end());
        listed().for_each(|found| all.take(&found.finding));
        let by_frame = all.by_frame();
        let mut ladder = Ladder::of(&transaction);
        let mut carriers = Carriers::default();
        let replayed = timeline.replay_closely(store, range, &mut |happening| {
            if let Happening::Event(Event::Attributed(attributed)) = happening {
                ladder.see(&transaction, attributed);
                carriers.see(&transaction, attributed);
                if by_frame.names(attributed.seen.frame) {
                    ladder.mark(&transaction, attributed);
                }
            }
        });
        replayed.map_err(|error| error.to_string())?;
        let marked: HashSet<u64> = ladder.marked().collect();
        let mut findings = Findings::new(Findings::ALL);
        for found in listed() {
            let finding = &found.finding;
            if is_about(finding, &transaction) || finding.frames.iter().any(|frame| marked.contains(frame)) {
                findings.take(finding);
            }
        }
        let end = latest.totals().span.map(|(_, last)| last);
        let events =
            report.gathered().list(end).into_iter().filter(|event| event.is_during(&transaction)).collect();
        let connection = latest.connection(transaction.connection);
        self.last = Some(transaction.clone());
        let sends = [false, true].map(|of_reply| rpc::of_send(&transaction, of_reply).0);
        let messages = [false, true].map(|of_reply| {
            let piece = transaction.message(of_reply)?;
            let fields = rpc::of_message(&transaction, of_reply, &piece);
            (!fields.is_empty()).then_some((fields, piece.bytes))
        });
        Ok(Answer::Exchange(Box::new(Exchanged {
            transaction,
            connection,
            ladder,
            sends,
            messages,
            carriers,
            findings,
            events,
        })))
    }

    fn packet(&mut self, number: u64) -> Result<Answer, String> {
        let Analysis { timeline, store, frame, last, .. } = self;
        let owner = last.as_ref().filter(|transaction| {
            transaction
                .messages()
                .map(|message| message.first.frame..=message.seen.frame)
                .any(|frames| frames.contains(&number))
        });
        let mut shown = None;
        let replayed = timeline.replay(store, number..=number, true, &mut |happening| {
            if let Happening::Event(Event::Packet(packet)) = happening
                && packet.record.number == number
            {
                shown = Some(FrameFields {
                    number,
                    time: packet.record.time,
                    fields: headers::frame(packet, frame, owner),
                    bytes: packet.record.data.to_vec(),
                });
            }
        });
        replayed.map_err(|error| error.to_string())?;
        shown.map(|frame| Answer::Frame(Box::new(frame))).ok_or_else(|| format!("there is no frame {number}"))
    }

    /// The oldest record that is available.
    fn oldest(&self) -> u64 {
        match &self.store {
            Store::Ring(ring) => ring.first().unwrap_or(1),
            Store::Archive(_) | Store::Pending => 1,
        }
    }

    /// The oldest record from which a replay can start: the first one after a checkpoint.
    fn first(&self) -> u64 {
        (self.oldest() - 1).next_multiple_of(self.timeline.spacing()) + 1
    }
}

/// Notes the number of a transaction, for packets that name it by its beginning.
fn note_number(numbers: &mut Vec<u32>, transaction: &Transaction) {
    let place = usize::try_from(transaction.begun.saturating_sub(1)).unwrap_or(usize::MAX);
    let Some(number) = u32::try_from(transaction.number).ok().filter(|_| place < Session::MOST_ROWS) else {
        return;
    };
    if numbers.len() <= place {
        numbers.resize(place + 1, 0);
    }
    numbers[place] = number;
}

fn snapshot(now: Now<'_>, lifetimes: &Lifetimes, maker: &RowMaker) -> Snapshot {
    let (state, further_state) = lifetimes.at(now.record(), maker.paths());
    let judge = now.judge();
    let connections = now.connections().map(|connection| ConnectionNow {
        credits: judge.credits(connection.id).map(|[forward, _]| (forward.in_flight, forward.granted)),
        connection,
    });
    let connections: Vec<ConnectionNow> = connections.collect();
    // Calls on a closed connection wait no longer.
    let is_up = |id: ConnectionId| {
        let at = connections.binary_search_by_key(&id, |one| one.connection.id);
        at.is_ok_and(|at| connections[at].connection.state != State::Closed)
    };
    let open = now.open_transactions().filter(|open| is_up(open.connection)).map(|open| OpenCall {
        connection: open.connection,
        direction: open.direction,
        xid: open.xid,
        since: open.since,
    });
    let open = open.collect();
    Snapshot {
        record: now.record(),
        time: now.time(),
        connections,
        open,
        ended: now.ended(),
        found: now.found(),
        state,
        further_state,
    }
}
