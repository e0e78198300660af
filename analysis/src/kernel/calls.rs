//! Assembles the events of a trace into calls.

use super::point::{Point, Role, Times};
use foldhash::fast::FixedState;
use rdmascope_capture_agent::trace::{
    ChunkKind, Completion, Event, Line, Lost, Segment, Task, Trace, TraceError, Unread,
};
use std::collections::HashMap;
use std::io::BufRead;

type Map<K, V> = HashMap<K, V, FixedState>;

/// A call according to the traced host.
#[derive(Clone, Debug)]
pub struct Call {
    /// The host's end of the call.
    pub role: Role,
    /// Whether it is known to be a callback.
    pub backward: bool,
    /// Its XID.
    pub xid: u32,
    /// Its RPC client or completion queue.
    pub(super) group: Option<i64>,
    /// The first line of the trace about it, from 1.
    pub line: u64,
    /// Bytes of its RPC-over-RDMA header.
    pub header_length: Option<u32>,
    /// Bytes of the RPC message before reduction.
    pub message_length: Option<u64>,
    /// Bytes of the Send that the host received: the reply if the host is the caller, else the
    /// call.
    pub received: Option<u32>,
    /// The rdma_credit of the message that the host received.
    pub credits: Option<u32>,
    /// Its chunks; `None` if the trace has no segments.
    pub chunks: Option<Box<Chunks>>,
    /// Whether some segments were not kept.
    pub(super) is_partial: bool,
    /// Whether the reply is an RDMA_ERROR.
    pub has_error: bool,
    /// Its name, as an index into [`KernelTrace::names`].
    pub(super) name: Option<u16>,
    pub(super) times: Times,
}

/// The chunks of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunks {
    /// Read segments with their Positions.
    pub reads: Vec<(u32, Segment)>,
    /// Segments of Write chunks; if the host is the answerer, followed by those of the Reply chunk.
    pub writes: Vec<Segment>,
    /// Segments of the Reply chunk, if the host is the caller.
    pub reply: Vec<Segment>,
    /// Segments that the reply returns, if the host is the answerer.
    pub returned: Vec<Segment>,
}

impl Call {
    /// Bytes of memory that the call advertised.
    pub fn advertised(&self) -> u64 {
        let Some(chunks) = self.chunks.as_deref() else { return 0 };
        let reads = chunks.reads.iter().map(|(_, segment)| segment.length);
        let others = chunks.writes.iter().chain(&chunks.reply).map(|segment| segment.length);
        reads.chain(others).map(u64::from).sum()
    }

    fn new(role: Role, xid: u32, line: u64) -> Call {
        Call {
            role,
            backward: false,
            xid,
            group: None,
            line,
            header_length: None,
            message_length: None,
            received: None,
            credits: None,
            chunks: None,
            is_partial: false,
            has_error: false,
            name: None,
            times: Times::default(),
        }
    }

    /// The time of a point, in nanoseconds of the trace's clock.
    pub fn time(&self, point: Point) -> Option<i64> {
        self.times.get(point)
    }

    /// The host's time for the call, in nanoseconds. A caller's runs from marshalling the call to
    /// matching the reply. An answerer's runs from receiving the call, or else from decoding it, to
    /// handing the reply to the device.
    pub fn latency(&self) -> Option<u64> {
        let (start, end) = match self.role {
            Role::Caller => (self.time(Point::Marshalled), self.time(Point::ReplyMatched)),
            Role::Answerer => {
                (self.time(Point::CallReceived).or(self.time(Point::Decoded)), self.time(Point::ReplyPosted))
            }
        };
        u64::try_from(end? - start?).ok()
    }
}

/// A trace.
#[derive(Debug, Default)]
pub struct KernelTrace {
    /// Its name.
    pub name: String,
    /// Lines.
    pub lines: u64,
    /// Events.
    pub events: u64,
    /// Events of unknown kinds.
    pub unknown: u64,
    /// Losses that the trace reports.
    pub lost: Lost,
    /// Lines that could not be parsed.
    pub unread: Unread,
    /// Calls, in the order in which they begin.
    pub calls: Vec<Call>,
    /// Events of calls beyond [`KernelTrace::MOST_CALLS`], and segments beyond
    /// [`KernelTrace::MOST_SEGMENTS`].
    pub beyond: u64,
    /// The resolution of its times, in nanoseconds.
    pub resolution: i64,
    /// The first and the last time.
    pub span: Option<(i64, i64)>,
    /// The names of calls.
    pub(super) names: Vec<String>,
    /// Marks with a known time of day: the time by the trace's clock, and the earliest and the
    /// latest possible time of day.
    pub(super) marks: Vec<(i64, i64, i64)>,
}

