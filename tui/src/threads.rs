//! The threads of the UI: one reads the capture, one sends new results, one answers
//! requests, one makes the archive, one runs scenarios. They send messages to the loop of the
//! terminal.

use crate::analysis::{Analysis, Answer, Request};
use crate::chart::{Figures, Wanted};
use crate::compare::Compared;
use crate::inject::{Order, Runner, Update, Watch};
use crate::rows::Rows;
use crate::session::Progress;
use crate::source::{Export, LiveCapture, Options, Source};
use crate::store::Store;
use crate::update::Message;
use core::ops::ControlFlow;
use rdmascope_capture_agent::new_file;
use rdmascope_capture_agent::{Archive, FileEnding, Files, Interrupt, Next, Note, Sink, for_each};
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Time between two batches while a capture is read.
const BATCH: Duration = Duration::from_millis(100);
/// Time between two full batches: listing events and the state takes time.
const FULL_BATCH: Duration = Duration::from_millis(500);

/// The messages that the loop waits for.
pub(crate) enum LoopEvent {
    Message(Message),
    Suspend,
    Quit,
}

/// The analysis, which two threads use.
pub(crate) struct Shared {
    analysis: Mutex<Analysis>,
    /// The number of waiting requests. The reader lets them go first.
    waiting: AtomicUsize,
    /// Bytes read, and their total; 0 if unknown.
    read: AtomicU64,
    size: AtomicU64,
    /// The source is a live capture, not a file.
    is_live: AtomicBool,
    /// There are results that have not been sent.
    has_changed: AtomicBool,
    /// The source has ended.
    has_ended: AtomicBool,
}

impl Shared {
    pub(crate) fn new(analysis: Analysis) -> Shared {
        Shared {
            analysis: Mutex::new(analysis),
            waiting: AtomicUsize::new(0),
            read: AtomicU64::new(0),
            size: AtomicU64::new(0),
            is_live: AtomicBool::new(false),
            has_changed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }
    }

    /// The progress of the analysis.
    fn progress(&self) -> Progress {
        match self.is_live.load(Ordering::Relaxed) {
            true => Progress::Live,
            false => Progress::Reading(self.read.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Analysis> {
        self.analysis.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the analysis ahead of the reader.
    fn lock_first(&self) -> MutexGuard<'_, Analysis> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let guard = self.lock();
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        guard
    }
}

/// Answers requests on a separate thread.
pub(crate) fn answer(shared: Arc<Shared>, requests: Receiver<Request>, to: Sender<LoopEvent>) {
    thread::spawn(move || {
        for request in requests {
            let answer: Answer = shared.lock_first().answer(request);
            if to.send(LoopEvent::Message(Message::Answer(answer))).is_err() {
                return;
            }
        }
    });
}

/// Compares two captures on a separate thread.
pub(crate) fn compare(captures: [Vec<PathBuf>; 2], frame: frame::Config, to: Sender<LoopEvent>) {
    thread::spawn(move || {
        lower_priority();
        let [a, b] = &captures;
        let compared = Compared::read([a, b], frame).map_err(|error| error.to_string());
        let _ = to.send(LoopEvent::Message(Message::Compared(Box::new(compared))));
    });
}

/// Lowers the priority of this thread below that of the screen.
fn lower_priority() {
    // On Linux a priority belongs to a thread (setpriority(2)). Failure does no harm.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 10);
}

/// Computes the data of charts on a separate thread.
pub(crate) fn chart(wanted: Receiver<(Wanted, Rows)>, to: Sender<LoopEvent>) {
    thread::spawn(move || {
        lower_priority();
        for (wanted, rows) in wanted {
            let figures = Box::new(Figures::new(wanted, &rows));
            // The screen changes rows that are not shared at less cost.
            drop(rows);
            if to.send(LoopEvent::Message(Message::Charted(figures))).is_err() {
                return;
            }
        }
    });
}

/// Writes a page on a separate thread.
pub(crate) fn export(export: Option<Export>, path: PathBuf, to: Sender<LoopEvent>) {
    thread::spawn(move || {
        lower_priority();
        let written = match export {
            Some(Export(write)) => write(&path),
            None => {
                Err("only files can be exported: save the packets with x, then run `rdmascope export html` on them"
                    .into())
            }
        };
        let _ = to.send(LoopEvent::Message(Message::Exported(written.map(|()| path))));
    });
}

/// Writes notes on a separate thread: to a new file, or to the one that has the notes already.
pub(crate) fn note(path: PathBuf, text: String, may_replace: bool, to: Sender<LoopEvent>) {
    thread::spawn(move || {
        let made = if may_replace { new_file::make_or_empty(&path) } else { new_file::make(&path) };
        let written = made.and_then(|mut file| file.write_all(text.as_bytes()));
        let written = written.map(|()| path.clone()).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{}: that file exists; choose another name", path.display())
            }
            _ => format!("{}: {error}", path.display()),
        });
        let _ = to.send(LoopEvent::Message(Message::Noted(written)));
    });
}

