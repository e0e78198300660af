//! The terminal: its input, and the loop that draws.

use crate::analysis::{Analysis, Request};
use crate::chart::Wanted;
use crate::compare::OtherCapture;
use crate::inject::{Bench, Inject, Order};
use crate::marks;
use crate::rows::Rows;
use crate::session::Progress;
use crate::show::Show;
use crate::source::{Confine, Export, Options, Source};
use crate::state::{Look, Over, State};
use crate::threads::{LoopEvent, Shared, answer, chart, compare, export, inject, note, read};
use crate::update::{Effect, Message, update};
use crate::view;
use crossterm::clipboard::CopyToClipboard;
use crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event, KeyEventKind};
use crossterm::execute;
use ratatui::DefaultTerminal;
use rdmascope_analysis::units::quoted;
use rdmascope_present::text::Style;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The reason why the UI ended by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The terminal failed.
    #[error("terminal: {0}")]
    Terminal(#[from] io::Error),
    /// The process could not be confined.
    #[error("cannot confine the process: {0}")]
    Confine(String),
}

/// Time between two drawings while the session plays or is read.
const PICTURE: Duration = Duration::from_millis(16);

/// Shows the capture until the user quits. `confine` is called when the terminal is ready, before
/// untrusted packets are read and before a thread is started.
pub fn run(
    source: Source,
    options: Options,
    bench: Option<Bench>,
    confine: Box<Confine>,
) -> Result<(), Error> {
    let (to, from) = channel();
    let mut terminal = ratatui::try_init()?;
    let ran = (|| {
        execute!(io::stdout(), EnableMouseCapture)?;
        // Keys and signals are set up before the process can no longer open anything, and before a
        // thread runs.
        event::poll(Duration::ZERO)?;
        let listening = Listening::new()?;
        confine().map_err(Error::Confine)?;
        listening.start(&to);
        show(&mut terminal, source, options, bench, &to, &from)
    })();
    restore(terminal)?;
    ran
}

/// Restores the terminal, if it is still there: otherwise its destructor would panic, because it
/// prints its error.
fn restore(terminal: DefaultTerminal) -> io::Result<()> {
    #[cfg(unix)]
    if is_gone(Some(Duration::ZERO)) {
        core::mem::forget(terminal);
        return Ok(());
    }
    drop(terminal);
    let _ = execute!(io::stdout(), DisableMouseCapture);
    ratatui::try_restore()
}

/// Lists captures and interfaces, and returns the index of the one that the user opens; `None` if
/// the user quits. Nothing that is listed is read, so the process need not be confined.
pub fn choose(names: Vec<String>, look: Look) -> Result<Option<usize>, Error> {
    let mut terminal = ratatui::try_init()?;
    let chosen = choosing(&mut terminal, names, look);
    restore(terminal)?;
    Ok(chosen?)
}

fn choosing(terminal: &mut DefaultTerminal, names: Vec<String>, look: Look) -> io::Result<Option<usize>> {
    /// Time between two looks at signals.
    const LOOK: Duration = Duration::from_millis(100);
    let size = terminal.size()?;
    let mut state = State::new("no capture", "FILE", look, (size.width, size.height));
    state.session.progress = Progress::Nothing;
    state.captures = names;
    state.over = Some(Over::Captures(0));
    #[cfg(unix)]
    let mut signals = {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?
    };
    loop {
        terminal.draw(|frame| view::render(&state, frame))?;
        while !event::poll(Duration::ZERO)? {
            #[cfg(unix)]
            if is_gone(Some(LOOK)) || signals.pending().next().is_some() {
                return Ok(None);
            }
        }
        let Some(message) = message(event::read()?) else { continue };
        for effect in update(&mut state, message) {
            match effect {
                Effect::Open(index) => return Ok(Some(index)),
                Effect::Quit => return Ok(None),
                Effect::Suspend => suspend(terminal)?,
                _ => {}
            }
        }
    }
}

