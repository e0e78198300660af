//! The capture behind the screen: engine, judge and records. It takes records as they arrive,
//! returns new results in [`Batch`]es, and answers requests of the screen.

use crate::chart::Series;
use crate::ring::Ring;
use crate::rows::RowMaker;
use crate::session::{Batch, ConnectionNow, Found, OpenCall, Progress, Session, Snapshot};
use crate::store::Store;
use rdmascope_analysis::carriers::Carriers;
use rdmascope_analysis::ending::{self, Ending};
use rdmascope_analysis::events::{Open, SessionEvent};
use rdmascope_analysis::findings::{Findings, is_about};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::policy::Allowances;
use rdmascope_analysis::report::Report;
use rdmascope_analysis::timeline::{Config, Happening, Moment, Now, Records as _, Timeline};
use rdmascope_analysis::together::Together;
use rdmascope_capture_agent::new_file::{self, Unfinished};
use rdmascope_capture_agent::{FileEnding, Note, PcapngWriter};
use rdmascope_conformance::{Finding, Judge, Level};
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::{self, Totals};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::observation::Observed;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::transport::Dissected;
use rdmascope_present::fields::{Field, headers, rpc};
use rdmascope_present::ladder::Ladder;
use rdmascope_present::page::report::Text;
use rdmascope_present::text::Style;
use std::collections::HashSet;
use std::io::{self, BufWriter};
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
    /// Write packets to a new file.
    Save(What, PathBuf),
}

/// A selection of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// All packets that are available.
    #[default]
    All,
    /// Those of a connection.
    Connection(ConnectionId),
    /// Those of a connection, from one record to another.
    Between(ConnectionId, u64, u64),
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

/// The capture behind the screen.
pub struct Analysis {
    timeline: Timeline,
    store: Store,
    maker: RowMaker,
    report: Report,
    together: Together,
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
    ended: Option<Totals>,
    files: Vec<FileEnding>,
}