/// Runs scenarios on a separate thread. The order whose number is in `stopped` stops.
pub(crate) fn inject(
    open: impl FnOnce() -> Result<Runner, String> + Send + 'static,
    started: Receiver<Order>,
    stopped: Arc<AtomicU64>,
    to: Sender<LoopEvent>,
) {
    thread::spawn(move || {
        let mut open = Some(open);
        let mut runner = None;
        for order in started {
            // The sockets are opened for the first order.
            let opened = runner.get_or_insert_with(|| open.take().map_or(Err(String::new()), |open| open()));
            let mut onlooker = Onlooker { number: order.number, stopped: &stopped, to: &to };
            let ran = match opened {
                Ok(run) => run(&order, &mut onlooker),
                Err(error) => Err(error.clone()),
            };
            if to.send(LoopEvent::Message(Message::Ran(order.index, Box::new(ran)))).is_err() {
                return;
            }
        }
    });
}

/// Forwards intermediate results to the screen.
struct Onlooker<'a> {
    number: u64,
    stopped: &'a AtomicU64,
    to: &'a Sender<LoopEvent>,
}

impl Watch for Onlooker<'_> {
    fn update(&mut self, update: Update) {
        // If the screen is gone, the process ends.
        let _ = self.to.send(LoopEvent::Message(Message::Update(Box::new(update))));
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) == self.number
    }
}

/// Reads the capture on a separate thread.
pub(crate) fn read(
    source: Source,
    options: Options,
    shared: Arc<Shared>,
    to: Sender<LoopEvent>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        if matches!(source, Source::Nothing) {
            return;
        }
        // An interface loses packets that are read too late.
        if matches!(source, Source::Files(_)) {
            lower_priority();
        }
        let sender = run(Arc::clone(&shared), to.clone());
        let mut feeding = Feeding { shared: Arc::clone(&shared), sender: sender.thread().clone() };
        let ended = match source {
            Source::Files(paths) => feeding.files(&paths, &options, &to),
            Source::Nothing => Ok(Vec::new()),
            Source::Live(LiveCapture { notes, source, .. }) => {
                feeding.keep(options.memory);
                notes.iter().for_each(|note| feeding.note(note));
                for_each(&mut Boxed(source), &options.frame, &mut (), &mut feeding).map(|()| Vec::new())
            }
        };
        let progress = match ended {
            Ok(endings) => {
                let trouble =
                    endings.iter().find_map(|ending| ending.trouble.as_ref().map(ToString::to_string));
                shared.lock().finish(endings);
                trouble.map_or(Progress::Ended, Progress::Failed)
            }
            Err(error) => Progress::Failed(error.to_string()),
        };
        // The thread that sends results ends before the end is reported.
        shared.has_ended.store(true, Ordering::Release);
        sender.thread().unpark();
        let _ = sender.join();
        let batch = shared.lock().batch(progress, true);
        let _ = to.send(LoopEvent::Message(Message::Batch(Box::new(batch))));
    })
}