impl KernelTrace {
    /// The most calls that are kept.
    pub const MOST_CALLS: usize = 1 << 19;
    /// The most segments that are kept.
    pub const MOST_SEGMENTS: usize = 1 << 20;
    /// The most names of procedures that are distinguished.
    const MOST_NAMES: usize = 256;

    /// Reads a trace to its end.
    pub fn read<R: BufRead>(trace: &mut Trace<R>) -> Result<KernelTrace, TraceError> {
        let mut assembly = Assembly::default();
        while trace.next(&mut |number, line| assembly.line(number, line))? {}
        let mut read = assembly.trace;
        read.name = trace.name().to_owned();
        read.lines = trace.lines();
        read.lost = trace.lost();
        read.unread = trace.unread();
        Ok(read)
    }

    /// The name of a call: `nfsv3 READ`.
    pub fn name_of(&self, call: &Call) -> Option<&str> {
        Some(self.names.get(usize::from(call.name?))?)
    }
}

/// The most entries of each table in [`Assembly`].
const MOST_OPEN: usize = 1 << 16;

/// The state while a trace is read. A full table is emptied, so calls in progress may lack later
/// events.
#[derive(Default)]
struct Assembly {
    trace: KernelTrace,
    segments: usize,
    numbers: Map<(String, String), u16>,
    /// Segments of the call that a task is marshalling.
    marshalling: Map<Task, Chunks>,
    /// The XID that a task was given, with time and line.
    reserved: Map<Task, (u32, i64, u64)>,
    /// The call for whose reply a task waits.
    waiting: Map<Task, u32>,
    /// The latest call of the host with each XID.
    callers: Map<u32, u32>,
    answerers: Map<u32, u32>,
    /// Receives of the server.
    receipts: Map<Completion, Receipt>,
    /// The call that each server thread is processing.
    working: Map<u32, u32>,
    /// Calls by the memory that they advertise to the server.
    advertised: Map<(u64, u32), u32>,
    /// The number and the time of the latest mark.
    mark: Option<(u64, i64)>,
    /// The latest receive event of each CPU. It precedes the event of the received message.
    received: Map<u32, (u32, i64, Option<u32>)>,
}

/// A receive of the server.
#[derive(Default)]
struct Receipt {
    time: Option<i64>,
    bytes: Option<u32>,
    line: u64,
    chunks: Chunks,
    call: Option<u32>,
}

/// Inserts an entry; a full table is emptied first.
fn enter<K: Eq + core::hash::Hash, V>(map: &mut Map<K, V>, key: K, value: V) {
    if map.len() >= MOST_OPEN {
        map.clear();
    }
    map.insert(key, value);
}

impl Assembly {
    fn line(&mut self, number: u64, line: &Line<'_>) {
        let trace = &mut self.trace;
        trace.events += 1;
        trace.resolution =
            if trace.events == 1 { line.resolution } else { trace.resolution.max(line.resolution) };
        let (first, last) = trace.span.unwrap_or((line.time, line.time));
        trace.span = Some((first.min(line.time), last.max(line.time)));
        let receipt = self.received.remove(&line.cpu).filter(|(pid, ..)| *pid == line.pid);
        let time = line.time;
        match line.event {
            Event::Unknown => self.trace.unknown += 1,
            Event::Reserve { task, xid } => enter(&mut self.reserved, task, (xid, time, number)),
            Event::ChunkSegment { task, kind, segment } => self.marshalled_segment(task, kind, segment),
            Event::Marshal { task, xid, header_length, message } => {
                self.marshal(number, time, task, xid, header_length, message);
            }
            Event::PostSend { task } => {
                if let Some(call) = self.waiting.get(&task).copied() {
                    self.at(call, Point::CallPosted, time);
                }
            }
            Event::WcReceive { received } => {
                enter(&mut self.received, line.cpu, (line.pid, time, received));
            }
            Event::Reply { task, xid, credits } => {
                if let Some(call) = self.answered(number, time, task, xid, receipt) {
                    call.credits = Some(credits);
                }
            }
            Event::ReplyError { task, xid } => {
                if let Some(call) = self.answered(number, time, task, xid, receipt) {
                    call.has_error = true;
                }
            }
            Event::CallbackCall { xid, .. } => self.callback(number, time, xid, receipt),
            Event::CallbackReply { xid, .. } => {
                if let Some(call) = self.answerers.get(&xid).copied() {
                    self.at(call, Point::ReplyPosted, time);
                }
            }
            Event::RpcLatency { xid, program, procedure, execute } => {
                if let Some(call) = self.callers.get(&xid).copied() {
                    self.name(call, program, procedure);
                    execute.into_iter().for_each(|execute| self.lasted(call, time, execute));
                }
            }
            Event::SvcReceive { completion, received } => {
                let receipt =
                    Receipt { time: Some(time), bytes: received, line: number, ..Receipt::default() };
                enter(&mut self.receipts, completion, receipt);
            }
            Event::DecodeSegment { completion, position, segment } => {
                self.decoded_segment(number, completion, position, segment);
            }
            Event::Decode { completion, xid, credits, header_length } => {
                self.decode(number, line, completion, xid, credits, header_length);
            }
            Event::ReadFinished { completion } => {
                if let Some(call) = self.receipts.get(&completion).and_then(|receipt| receipt.call) {
                    self.at(call, Point::ReadsDone, time);
                    enter(&mut self.working, line.pid, call);
                }
            }
            Event::Process { xid, service, version, procedure } => {
                if let Some(call) = self.answerers.get(&xid).copied() {
                    self.at(call, Point::Processed, time);
                    self.name(call, &format!("{service} v{version}"), procedure);
                    enter(&mut self.working, line.pid, call);
                }
            }
            Event::EncodeSegment { segment } => self.encoded_segment(line, segment),
            Event::Mark { number, realtime: None } => self.mark = Some((number, time)),
            Event::Mark { number, realtime: Some((before, after)) } => {
                let mark = self.mark.filter(|(of, _)| *of == number);
                if let Some((_, at)) = mark.filter(|_| self.trace.marks.len() < MOST_OPEN) {
                    self.trace.marks.push((at, before, after));
                }
            }
            Event::SvcPostSend => {
                if let Some(call) = self.working.remove(&line.pid) {
                    self.at(call, Point::ReplyPosted, time);
                }
            }
            _ => {}
        }
    }