/// Records after the end of a transaction that may contain its last acknowledgements.
const BEHIND: u64 = 512;
/// Records before the first packet of a transaction that are replayed for it.
const BEFORE: u64 = 64;

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
            together: Together::default(),
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
            files: Vec::new(),
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
    pub fn keep_latest(&mut self, memory: usize) {
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
        self.tell(number, |timeline, tell| {
            timeline.take_telling(record, dissected, &mut |happening| tell(happening))
        });
    }

    /// Advances the time to `now` without a record. Returns whether something may have ended as a
    /// result.
    pub fn time(&mut self, now: Time) -> bool {
        if self.timeline.latest().engine().next_deadline().is_none_or(|deadline| deadline > now) {
            return false;
        }
        let number = self.timeline.taken();
        self.tell(number, |timeline, tell| {
            timeline.handle_time_telling(now, &mut |happening| tell(happening))
        });
        true
    }

    /// Takes a note of the capture: connections that a kernel knew.
    pub fn note(&mut self, note: &Note) {
        self.timeline.take_note(note);
    }

    /// Ends the capture. `files` gives the ending of each file, if the source is files.
    pub fn finish(&mut self, files: Vec<FileEnding>) {
        self.files = files;
        let number = self.timeline.taken();
        let mut totals = None;
        self.tell(number, |timeline, tell| {
            totals = Some(timeline.finish_telling(&mut |happening| tell(happening)));
        });
        self.ended = totals;
    }

    fn tell(&mut self, record: u64, handle: impl FnOnce(&mut Timeline, &mut dyn FnMut(Happening<'_>))) {
        let Analysis { timeline, maker, report, together, start, rows, allowances, resent, batch, .. } = self;
        let start = start.unwrap_or_default();
        let mut findings = Vec::new();
        handle(timeline, &mut |happening| match happening {
            Happening::Event(event) => {
                report.handle(event);
                together.handle(event);
                allowances.take(event);
                if let Event::Observation(observation) = event
                    && let Observed::Repeated(repeated) = observation.what
                {
                    resent.get_or_insert_with(|| Series::new(start)).add(repeated.seen.time);
                }
                if let Event::Transaction(transaction) = event {
                    *rows += 1;
                    if *rows <= Session::MOST_ROWS as u64 {
                        batch.rows.push(maker.row(transaction, start, record));
                    } else {
                        batch.further_rows += 1;
                    }
                }
            }
            Happening::Finding(finding) => findings.push(finding.clone()),
        });
        findings.into_iter().for_each(|finding| self.found(record, finding));
    }

    fn found(&mut self, record: u64, finding: Finding) {
        let Analysis { timeline, allowances, found, batch, .. } = self;
        let allowance = allowances.find(&finding, |id| timeline.latest().connection(id));
        *found += 1;
        if *found <= Config::default().findings as u64 {
            batch.findings.push(Found { record, finding, allowance });
        } else if allowance.is_none() {
            batch.further_findings += 1;
        }
    }

    /// Returns the results since the last call. If `whole`, they include events, report and the
    /// state after the last record, which take time.
    pub fn batch(&mut self, progress: Progress, whole: bool) -> Batch {
        let latest = self.timeline.latest();
        let totals = self.ended.unwrap_or(*latest.totals());
        let mut batch = core::mem::take(&mut self.batch);
        batch.learned = self.maker.learned();
        (batch.start, batch.totals, batch.dropped, batch.progress) =
            (self.start, totals, self.dropped, progress);
        if whole {
            let end = totals.span.map(|(_, last)| last);
            batch.events = Some(match (self.ended, end) {
                (None, Some(now)) => {
                    let open = Open::new(latest.connections(), latest.open_transactions());
                    self.report.gathered().list_now(&open, now)
                }
                _ => self.report.gathered().list(end),
            });
            batch.now = Some(Box::new(snapshot(latest)));
            batch.resent.clone_from(&self.resent);
            if self.ended.is_some() {
                let files = core::mem::take(&mut self.files);
                let together = core::mem::take(&mut self.together);
                let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
                let input = ending::arguments(&names);
                let ending = Ending { totals, files, port: self.frame.port, together, chosen: None, input };
                let mut text = Vec::new();
                // Writing to memory cannot fail.
                let _ = Text { report: &self.report, ending: &ending, style: self.style }.write(&mut text);
                batch.report = Some(text);
            }
        }
        batch
    }

    /// Answers a request of the screen.
    pub fn answer(&mut self, request: Request) -> Answer {
        let answered = match request.clone() {
            _ if matches!(self.store, Store::Pending) => Err("the capture is still being copied".to_owned()),
            Request::Seek(moment) => self.seek(moment),
            Request::Exchange(named) => self.exchange(named),
            Request::Frame(number) => self.packet(number),
            Request::Save(what, path) => self.save(what, path),
        };
        answered.unwrap_or_else(|error| Answer::Failed(request, error))
    }

    fn seek(&mut self, moment: Moment) -> Result<Answer, String> {
        let moment = match moment {
            Moment::Record(number) => Moment::Record(number.min(self.timeline.taken())),
            time => time,
        };
        let now = self.timeline.seek(&self.store, moment).map_err(|error| error.to_string())?;
        Ok(Answer::Moment(Box::new(snapshot(now))))
    }

    fn exchange(&mut self, named: Named) -> Result<Answer, String> {
        let Analysis { timeline, store, report, .. } = self;
        let last = named.ended.saturating_add(BEHIND).min(timeline.taken());
        let range = named.first.saturating_sub(BEFORE).max(1)..=last;
        let mut found = None;
        let told = timeline.replay_closely(store, range.clone(), &mut |happening| {
            if let Happening::Event(Event::Transaction(transaction)) = happening
                && transaction.number == named.number
            {
                found = Some((*transaction).clone());
            }
        });
        told.map_err(|error| error.to_string())?;
        let transaction = found.ok_or("the transaction is no longer available")?;
        let mut all = Findings::new(Findings::ALL);
        let latest = timeline.latest();
        let listed = || latest.findings().iter().chain(timeline.findings_at_the_end());
        listed().for_each(|found| all.take(&found.finding));
        let by_frame = all.by_frame();
        let mut ladder = Ladder::of(&transaction);
        let mut carriers = Carriers::default();
        let told = timeline.replay_closely(store, range, &mut |happening| {
            if let Happening::Event(Event::Attributed(attributed)) = happening {
                ladder.see(&transaction, attributed);
                carriers.see(&transaction, attributed);
                if by_frame.names(attributed.seen.frame) {
                    ladder.mark(&transaction, attributed);
                }
            }
        });
        told.map_err(|error| error.to_string())?;
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
            let messages = [&transaction.call, &transaction.reply].into_iter().flatten();
            messages
                .map(|message| message.first.frame..=message.seen.frame)
                .any(|frames| frames.contains(&number))
        });
        let mut shown = None;
        let told = timeline.replay(store, number..=number, true, &mut |happening| {
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
        told.map_err(|error| error.to_string())?;
        shown.map(|frame| Answer::Frame(Box::new(frame))).ok_or_else(|| format!("there is no frame {number}"))
    }
    /// Writes packets as pcapng. An existing file is not overwritten.
    fn save(&self, what: What, path: PathBuf) -> Result<Answer, String> {
        let Analysis { timeline, store, .. } = self;
        let error = |error: io::Error| format!("{}: {error}", path.display());
        let file = new_file::make(&path).map_err(|failed| match failed.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{}: that file exists; choose another name", path.display())
            }
            _ => error(failed),
        })?;
        let unfinished = Unfinished::new(&path, &file);
        let out = BufWriter::with_capacity(1 << 20, file);
        let mut writer =
            PcapngWriter::new(out, concat!("rdmascope ", env!("CARGO_PKG_VERSION"))).map_err(error)?;
        let (mut packets, mut written) = (0, Ok(()));
        let mut write = |record: &Record<'_>| {
            if written.is_ok() {
                written = writer.packet(record, "");
                packets += 1;
            }
        };
        let (wanted, range) = match what {
            What::All => (None, 0..=0),
            What::Connection(id) => (Some(id), self.first()..=timeline.taken()),
            What::Between(id, first, last) => {
                (Some(id), first.max(self.first())..=last.min(timeline.taken()))
            }
        };
        match wanted {
            None => store.walk(self.oldest()).for_each(|record| write(&record)),
            Some(id) => {
                let mut tell = |happening: Happening<'_>| {
                    if let Happening::Event(Event::Packet(packet)) = happening
                        && packet.connection == Some(id)
                    {
                        write(&packet.record);
                    }
                };
                timeline.replay(store, range, true, &mut tell).map_err(|error| error.to_string())?;
            }
        }
        written.and_then(|()| writer.finish().map(drop)).map_err(error)?;
        unfinished.keep();
        Ok(Answer::Saved(path, packets))
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

fn snapshot(now: Now<'_>) -> Snapshot {
    let judge = now.judge();
    let connections = now.connections().map(|connection| ConnectionNow {
        credits: judge.credits(connection.id).map(|[forward, _]| (forward.in_flight, forward.granted)),
        connection,
    });
    let open = now.open_transactions().map(|open| OpenCall {
        connection: open.connection,
        direction: open.direction,
        xid: open.xid,
        since: open.since,
    });
    Snapshot {
        record: now.record(),
        time: now.time(),
        connections: connections.collect(),
        open: open.collect(),
        ended: now.ended(),
        found: now.found(),
    }
}