/// Sends new results on a separate thread: at once after a pause, otherwise at intervals. The last
/// results are sent even if no record follows. At rest it waits for the reader.
fn run(shared: Arc<Shared>, to: Sender<LoopEvent>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut last_full: Option<Instant> = None;
        let mut is_full_due = false;
        while !shared.has_ended.load(Ordering::Acquire) {
            let has_changed = shared.has_changed.swap(false, Ordering::AcqRel);
            if !has_changed && !is_full_due {
                thread::park();
                continue;
            }
            let is_full = !has_changed || last_full.is_none_or(|last_full| last_full.elapsed() >= FULL_BATCH);
            if is_full {
                last_full = Some(Instant::now());
            }
            is_full_due = !is_full;
            let batch = shared.lock_first().batch(shared.progress(), is_full);
            if to.send(LoopEvent::Message(Message::Batch(Box::new(batch)))).is_err() {
                return;
            }
            let sent = Instant::now();
            while let Some(rest) = BATCH.checked_sub(sent.elapsed())
                && !shared.has_ended.load(Ordering::Acquire)
            {
                thread::park_timeout(rest);
            }
        }
    })
}

/// Passes records to the analysis.
struct Feeding {
    shared: Arc<Shared>,
    sender: Thread,
}

impl Feeding {
    /// Keeps only the latest records in memory.
    fn keep(&mut self, memory: usize) {
        self.shared.is_live.store(true, Ordering::Relaxed);
        self.shared.lock().keep_latest(memory);
        self.changed();
    }

    fn files(
        &mut self,
        paths: &[PathBuf],
        options: &Options,
        to: &Sender<LoopEvent>,
    ) -> Result<Vec<FileEnding>, rdmascope_capture_agent::Error> {
        let mut files = Files::open(paths, None, &Interrupt::default())?;
        let is_plain = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|data| data.is_file());
        if paths.iter().all(is_plain) {
            let (paths, shared, to) = (paths.to_vec(), Arc::clone(&self.shared), to.clone());
            thread::spawn(move || {
                lower_priority();
                // The reader reports files that cannot be read.
                if let Ok(archive) = Archive::open(&paths, None) {
                    shared.lock_first().store(Store::Archive(Box::new(archive)));
                    let _ = to.send(LoopEvent::Message(Message::Stored));
                }
            });
        } else {
            self.keep(options.memory);
        }
        let size = rdmascope_capture_agent::Source::size(&files).unwrap_or(0);
        self.shared.size.store(size, Ordering::Relaxed);
        let mut read = Read(Arc::clone(&self.shared));
        files.for_each(&options.frame, &mut read, self)?;
        Ok(files.endings())
    }

    /// Records that there are new results.
    #[inline]
    fn changed(&self) {
        // Most records follow others that have not been sent yet.
        if !self.shared.has_changed.load(Ordering::Relaxed) {
            self.shared.has_changed.store(true, Ordering::Release);
            self.sender.unpark();
        }
    }
}

impl Sink for Feeding {
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
        while self.shared.waiting.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        self.shared.lock().record(record, dissected);
        self.changed();
        ControlFlow::Continue(())
    }

    fn note(&mut self, note: &Note) {
        self.shared.lock().note(note);
    }

    fn idle(&mut self, until: Option<Time>) -> ControlFlow<()> {
        if let Some(now) = until
            && self.shared.lock().time(now)
        {
            self.changed();
        }
        ControlFlow::Continue(())
    }
}

/// Counts the bytes that were read.
struct Read(Arc<Shared>);

impl rdmascope_capture_agent::Progress for Read {
    fn advanced(&mut self, bytes: u64) {
        self.0.read.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A boxed source.
struct Boxed(Box<dyn rdmascope_capture_agent::Source + Send>);

impl rdmascope_capture_agent::Source for Boxed {
    fn next(&mut self) -> Result<Next<'_>, rdmascope_capture_agent::Error> {
        self.0.next()
    }

    fn position(&self) -> u64 {
        self.0.position()
    }

    fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    fn size(&self) -> Option<u64> {
        self.0.size()
    }
}