/// The message of a terminal event.
fn message(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(Message::Key(key)),
        Event::Mouse(mouse) => Some(Message::Mouse(mouse)),
        Event::Resize(width, height) => Some(Message::Resize(width, height)),
        _ => None,
    }
}

/// Shows one capture.
fn show(
    terminal: &mut DefaultTerminal,
    source: Source,
    options: Options,
    bench: Option<Bench>,
    to: &Sender<LoopEvent>,
    from: &Receiver<LoopEvent>,
) -> Result<(), Error> {
    let (requests, incoming) = channel();
    let (start, started) = channel();
    let mut analysis = Analysis::new(options.frame, options.level, Style::new(options.look.colour));
    analysis.allow(options.allowances.clone());
    let shared = Arc::new(Shared::new(analysis));
    let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let (title, files) = match &source {
        Source::Files(paths) => {
            let words: Vec<String> = names(paths).iter().map(|name| quoted(name)).collect();
            (names(paths).join(", "), words.join(" ") + &options.arguments)
        }
        Source::Nothing => ("no capture".to_owned(), "FILE".to_owned()),
        Source::Live(live) => (live.name.clone(), "FILE".to_owned()),
    };
    let size = terminal.size()?;
    let mut state = State::new(title, files, options.look, (size.width, size.height));
    read_notes(&mut state, &source);
    if let Source::Nothing = &source {
        state.show = Show::Inject;
        state.session.progress = Progress::Nothing;
    }
    if let (Some(other), Source::Files(paths)) = (&options.compare, &source) {
        // The user wants to see the differences.
        state.show = Show::Report;
        state.other = Some(OtherCapture { is_shown: true, ..OtherCapture::new(other.display().to_string()) });
        compare([paths.clone(), vec![other.clone()]], options.frame, to.clone());
    }
    let stopped = Arc::new(AtomicU64::new(0));
    if let Some(Bench { target, arguments, session_arguments, entries, faults, open }) = bench {
        state.inject = Inject::new(target, entries, faults);
        (state.inject.arguments, state.inject.session_arguments) = (arguments, session_arguments);
        inject(open, started, Arc::clone(&stopped), to.clone());
    }
    answer(Arc::clone(&shared), incoming, to.clone());
    let (draw, drawn) = channel();
    chart(drawn, to.clone());
    let workers = Workers { requests, draw, start, stopped, export: options.export.clone(), to: to.clone() };
    let end = match &source {
        Source::Live(live) => Some(Arc::clone(&live.end)),
        Source::Files(_) | Source::Nothing => None,
    };
    let reader = read(source, options, shared, to.clone());
    let ended = event_loop(terminal, &mut state, from, &workers);
    if let Some(end) = end {
        end.store(true, Ordering::Relaxed);
        let _ = reader.join();
    }
    Ok(ended?)
}

/// Reads the notes on a capture, and names the file for notes.
fn read_notes(state: &mut State, source: &Source) {
    state.notes = "capture.notes".into();
    let Source::Files(paths) = source else { return };
    let Some(first) = paths.first().filter(|_| paths.iter().all(|path| path.is_file())) else { return };
    state.notes = marks::notes_path(first);
    match marks::read(&state.notes) {
        Ok(Some(notes)) => {
            let path = state.notes.clone();
            update(state, Message::Notes(path, notes));
        }
        Ok(None) => {}
        Err(error) => state.notice = Some(error),
    }
}

/// The threads that perform effects.
struct Workers {
    requests: Sender<Request>,
    draw: Sender<(Wanted, Rows)>,
    start: Sender<Order>,
    /// The number of the order to stop.
    stopped: Arc<AtomicU64>,
    export: Option<Export>,
    to: Sender<LoopEvent>,
}