    /// Notes the start of a task that ended at `time` after this number of microseconds. It is no
    /// later than the points that follow.
    fn lasted(&mut self, call: u32, time: i64, execute: u64) {
        let execute = i64::try_from(execute).unwrap_or(i64::MAX).saturating_mul(1_000);
        let times = &mut self.call(call).times;
        let next = [Point::Reserved, Point::Marshalled].into_iter().find_map(|point| times.get(point));
        times.set(Point::Begun, time.saturating_sub(execute).min(next.unwrap_or(time)));
    }

    fn call(&mut self, call: u32) -> &mut Call {
        &mut self.trace.calls[call as usize]
    }

    fn at(&mut self, call: u32, point: Point, time: i64) {
        self.call(call).times.set_first(point, time);
    }

    fn begin(&mut self, call: Call) -> Option<u32> {
        if self.trace.calls.len() >= KernelTrace::MOST_CALLS {
            self.trace.beyond += 1;
            return None;
        }
        self.trace.calls.push(call);
        Some(self.trace.calls.len() as u32 - 1)
    }

    /// Counts a segment, and returns whether there is room for it.
    fn has_room(&mut self) -> bool {
        let has = self.segments < KernelTrace::MOST_SEGMENTS;
        if has {
            self.segments += 1;
        } else {
            self.trace.beyond += 1;
        }
        has
    }

    fn marshalled_segment(&mut self, task: Task, kind: ChunkKind, segment: Segment) {
        if !self.has_room() {
            return;
        }
        if self.marshalling.len() >= MOST_OPEN {
            self.marshalling.clear();
        }
        let chunks = self.marshalling.entry(task).or_default();
        match kind {
            ChunkKind::Read(position) => {
                push_segment(&mut chunks.reads, (position, segment), |(_, old)| *old)
            }
            ChunkKind::Write => push_segment(&mut chunks.writes, segment, |old| *old),
            ChunkKind::Reply => push_segment(&mut chunks.reply, segment, |old| *old),
        }
    }

    fn marshal(
        &mut self,
        number: u64,
        time: i64,
        task: Task,
        xid: u32,
        header_length: u32,
        message: [u32; 3],
    ) {
        let chunks = self.marshalling.remove(&task);
        let reserved = self.reserved.remove(&task).filter(|(reserved, ..)| *reserved == xid);
        let is_partial = self.segments >= KernelTrace::MOST_SEGMENTS;
        let mut call = Call {
            group: Some(task.client),
            header_length: Some(header_length),
            message_length: Some(message.iter().map(|part| u64::from(*part)).sum()),
            chunks: chunks.map(Box::new),
            is_partial,
            ..Call::new(Role::Caller, xid, number)
        };
        if let Some((_, at, _)) = reserved {
            call.times.set(Point::Reserved, at);
        }
        call.times.set(Point::Marshalled, time);
        if let Some(call) = self.begin(call) {
            enter(&mut self.waiting, task, call);
            enter(&mut self.callers, xid, call);
        }
    }

