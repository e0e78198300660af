//! Transactions as rows: the values that a list shows, sorts and filters by. A row is small,
//! because there are many.

mod cells;
mod shared;
mod sort;

pub(crate) use cells::{SEPARATOR, joined};
use rdmascope_analysis::filter::Filtered;
use rdmascope_analysis::names::{self, Failure, Label};
use rdmascope_analysis::paths::{Learned, Paths, TransactionRow, Unnamed};
use rdmascope_analysis::report::payload_bytes;
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use rdmascope_dissector::ulb::Procedure;
use rdmascope_present::column::{Align, TextTable, Tint, Value};
use rdmascope_present::columns::TRANSACTION;
use rdmascope_present::tables::transactions::FilesOf;
use rdmascope_wire::Xid;
pub use shared::Rows;
pub use sort::Sort;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// A transaction that has ended.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number, from 1.
    pub number: u64,
    /// Its connection.
    pub connection: ConnectionId,
    /// The end that called.
    pub direction: Direction,
    /// rdma_xid.
    pub xid: Xid,
    /// How it ended.
    pub outcome: Outcome,
    /// The procedure.
    pub procedure: Option<Procedure>,
    /// The names of its operations.
    pub operations: Box<[&'static str]>,
    /// The status at the beginning of its results.
    pub status: Option<u32>,
    /// The error that its reply reports.
    pub failure: Option<Failure>,
    /// Whether its call or its reply is in the capture, so that its time is known.
    pub has_time: bool,
    /// From call to reply, in nanoseconds.
    pub latency: Option<u64>,
    /// How long its caller waited, in nanoseconds: the latency, or, without a reply, at least this.
    pub waited: Option<u64>,
    /// The time of its call, or of its reply if the call is missing.
    pub time: Time,
    /// Its payload bytes.
    pub bytes: u64,
    /// rdma_credit of its reply: the credits that the answerer grants.
    pub credits: Option<u32>,
    /// Its first packet, or the last one before it if it has none.
    pub first: u64,
    /// The last packet of its Sends.
    pub last: u64,
    /// The record at which it ended.
    pub ended: u64,
    /// The principal operation.
    pub label: Label,
    /// Its client, server, user and files.
    about: Arc<About>,
    /// The strongest verdict of the findings about it.
    pub mark: Option<Verdict>,
    tint: Tint,
    cells: Box<str>,
}

/// Client, server, user and files of a transaction. Many transactions share them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct About {
    client: Option<Address>,
    server: Option<Address>,
    /// uid and machine name of an AUTH_SYS credential.
    user: Option<(u32, Box<[u8]>)>,
    /// The file, and the second file.
    files: [Option<Box<[u8]>>; 2],
    /// The directories that their paths start from, if those have no name yet.
    unnamed: [Option<Unnamed>; 2],
}

/// The most values that rows can share.
const MOST_SUBJECTS: usize = 1 << 16;

impl About {
    fn of(row: TransactionRow<'_>) -> About {
        let (mut user, mut files) = (None, [None, None]);
        row.user(&mut |uid, machine| user = Some((uid, machine.into())));
        row.file(&mut |path| files[0] = Some(path.into()));
        row.other_file(&mut |path| files[1] = Some(path.into()));
        let unnamed = [false, true].map(|second| row.unnamed(second));
        About { client: row.client(), server: row.server(), user, files, unnamed }
    }

    fn files(&self) -> FilesOf<'_> {
        FilesOf(self.files.each_ref().map(|path| path.as_deref()))
    }

    /// Returns the shared copy of this value, and adds it if there is none.
    fn kept(self, Subjects(subjects): &mut Subjects) -> Arc<About> {
        if let Some(kept) = subjects.get(&self) {
            return kept.clone();
        }
        if subjects.len() >= MOST_SUBJECTS {
            subjects.clear();
        }
        let kept = Arc::new(self);
        subjects.insert(kept.clone());
        kept
    }
}

/// Makes rows, and has their headings.
pub struct RowMaker {
    table: TextTable<Transaction>,
    /// The known paths of files.
    paths: Paths,
    /// The shared values of rows.
    subjects: Subjects,
    /// The unnamed directories that paths of rows start from.
    waiting: BTreeSet<Unnamed>,
    /// [`Paths::shown`] at the last look.
    shown: u64,
}