/// The loop: waits for messages, updates the state and draws it.
fn event_loop(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    from: &Receiver<LoopEvent>,
    workers: &Workers,
) -> io::Result<()> {
    let mut drawn = Instant::now();
    let mut ticked = Instant::now();
    terminal.draw(|frame| view::render(state, frame))?;
    loop {
        // At rest, waits without a timeout.
        let received = match state.plays {
            true => from.recv_timeout(PICTURE),
            false => from.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut received = match received {
            Ok(received) => Some(received),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        // All pending messages are handled before the next drawing.
        let mut effects = Vec::new();
        while let Some(one) = received {
            match one {
                LoopEvent::Message(message) => effects.extend(update(state, message)),
                LoopEvent::Suspend => effects.push(Effect::Suspend),
                LoopEvent::Quit => return Ok(()),
            }
            received = if drawn.elapsed() < PICTURE * 2 { from.try_recv().ok() } else { None };
        }
        if state.plays {
            let passed = ticked.elapsed().min(Duration::from_millis(200));
            effects.extend(update(state, Message::Tick(passed.as_nanos() as u64)));
        }
        ticked = Instant::now();
        for effect in effects {
            match effect {
                Effect::Request(request) => drop(workers.requests.send(request)),
                Effect::Chart(wanted, rows) => drop(workers.draw.send((wanted, rows))),
                Effect::Inject(order) => drop(workers.start.send(order)),
                Effect::Stop(number) => workers.stopped.store(number, Ordering::Relaxed),
                Effect::Export(path) => export(workers.export.clone(), path, workers.to.clone()),
                Effect::Notes(path, text, may_replace) => note(path, text, may_replace, workers.to.clone()),
                Effect::Copy(text) => execute!(io::stdout(), CopyToClipboard::to_clipboard_from(text))?,
                Effect::Suspend => suspend(terminal)?,
                Effect::Quit => return Ok(()),
                // Only the list of captures opens one.
                Effect::Open(_) => {}
            }
        }
        terminal.draw(|frame| view::render(state, frame))?;
        drawn = Instant::now();
    }
}

/// Restores the terminal, stops as a job of the shell, and continues when the shell resumes the
/// job.
fn suspend(terminal: &mut DefaultTerminal) -> io::Result<()> {
    let _ = execute!(io::stdout(), DisableMouseCapture);
    ratatui::try_restore()?;
    #[cfg(unix)]
    signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
    // A new terminal draws everything. Clearing the old one would ask the terminal for the cursor
    // position, and the thread of the keys would receive the answer.
    *terminal = ratatui::try_init()?;
    execute!(io::stdout(), EnableMouseCapture)
}

/// Waits for the end of the terminal, for at most `time`; `None`: without a limit. With a limit, also
/// waits for input. Returns whether the terminal is gone. crossterm then reads it without end, and
/// SIGHUP comes only to a terminal's own session.
#[cfg(unix)]
fn is_gone(time: Option<Duration>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let events = if time.is_some() { PollFlags::IN } else { PollFlags::empty() };
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, events)];
    while let Err(rustix::io::Errno::INTR) = poll(&mut polled, time.as_ref()) {}
    polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// The sources of keys, mouse events and signals.
struct Listening {
    #[cfg(unix)]
    signals: signal_hook::iterator::Signals,
}

impl Listening {
    fn new() -> io::Result<Listening> {
        #[cfg(unix)]
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};
        Ok(Listening {
            #[cfg(unix)]
            signals: signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM, SIGTSTP])?,
        })
    }

    /// Starts listening, on separate threads.
    fn start(self, to: &Sender<LoopEvent>) {
        let keys = to.clone();
        thread::spawn(move || {
            while let Ok(event) = event::read() {
                let Some(message) = message(event) else { continue };
                if keys.send(LoopEvent::Message(message)).is_err() {
                    return;
                }
            }
            // The terminal is gone.
            let _ = keys.send(LoopEvent::Quit);
        });
        #[cfg(unix)]
        {
            let gone = to.clone();
            thread::spawn(move || is_gone(None).then(|| gone.send(LoopEvent::Quit)));
            let (mut signals, to) = (self.signals, to.clone());
            thread::spawn(move || {
                for signal in signals.forever() {
                    let is_stop = signal == signal_hook::consts::SIGTSTP;
                    if to.send(if is_stop { LoopEvent::Suspend } else { LoopEvent::Quit }).is_err() {
                        return;
                    }
                }
            });
        }
    }
}
