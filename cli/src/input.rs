//! Reads captures: records from the source to the engine, events from the engine to the command.

mod relay;

use crate::capture_points::{JoinedCaptures, With};
use crate::captures;
use crate::interrupt;
use crate::output::{Failure, Status};
use crate::ports::Ports;
use crate::progress::Progress;
use clap::Args;
use core::ops::ControlFlow;
use core::slice;
use rdmascope_analysis::ending::{Ending, arguments};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::one_capture::OneCapture;
use rdmascope_capture_agent::{FileEnding, Files, Note, Ring, Sink, Source as _, Spool};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The input options.
#[derive(Args, Debug)]
pub(crate) struct Input {
    /// Capture file, folder of captures, or `-` for standard input; several files are read as one
    /// capture
    ///
    /// Several files, such as rotated captures, are analyzed as one capture. Their formats may
    /// differ. Packets are merged by time stamp and numbered in that order; packets with equal time
    /// stamps keep the order of the files. The order of packets within a file is kept. A packet
    /// that two files contain is counted once. A folder is replaced by the captures in it, in the
    /// order of their names; subfolders and hidden files are ignored. If files share no connection,
    /// a warning says so.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) with: With,
    #[command(flatten)]
    pub(crate) ports: Ports,
    /// Do not verify checksums: the ICRC of RoCE packets, the TCP checksum and FPDU CRCs of iWARP
    #[arg(long, visible_alias = "no-crc")]
    pub(crate) no_icrc: bool,
    /// Do not show progress
    ///
    /// By default, progress is shown on standard error while large files or long pipes are read. It
    /// is not shown if standard error is not a terminal, or if output lines go to a terminal at the
    /// same time.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// A copy of standard input, for commands that read it more than once.
    #[arg(skip)]
    pub(crate) spool: Option<Arc<Spool>>,
    /// The capture points of `with`, once their clocks are aligned.
    #[arg(skip)]
    pub(crate) joint: OnceLock<Arc<JoinedCaptures>>,
    /// Whether the files are rotated files of one capture point, which are read one after the
    /// other.
    #[arg(skip)]
    pub(crate) is_ring: bool,
}

impl Input {
    /// The configuration of the dissection of frames.
    pub(crate) fn frame(&self) -> frame::Config {
        frame::Config { verify_icrc: !self.no_icrc, ..self.ports.frame() }
    }

    /// One file, read without showing progress.
    pub(crate) fn file(path: PathBuf, port: u16) -> Input {
        Input {
            files: vec![path],
            with: With::default(),
            ports: Ports { port, vxlan_port: None },
            no_icrc: false,
            quiet: true,
            spool: None,
            joint: OnceLock::new(),
            is_ring: false,
        }
    }

    /// The arguments with which another command reads the same capture; `None` for standard input,
    /// names that cannot be printed, and many files.
    fn arguments(&self) -> Option<String> {
        let with = |other: &PathBuf| Some(format!("--with {}", arguments(slice::from_ref(other))?));
        let mut words = vec![arguments(&self.files)?];
        words.extend(self.with.others().iter().map(with).collect::<Option<Vec<_>>>()?);
        Some(words.join(" ") + &self.options())
    }

    /// The options with which another command reads files in the same way, each after a space.
    pub(crate) fn options(&self) -> String {
        let Ports { port, vxlan_port } = self.ports;
        let port = (port != frame::Config::default().port).then(|| format!(" --port {port}"));
        let vxlan_port = vxlan_port.map(|port| format!(" --vxlan-port {port}"));
        let no_icrc = self.no_icrc.then(|| " --no-icrc".to_owned());
        [port, vxlan_port, no_icrc].into_iter().flatten().collect()
    }

    /// One of the files alone, or the captures of one folder as one.
    pub(crate) fn one(&self, path: &Path) -> Input {
        self.of(vec![path.to_owned()])
    }

    /// Other files, read with the same options.
    pub(crate) fn of(&self, files: Vec<PathBuf>) -> Input {
        Input {
            files,
            with: With::default(),
            ports: self.ports,
            no_icrc: self.no_icrc,
            quiet: self.quiet,
            spool: None,
            joint: OnceLock::new(),
            is_ring: self.is_ring,
        }
    }

    /// A copy that can be read more than once. Errors are those of [`Input::keep`].
    pub(crate) fn twice(&self) -> anyhow::Result<Input> {
        let mut input = self.of(self.files.clone());
        (input.with, input.joint, input.spool) = (self.with.clone(), self.joint.clone(), self.spool.clone());
        input.keep()?;
        Ok(input)
    }