/// The values that rows share, each once: client, server, user and files.
#[derive(Debug, Default)]
pub struct Subjects(HashSet<Arc<About>>);

impl Default for RowMaker {
    fn default() -> RowMaker {
        RowMaker {
            table: TextTable::new(&TRANSACTION),
            paths: Paths::new(),
            subjects: Subjects::default(),
            waiting: BTreeSet::new(),
            shown: 0,
        }
    }
}

impl RowMaker {
    /// Makes the row of `transaction`, which ended at record `ended` of a capture that starts at
    /// `start`.
    pub fn row(&mut self, transaction: &Transaction, start: Time, ended: u64) -> Row {
        let followed = TransactionRow::follow(transaction, &mut self.paths);
        let messages = transaction.messages();
        let first = messages.clone().map(|message| message.first.frame).min();
        let last =
            messages.clone().map(|message| message.seen.frame).chain(transaction.done.map(|done| done.frame));
        let (cells, tint) = joined(&self.table, followed, start);
        let about = About::of(followed);
        self.waiting.extend(about.unnamed.iter().flatten());
        Row {
            number: transaction.number,
            connection: transaction.connection,
            direction: transaction.direction,
            xid: transaction.xid,
            outcome: transaction.outcome,
            procedure: transaction.procedure,
            operations: transaction.details.operations.iter().map(|operation| operation.name()).collect(),
            status: transaction.status,
            failure: Failure::of(transaction),
            has_time: transaction.call.is_some() || transaction.reply.is_some(),
            latency: transaction.latency(),
            waited: transaction.waited(),
            time: messages.map(|message| message.seen.time).next().unwrap_or(start),
            bytes: payload_bytes(transaction),
            credits: transaction.reply.as_ref().map(|reply| reply.credits),
            first: first.unwrap_or(ended),
            last: last.max().unwrap_or(ended),
            ended,
            label: Label::of(transaction),
            about: about.kept(&mut self.subjects),
            mark: None,
            tint,
            cells,
        }
    }

    /// Follows the paths of a transaction that gets no row.
    pub fn follow<'a>(&'a mut self, transaction: &'a Transaction) -> TransactionRow<'a> {
        TransactionRow::follow(transaction, &mut self.paths)
    }

    /// The names that became known for directories from which paths of rows start. Each is returned
    /// once and applies to the rows made so far.
    pub fn learned(&mut self) -> Vec<Learned> {
        let RowMaker { paths, waiting, shown, .. } = self;
        if core::mem::replace(shown, paths.shown()) == paths.shown() {
            return Vec::new();
        }
        let learned: Vec<Learned> = waiting.iter().filter_map(|unnamed| paths.learned(*unnamed)).collect();
        for one in &learned {
            waiting.remove(&one.of);
            waiting.extend(one.above);
        }
        learned
    }

    /// The known paths of files.
    pub fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The headings of the cells.
    pub fn headings(&self) -> impl Iterator<Item = (&'static str, Align)> {
        self.table.headings()
    }
}

impl Row {
    /// The path of its file, if it is known.
    pub fn file(&self) -> Option<&[u8]> {
        self.about.files[0].as_deref()
    }

    /// Its cells, in the order of the headings.
    pub fn cells(&self) -> impl Iterator<Item = &str> {
        self.cells.split(SEPARATOR)
    }

    /// The colour of its status.
    pub fn tint(&self) -> Tint {
        self.tint
    }

    /// The directories that the paths of its files start from, if those have no name yet.
    pub fn unnamed(&self) -> [Option<Unnamed>; 2] {
        self.about.unnamed
    }

    /// Applies a name that became known.
    pub fn learn(&mut self, learned: &Learned, subjects: &mut Subjects) {
        let mut about = About::clone(&self.about);
        for (path, unnamed) in about.files.iter_mut().zip(&mut about.unnamed) {
            if *unnamed == Some(learned.of) {
                let joined = learned.join(path.as_deref());
                *unnamed = learned.above.filter(|_| joined.is_some());
                *path = joined.or(path.take());
            }
        }
        // The last cell contains the remarks, which begin with the files.
        let start = self.cells.rfind(SEPARATOR).map_or(0, |at| at + SEPARATOR.len_utf8());
        let (cells, remarks) = self.cells.split_at(start);
        let before = self.about.files().to_string();
        let rest = remarks.strip_prefix(before.trim()).unwrap_or(remarks);
        let separator = if before.is_empty() && !rest.is_empty() { "; " } else { "" };
        self.cells = format!("{cells}{}{separator}{rest}", about.files()).into();
        self.about = about.kept(subjects);
    }