    /// The call that was answered. If the trace does not contain it, it begins with its answer.
    fn answered(
        &mut self,
        number: u64,
        time: i64,
        task: Task,
        xid: u32,
        receipt: Option<(u32, i64, Option<u32>)>,
    ) -> Option<&mut Call> {
        self.waiting.remove(&task);
        let open = self.callers.get(&xid).copied();
        let open = open.filter(|call| self.trace.calls[*call as usize].time(Point::ReplyMatched).is_none());
        let call = match open {
            Some(call) => call,
            None => {
                let begun = Call { group: Some(task.client), ..Call::new(Role::Caller, xid, number) };
                let call = self.begin(begun)?;
                enter(&mut self.callers, xid, call);
                call
            }
        };
        let call = self.call(call);
        call.times.set_first(Point::ReplyMatched, time);
        if let Some((_, at, received)) = receipt {
            call.times.set_first(Point::ReplyReceived, at);
            call.received = received;
        }
        Some(call)
    }

    fn callback(&mut self, number: u64, time: i64, xid: u32, receipt: Option<(u32, i64, Option<u32>)>) {
        let mut call = Call { backward: true, ..Call::new(Role::Answerer, xid, number) };
        call.times.set(Point::Decoded, time);
        if let Some((_, at, received)) = receipt {
            call.times.set(Point::CallReceived, at);
            call.received = received;
        }
        if let Some(call) = self.begin(call) {
            enter(&mut self.answerers, xid, call);
        }
    }

    fn decoded_segment(
        &mut self,
        number: u64,
        completion: Completion,
        position: Option<u32>,
        segment: Segment,
    ) {
        if !self.has_room() {
            return;
        }
        if self.receipts.len() >= MOST_OPEN {
            self.receipts.clear();
        }
        let receipt = self.receipts.entry(completion).or_default();
        if receipt.call.is_some() {
            // The completion number was reused, and the trace lacks its receive event.
            *receipt = Receipt { line: number, ..Receipt::default() };
        }
        match position {
            Some(position) => receipt.chunks.reads.push((position, segment)),
            None => receipt.chunks.writes.push(segment),
        }
    }

    fn decode(
        &mut self,
        number: u64,
        line: &Line<'_>,
        completion: Completion,
        xid: u32,
        credits: u32,
        header_length: u32,
    ) {
        let receipt = self.receipts.remove(&completion).filter(|receipt| receipt.call.is_none());
        let receipt = receipt.unwrap_or_default();
        let chunks = receipt.chunks;
        let mut call = Call {
            group: Some(completion.queue.into()),
            header_length: Some(header_length),
            received: receipt.bytes,
            credits: Some(credits),
            is_partial: self.segments >= KernelTrace::MOST_SEGMENTS,
            ..Call::new(Role::Answerer, xid, if receipt.line > 0 { receipt.line } else { number })
        };
        call.times.set(Point::Decoded, line.time);
        if let Some(time) = receipt.time {
            call.times.set(Point::CallReceived, time);
        }
        let memory: Vec<_> = chunks.writes.iter().map(|segment| (segment.offset, segment.handle)).collect();
        // The thread that decodes a call with Read chunks may leave it to another thread.
        let has_reads = !chunks.reads.is_empty();
        let any = has_reads || !memory.is_empty();
        call.chunks = any.then(|| Box::new(chunks));
        self.working.remove(&line.pid);
        let Some(call) = self.begin(call) else { return };
        enter(&mut self.answerers, xid, call);
        enter(&mut self.receipts, completion, Receipt { call: Some(call), ..Receipt::default() });
        for memory in memory {
            enter(&mut self.advertised, memory, call);
        }
        if !has_reads {
            enter(&mut self.working, line.pid, call);
        }
    }

    fn encoded_segment(&mut self, line: &Line<'_>, segment: Segment) {
        let Some(call) = self.advertised.get(&(segment.offset, segment.handle)).copied() else { return };
        self.at(call, Point::Encoded, line.time);
        enter(&mut self.working, line.pid, call);
        let has_room = self.has_room();
        let call = self.call(call);
        match (&mut call.chunks, has_room) {
            (Some(chunks), true) => chunks.returned.push(segment),
            _ => call.is_partial = true,
        }
    }

    fn name(&mut self, call: u32, program: &str, procedure: &str) {
        let key = (program.to_owned(), procedure.to_owned());
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None if self.numbers.len() < KernelTrace::MOST_NAMES => {
                let number = self.numbers.len() as u16;
                self.trace.names.push(format!("{program} {procedure}"));
                self.numbers.insert(key, number);
                number
            }
            None => return,
        };
        self.call(call).name = Some(number);
    }
}

/// Appends a segment. When memory regions run out, the kernel abandons a call while marshalling it,
/// and starts again later with the same memory. The segments of the abandoned attempt are dropped
/// then.
fn push_segment<T>(list: &mut Vec<T>, item: T, segment: impl Fn(&T) -> Segment) {
    if list.first().is_some_and(|first| segment(first).offset == segment(&item).offset) {
        list.clear();
    }
    list.push(item);
}