    /// The capture points whose captures are read as one; `None` without `--with`.
    pub(crate) fn joint(&self) -> anyhow::Result<Option<Arc<JoinedCaptures>>> {
        if self.with.is_empty() {
            return Ok(None);
        }
        if let Some(joint) = self.joint.get() {
            return Ok(Some(joint.clone()));
        }
        let joint = Arc::new(self.with.join(&self.files, self.ports)?);
        Ok(Some(self.joint.get_or_init(|| joint).clone()))
    }

    /// Whether standard input or another pipe is part of the input, so that reading may block.
    pub(crate) fn has_pipe(&self) -> bool {
        self.files.iter().any(|path| path == Path::new("-") || is_pipe(path))
    }

    /// Replaces folders by their captures. A folder without captures is an error.
    pub(crate) fn expand(&mut self) -> anyhow::Result<()> {
        self.files = captures::expand(&self.files)?;
        Ok(())
    }

    /// Makes the input readable more than once: spools standard input. Other pipes are refused.
    pub(crate) fn keep(&mut self) -> anyhow::Result<()> {
        for path in &self.files {
            if path == Path::new("-") {
                if self.spool.is_none() {
                    self.spool = Some(Arc::new(Spool::new(&interrupt::INPUTS)?));
                }
            } else if is_pipe(path) {
                anyhow::bail!(
                    "{}: this command reads its input twice; use a file, or redirect the pipe to standard input and give -",
                    path.display()
                );
            }
        }
        Ok(())
    }
}

/// Whether the path exists and is neither a file nor a folder.
fn is_pipe(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// The `--each` option.
#[derive(Args, Debug)]
pub(crate) struct Each {
    /// Read each file as a separate capture
    ///
    /// Each file, including those of a folder, gets its own report, in order. The exit status is
    /// the highest of all.
    #[arg(long, conflicts_with = "others")]
    each: bool,
}

impl Each {
    /// Whether each file is a separate capture.
    pub(crate) fn is_each(&self) -> bool {
        self.each
    }

    /// Calls `run` for each file with its index from 0, or once with `None` for all files as one
    /// capture. Returns the highest status.
    pub(crate) fn run(
        &self,
        input: &Input,
        mut run: impl FnMut(&Input, Option<usize>) -> io::Result<Status>,
    ) -> io::Result<Status> {
        if !self.each {
            return run(input, None);
        }
        let mut worst = Status::Done;
        for (index, path) in input.files.iter().enumerate() {
            worst = worst.max(run(&input.one(path), Some(index))?);
        }
        Ok(worst)
    }
}

/// A consumer of the events of a capture.
pub(crate) trait Audience {
    /// Whether it writes lines as events arrive.
    fn lists(&self) -> bool {
        false
    }

    /// The engine reports that it needs.
    fn needs(&self) -> Config;

    /// The next event, of a capture that starts at `start`.
    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()>;

    /// A note of the capture, such as a kernel trace record.
    fn note(&mut self, _: &Note) {}

    /// Called before a read that may block. One that lists flushes its lines.
    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the capture through the engine. Fails if the audience fails, or if the input is no capture.
///
/// If reading fails after the first packet of a file, the packets before the failure count.
pub(crate) fn read(input: &Input, audience: &mut dyn Audience) -> Result<Ending, Failure> {
    read_within(input, audience, None)
}

/// As [`read`]. `overall` is given for one of several captures that are read at the same time, and
/// shows its progress. The engine is compiled once instead of once for each audience.
pub(crate) fn read_within(
    input: &Input,
    audience: &mut dyn Audience,
    overall: Option<&Progress>,
) -> Result<Ending, Failure> {
    let lists = audience.lists();
    let joint = input.joint()?;
    let source = Opened::new(input, joint.as_deref())?;
    let capture_points_apart = joint.map(|joint| joint.places.apart());
    let config = Config { frame: input.frame(), capture_points_apart, ..audience.needs() };
    let size = source.size();
    let progress = match overall {
        Some(overall) => overall.share(),
        None => Progress::on_terminal(size, lists, input.quiet),
    };
    let reader = Reader { source, config, progress };
    let ending = if overall.is_none() && relay::is_worthwhile(&config, size, lists) {
        relay::read(reader, audience)?
    } else {
        reader.read(audience)?
    };
    Ok(Ending { input: input.arguments(), ..ending })
}

/// A source and the engine that follows it.
struct Reader {
    source: Opened,
    config: Config,
    progress: Progress,
}

impl Reader {
    /// Reads the source to its end. Fails if the audience fails, or if the source is no capture.
    fn read(self, audience: &mut dyn Audience) -> Result<Ending, Failure> {
        let Reader { mut source, config, mut progress } = self;
        let engine = Engine::new(config);
        let mut reading =
            Reading { engine, start: None, written: Ok(()), one_capture: OneCapture::default(), audience };
        let read = source.for_each(&config.frame, &mut progress, &mut reading);
        drop(progress);
        reading.written?;
        read?;
        let Reading { mut engine, start, audience, mut one_capture, .. } = reading;
        let mut written = Ok(());
        engine.finish(&mut |event| {
            one_capture.handle(&event);
            if written.is_ok() {
                written = audience.event(event, start.unwrap_or_default());
            }
        });
        written?;
        let (totals, port) = (*engine.totals(), config.frame.port);
        let files = source.endings();
        Ok(Ending { totals, first: start, files, port, one_capture, ..Ending::default() })
    }
}

/// The open source.
enum Opened {
    Files(Files),
    Ring(Ring),
}

impl Opened {
    fn new(input: &Input, joint: Option<&JoinedCaptures>) -> anyhow::Result<Opened> {
        if input.is_ring {
            return Ok(Opened::Ring(Ring::open(&input.files)?));
        }
        let files = joint.map_or(&input.files, |joint| &joint.files);
        let mut files = Files::open(files, input.spool.as_deref(), &interrupt::INPUTS)?;
        if let Some(joint) = joint {
            joint.tie(&mut files);
        }
        Ok(Opened::Files(files))
    }

    fn size(&self) -> Option<u64> {
        match self {
            Opened::Files(files) => files.size(),
            Opened::Ring(ring) => ring.size(),
        }
    }

    fn for_each(
        &mut self,
        config: &frame::Config,
        progress: &mut Progress,
        sink: &mut impl Sink,
    ) -> anyhow::Result<()> {
        match self {
            Opened::Files(files) => files.for_each(config, progress, sink)?,
            Opened::Ring(ring) => ring.for_each(config, progress, sink)?,
        }
        Ok(())
    }

    fn endings(self) -> Vec<FileEnding> {
        match self {
            Opened::Files(files) => files.endings(),
            Opened::Ring(ring) => ring.endings(),
        }
    }
}

/// Reads the capture once, for a function that writes nothing before the end. `needs` are the
/// engine reports that it needs. Errors are those of [`read`].
pub(crate) fn listen(
    input: &Input,
    needs: Config,
    event: impl FnMut(Event<'_>, Time) -> io::Result<()>,
) -> Result<Ending, Failure> {
    read(input, &mut Listener { needs, event })
}

/// Reads the capture once, for observers. Errors are those of [`read`].
pub(crate) fn observe(input: &Input, observer: &mut impl Observer) -> Result<Ending, Failure> {
    read(input, &mut Following(observer))
}

/// An observer used as an audience.
struct Following<'a, O>(&'a mut O);

impl<O: Observer> Audience for Following<'_, O> {
    fn needs(&self) -> Config {
        self.0.needs()
    }

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        self.0.handle(&event);
        Ok(())
    }

    fn note(&mut self, note: &Note) {
        self.0.note(note);
    }
}

