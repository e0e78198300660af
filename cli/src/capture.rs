//! `rdmascope capture`: packets of network interfaces, written as pcapng.

use crate::interrupt;
use crate::output::{Out, Status, complain, tell};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use rdmascope_capture_agent::framing::Statistics;
use rdmascope_capture_agent::live::filter::Wanted;
use rdmascope_capture_agent::live::{Live, LiveConfig, LiveError, network_interfaces};
use rdmascope_capture_agent::{Description, Next, PcapngWriter, Source as _};
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{LinkType, Time};
use rdmascope_present::text::Plain;
use rdmascope_present::time::parse_duration;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope capture --list
  rdmascope capture -i eth0 -w mount.pcapng
  rdmascope capture -i eth0 -w ring.pcapng --rotate-size 256 --files 8
  ssh server rdmascope capture -i eth0 -w - | rdmascope analyze -";

/// The arguments of `capture`.
#[derive(Args, Debug)]
pub(crate) struct Capture {
    /// Interface to capture from. Several may be named; their packets come into one file
    #[arg(short, long = "interface", value_name = "NAME", required_unless_present = "list")]
    interfaces: Vec<String>,
    /// File to write, as pcapng, or `-` for standard output
    #[arg(short, long, value_name = "FILE", required_unless_present = "list")]
    write: Option<PathBuf>,
    /// List the interfaces, with the RDMA devices behind them, and end
    #[arg(short = 'L', long, conflicts_with_all = ["interfaces", "write"])]
    list: bool,
    /// Capture so many bytes of each packet at most
    #[arg(short, long, value_name = "SIZE", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(64..=262_144))]
    snap_length: u32,
    /// End after so many packets
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<u64>,
    /// Begin another file where one has so many MiB
    ///
    /// The files are numbered: `name.pcapng` becomes `name-00001.pcapng` and so on.
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u64).range(1..))]
    rotate_size: Option<u64>,
    /// Begin another file after this time, such as 60s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    rotate_time: Option<u64>,
    /// Keep so many files of those that rotate; the oldest is removed
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(2..))]
    files: Option<u64>,
    /// Receive what is not for this host too
    #[arg(short, long)]
    promiscuous: bool,
    /// Leave out what this host sends
    #[arg(long)]
    incoming_only: bool,
    /// Capture tunnels too: VXLAN, GENEVE, GRE, IP in IP, MPLS, PPPoE, whatever is in them
    #[arg(long)]
    tunnels: bool,
    /// Capture TCP of this port too, as iWARP uses it
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "20049")]
    iwarp: Option<u16>,
    /// UDP destination port of RoCEv2
    #[arg(long, value_name = "PORT", default_value_t = frame::Config::default().port)]
    port: u16,
    /// Memory in which the kernel keeps packets that were not written yet, in MiB
    #[arg(long, value_name = "SIZE", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    buffer: u64,
    /// Say nothing but what went wrong
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(command: &Capture, out: &mut Out) -> io::Result<Status> {
    if command.list {
        return list(out).map(|()| Status::Done);
    }
    match capture(command) {
        Ok(status) => Ok(status),
        Err(error) => match error.downcast_ref::<io::Error>() {
            // Whoever read standard output has seen enough.
            Some(system) if system.kind() == ErrorKind::BrokenPipe => Err(ErrorKind::BrokenPipe.into()),
            _ => complain(&error, out),
        },
    }
}