    /// Whether `finding` is about it. [`is_about`](rdmascope_analysis::findings::is_about) does the
    /// same for transactions.
    pub fn is_found(&self, finding: &Finding) -> bool {
        match finding.transaction {
            Some(number) => number == self.number,
            None => {
                finding.connection == Some(self.connection)
                    && finding.direction.is_none_or(|direction| direction == self.direction)
                    && finding.xid == Some(self.xid)
                    && finding.frames.iter().any(|frame| (self.first..=self.last).contains(frame))
            }
        }
    }

    /// Marks it with the verdict of a finding. A certain finding outweighs an inconclusive one.
    pub fn take(&mut self, verdict: Verdict) {
        if self.mark != Some(Verdict::Certain) {
            self.mark = Some(verdict);
        }
    }

    /// The columns of a transaction that [`Row::value`] provides.
    pub const FIELDS: [&str; 19] = [
        "number",
        "connection",
        "direction",
        "xid",
        "operation",
        "operations",
        "status",
        "status_name",
        "outcome",
        "failed",
        "latency_ns",
        "waited_ns",
        "bytes",
        "client",
        "server",
        "uid",
        "machine",
        "file",
        "other_file",
    ];

    /// Passes the value of one of these columns to `see`.
    pub fn value(&self, field: &str, see: &mut dyn FnMut(Value<'_>)) {
        let about = &self.about;
        let mut address = |address: Option<Address>| {
            if let Some(address) = address {
                see(Value::Shown(&address));
            }
        };
        let value = match field {
            "client" => return address(about.client),
            "server" => return address(about.server),
            "operation" => return see(Value::Shown(&self.label)),
            "operations" => return self.operations.iter().for_each(|name| see(Value::Text(name))),
            "number" => Some(Value::Number(self.number)),
            "connection" => Some(Value::Number(self.connection.0.into())),
            "direction" => Some(Value::Text(names::direction(self.direction))),
            "xid" => Some(Value::Key(self.xid.0)),
            "status" => self.status.map(|status| Value::Number(status.into())),
            "status_name" => self.procedure.zip(self.status).and_then(|(called, status)| {
                names::status_name(called.program, called.version, status).map(Value::Text)
            }),
            "outcome" => Some(Value::Text(names::outcome(self.outcome))),
            "failed" => Some(Value::Boolean(self.failure.is_some())),
            "latency_ns" => self.latency.map(Value::Nanoseconds),
            "waited_ns" => self.waited.map(Value::Nanoseconds),
            "bytes" => Some(Value::Number(self.bytes)),
            "uid" => about.user.as_ref().map(|(uid, _)| Value::Number((*uid).into())),
            "machine" => about.user.as_ref().map(|(_, machine)| Value::Lossy(machine)),
            "file" => about.files[0].as_deref().map(Value::Lossy),
            "other_file" => about.files[1].as_deref().map(Value::Lossy),
            _ => None,
        };
        if let Some(value) = value {
            see(value);
        }
    }

    /// Whether it contains `text`, ignoring case. `text` is in lower case.
    pub fn contains(&self, text: &str) -> bool {
        self.cells.to_lowercase().contains(text)
    }
}

impl Filtered for Row {
    fn connection(&self) -> ConnectionId {
        self.connection
    }

    fn xid(&self) -> Xid {
        self.xid
    }

    fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn direction(&self) -> Direction {
        self.direction
    }

    fn procedure(&self) -> Option<Procedure> {
        self.procedure
    }

    fn has_operation(&self, name: &str) -> bool {
        self.operations.iter().any(|operation| operation.eq_ignore_ascii_case(name))
    }

    fn status(&self) -> Option<u32> {
        self.status
    }

    fn failure(&self) -> Option<Failure> {
        self.failure
    }