struct Listener<F> {
    needs: Config,
    event: F,
}

impl<F: FnMut(Event<'_>, Time) -> io::Result<()>> Audience for Listener<F> {
    fn needs(&self) -> Config {
        self.needs
    }

    #[inline]
    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        (self.event)(event, start)
    }
}

/// Feeds records to the engine and events to the audience.
struct Reading<'a> {
    engine: Engine,
    /// The time of the first record.
    start: Option<Time>,
    /// The first output error.
    written: io::Result<()>,
    one_capture: OneCapture,
    audience: &'a mut dyn Audience,
}

impl Sink for Reading<'_> {
    #[inline]
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
        let Reading { engine, start, written, one_capture, audience } = self;
        let start = *start.get_or_insert(record.time);
        engine.handle_dissected(record, dissected, &mut |event| {
            one_capture.handle(&event);
            if written.is_ok()
                && let Err(error) = audience.event(event, start)
            {
                *written = Err(error);
            }
        });
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn note(&mut self, note: &Note) {
        note.pass_to(&mut self.engine);
        self.audience.note(note);
    }

    /// A live source passes its time, which lets timeouts of the engine expire. Files and pipes do
    /// not, so their output does not depend on how fast they are read.
    fn idle(&mut self, until: Option<Time>) -> ControlFlow<()> {
        let Reading { engine, start, written, one_capture, audience } = self;
        if let Some(now) = until {
            engine.handle_time(now, &mut |event| {
                one_capture.handle(&event);
                if written.is_ok() {
                    *written = audience.event(event, start.unwrap_or(now));
                }
            });
        }
        if self.written.is_ok() {
            self.written = self.audience.wait();
        }
        if self.written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