/// The interfaces that there are.
fn list(out: &mut Out) -> io::Result<()> {
    for interface in network_interfaces() {
        let addresses: Vec<String> = interface.addresses.iter().map(ToString::to_string).collect();
        let mtu = interface.mtu.map_or_else(|| "-".to_owned(), |mtu| mtu.to_string());
        write!(
            out,
            "{:<15} {:<8} MTU {mtu:<6} {}",
            Plain(&interface.name),
            interface.state,
            addresses.join(" ")
        )?;
        for (device, is_hardware) in &interface.rdma {
            let what = if *is_hardware {
                "in hardware: its RoCE packets are seen here only if the device mirrors them"
            } else {
                "in software"
            };
            write!(out, "; RDMA device {} ({what})", Plain(device))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn capture(command: &Capture) -> Result<Status> {
    let Some(path) = &command.write else { bail!("--write names the file") };
    let is_pipe = path == Path::new("-");
    let rotates = command.rotate_size.is_some() || command.rotate_time.is_some();
    if is_pipe && rotates {
        bail!("standard output cannot rotate: name a file with --write");
    }
    if command.files.is_some() && !rotates {
        bail!("--files is about files that rotate: say when, with --rotate-size or --rotate-time");
    }
    let wanted = Wanted {
        port: command.port,
        encapsulated: command.tunnels,
        iwarp: command.iwarp,
        ..Wanted::default()
    };
    let config = LiveConfig {
        interfaces: command.interfaces.clone(),
        wanted,
        snap_length: command.snap_length,
        buffer: usize::try_from(command.buffer << 20).unwrap_or(usize::MAX),
        promiscuous: command.promiscuous,
        incoming_only: command.incoming_only,
        ..LiveConfig::default()
    };
    let mut live = Live::open(&config, interrupt::end_once()).map_err(explained)?;
    let interfaces: Vec<Description> = command
        .interfaces
        .iter()
        .map(|name| Description {
            link: LinkType::ETHERNET,
            name: name.clone(),
            filter: config.wanted.to_string(),
            snap_length: command.snap_length,
        })
        .collect();
    let mut files =
        Files { path, rotates, keep: command.files, interfaces, made: VecDeque::new(), number: 0 };
    let start = Instant::now();
    let mut now = files.begin()?;
    if !command.quiet {
        let names = command.interfaces.join(", ");
        tell(format_args!("capturing from {names}; Ctrl-C ends it"));
    }
    let mut was_down = false;
    loop {
        let mut written = 0;
        match live.next()? {
            Next::Record(record) => {
                now.writer.packet(&record, "").with_context(|| now.cannot())?;
                written = record.number;
            }
            Next::Idle(_) => now.writer.flush().with_context(|| now.cannot())?,
            _ => break,
        }
        if live.is_down() != was_down {
            was_down = live.is_down();
            tell(format_args!(
                "{}: the interface is {}",
                command.interfaces.join(", "),
                if was_down { "down" } else { "up again" }
            ));
        }
        if command.count.is_some_and(|count| written >= count)
            || command.duration.is_some_and(|time| start.elapsed() >= Duration::from_nanos(time))
        {
            break;
        }
        let is_full = command.rotate_size.is_some_and(|size| now.writer.get_ref().written >= size << 20);
        let is_old =
            command.rotate_time.is_some_and(|time| now.since.elapsed() >= Duration::from_nanos(time));
        if is_full || is_old {
            now.end(&mut live, interfaces_of(command))?;
            now = files.begin()?;
        }
    }
    now.end(&mut live, interfaces_of(command))?;
    let counts = live.counts()?;
    if counts.dropped > 0 {
        tell(format_args!(
            "warning: {} packets are missing: the kernel had no room for them; --buffer gives it more, and --snap-length makes packets shorter",
            counts.dropped
        ));
    }
    if !command.quiet {
        let seconds = start.elapsed().as_secs_f64();
        tell(format_args!(
            "{} packets captured in {seconds:.1} s, {} dropped",
            counts.delivered, counts.dropped
        ));
    }
    Ok(Status::Done)
}

fn interfaces_of(command: &Capture) -> u32 {
    command.interfaces.len() as u32
}

/// What to do about it.
fn explained(error: LiveError) -> anyhow::Error {
    let remedy = match &error {
        LiveError::NotPermitted => {
            ": run it as root, or give the program that capability: setcap cap_net_raw+ep rdmascope"
        }
        LiveError::NoInterface(_) => "; `rdmascope capture --list` lists those that there are",
        LiveError::System(system) if system.kind() == ErrorKind::OutOfMemory => {
            ": --buffer takes less memory"
        }
        _ => "",
    };
    anyhow::anyhow!("{error}{remedy}")
}

/// Counts what is written.
struct Counted<W> {
    out: W,
    written: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The file that is written.
struct Current {
    writer: PcapngWriter<Counted<Box<dyn Write>>>,
    path: PathBuf,
    since: Instant,
    start: Time,
}

impl Current {
    fn cannot(&self) -> String {
        cannot_write(&self.path)
    }

    /// Writes the counts so far of the capture, and ends the file. The kernel counts all interfaces together: where there are several, their sum stands
    /// with the first.
    fn end(mut self, live: &mut Live, interfaces: u32) -> Result<()> {
        let counts = live.counts()?;
        let context = self.cannot();
        for interface in 0..interfaces {
            let mut statistics = Statistics::default();
            (statistics.start, statistics.end) = (Some(self.start), Some(now()));
            if interface == 0 {
                statistics.accepted = Some(counts.accepted);
                statistics.dropped_by_system = Some(counts.dropped);
                statistics.delivered = Some(counts.delivered);
            }
            self.writer.statistics(interface, now(), &statistics).with_context(|| context.clone())?;
        }
        self.writer.finish().with_context(|| context.clone())?;
        Ok(())
    }
}

fn cannot_write(path: &Path) -> String {
    match path == Path::new("-") {
        true => "standard output: cannot be written".to_owned(),
        false => format!("{}: cannot be written", path.display()),
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// The files that are written, one after the other.
struct Files<'a> {
    path: &'a Path,
    rotates: bool,
    keep: Option<u64>,
    interfaces: Vec<Description>,
    made: VecDeque<PathBuf>,
    number: u64,
}

impl Files<'_> {
    /// Begins the next file. One more than are kept: the oldest is removed.
    fn begin(&mut self) -> Result<Current> {
        self.number += 1;
        let path = if self.rotates { numbered(self.path, self.number) } else { self.path.to_owned() };
        let context = || cannot_write(&path);
        let out: Box<dyn Write> = if path == Path::new("-") {
            Box::new(BufWriter::with_capacity(1 << 20, unlocked()?))
        } else {
            Box::new(BufWriter::with_capacity(1 << 20, File::create(&path).with_context(context)?))
        };
        let out = Counted { out, written: 0 };
        let mut writer =
            PcapngWriter::new(out, concat!("rdmascope ", env!("CARGO_PKG_VERSION"))).with_context(context)?;
        writer.describe(&self.interfaces).with_context(context)?;
        writer.flush().with_context(context)?;
        self.made.push_back(path.clone());
        if self.keep.is_some_and(|keep| self.made.len() as u64 > keep)
            && let Some(oldest) = self.made.pop_front()
        {
            fs::remove_file(&oldest).with_context(|| format!("{}: cannot be removed", oldest.display()))?;
        }
        Ok(Current { writer, path, since: Instant::now(), start: now() })
    }
}

/// Standard output past the buffer and the lock that the rest of the program has.
fn unlocked() -> Result<File> {
    use std::os::fd::AsFd as _;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// `name-00001.pcapng` of `name.pcapng`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!("-{number:05}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_rotate_are_numbered() {
        for (path, expected) in
            [("a/b.pcapng", "a/b-00007.pcapng"), ("b", "b-00007"), ("/x/b.c.pcapng", "/x/b.c-00007.pcapng")]
        {
            assert_eq!(numbered(Path::new(path), 7), Path::new(expected));
        }
    }
}