    fn waited(&self) -> Option<u64> {
        self.waited
    }

    fn began(&self) -> Option<Time> {
        self.has_time.then_some(self.time)
    }

    fn client(&self) -> Option<Address> {
        self.about.client
    }

    fn server(&self) -> Option<Address> {
        self.about.server
    }

    fn user(&self, see: &mut dyn FnMut(u32, &[u8])) {
        if let Some((uid, machine)) = &self.about.user {
            see(*uid, machine);
        }
    }

    fn files(&self, see: &mut dyn FnMut(&[u8])) {
        self.about.files.iter().flatten().for_each(|path| see(path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Batch, Session};
    use rdmascope_present::column::Picked;
    use rdmascope_tests::{samples, session};

    fn shown(value: Value<'_>) -> Option<String> {
        Some(match value {
            Value::Missing => return None,
            Value::Boolean(value) => value.to_string(),
            Value::Number(number) | Value::Nanoseconds(number) => number.to_string(),
            Value::Key(number) => number.to_string(),
            Value::Text(text) => text.to_owned(),
            Value::Shown(shown) => shown.to_string(),
            Value::Lossy(bytes) => format!("{bytes:?}"),
            _ => panic!("no column of a row has such a value"),
        })
    }

    /// Names that become known late are shown as in a capture that is read twice, whatever the
    /// batches.
    #[test]
    fn rows_get_paths_learned_later() {
        let (mut named, mut longer) = (0, 0);
        for sample in ["nfs3-basic", "nfs4.1-basic", "nfs4.2-basic"] {
            for (part, step) in [(5, 1), (5, 50), (3, 7), (2, usize::MAX)] {
                let mut capture = samples::capture(sample);
                capture.packets.drain(..capture.packets.len() / part);
                let transactions = session::run(&capture).transactions;
                let (mut maker, mut twice) = (RowMaker::default(), RowMaker::default());
                let mut session = Session::default();
                let mut before = Vec::new();
                for some in transactions.chunks(step.min(transactions.len())) {
                    let rows: Vec<Row> =
                        some.iter().map(|transaction| maker.row(transaction, Time(0), 1)).collect();
                    before.extend(rows.iter().cloned());
                    session.take(Batch { rows, learned: maker.learned(), ..Batch::default() });
                }
                transactions.iter().for_each(|transaction| twice.paths.take(transaction));
                twice.paths.rewind();
                for (index, transaction) in transactions.iter().enumerate() {
                    let (was, row) = (&before[index], &session.rows[index]);
                    let expected = twice.row(transaction, Time(0), 1);
                    assert_eq!(row.about.files, expected.about.files, "{sample} {}", row.number);
                    assert_eq!(row.cells, expected.cells, "{sample} {}", row.number);
                    for (was, path) in was.about.files.iter().zip(&row.about.files) {
                        named += usize::from(was.is_none() && path.is_some());
                        longer += usize::from(was.is_some() && was != path);
                    }
                }
            }
        }
        assert!(named > 0 && longer > 0, "{named} paths are shown late in these captures, {longer} grow");
    }

    /// A filter reads the same values in a row as in the columns of the transaction.
    #[test]
    fn row_values_match_the_columns() {
        let mut seen = HashSet::new();
        for sample in ["nfs3-basic", "nfs4.1-backchannel-recall", "nfs3-lossy"] {
            let (mut maker, mut paths) = (RowMaker::default(), Paths::new());
            for transaction in session::run(&samples::capture(sample)).transactions {
                let row = maker.row(&transaction, Time(0), 1);
                let followed = TransactionRow::follow(&transaction, &mut paths);
                for field in Row::FIELDS {
                    let (mut expected, mut found) = (Vec::new(), Vec::new());
                    let picked = Picked::cells(&TRANSACTION, &[field.to_owned()]);
                    picked.each(followed, &mut |_, value| expected.extend(shown(value)));
                    row.value(field, &mut |value| found.extend(shown(value)));
                    assert_eq!(found, expected, "{sample} {}: {field}", row.number);
                    if !found.is_empty() {
                        seen.insert(field);
                    }
                }
            }
        }
        assert_eq!(seen.len(), Row::FIELDS.len(), "a field without a value shows nothing: {seen:?}");
    }
}
