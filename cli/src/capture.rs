//! `rdmascope capture`: writes the packets of network interfaces as pcapng.

#[cfg(target_os = "linux")]
mod doctor;
mod files;
#[cfg_attr(not(target_os = "linux"), path = "capture/no_kernel.rs")]
mod kernel;
mod source;

use crate::bulk;
#[cfg(target_os = "linux")]
use crate::confine::confined_except;
use crate::mirror::{Mirror, PERMISSION, warn_of_drops};
use crate::mode::NewFiles;
use crate::output::{Out, Status, complain, notify};
use crate::ports::Ports;
#[cfg(feature = "verbs")]
use crate::sniffer::Device;
use crate::terminal;
use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use files::Files;
#[cfg(target_os = "linux")]
pub(crate) use kernel::connected;
use kernel::{Tracing, inventory, record};
use rdmascope_analysis::time::parse_duration;
use rdmascope_analysis::units::Plain;
#[cfg(target_os = "linux")]
use rdmascope_capture_agent::confine::Reach;
use rdmascope_capture_agent::filter::Wanted;
#[cfg(target_os = "linux")]
use rdmascope_capture_agent::live::{FilterError, LiveError, iwarp_only, network_interfaces, tracefs};
use rdmascope_capture_agent::{Compression, Description, Host, LiveSource, Next, State};
use rdmascope_dissector::bulk::BulkCut;
use rdmascope_dissector::record::LinkType;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope capture --doctor
  rdmascope capture --list
  rdmascope capture -i eth0 -w mount.pcapng
  rdmascope capture -i eth0 -w server.pcapng.zst --filter 'host 10.0.0.1'
  rdmascope capture -i eth0 -w ring.pcapng --rotate-size 256 --files 8
  rdmascope capture -i eth0 -w small.pcapng --cut-bulk
  rdmascope capture --snoop -w messages.pcapng
  ssh server rdmascope capture -i eth0 -w - | rdmascope analyze -";

/// The arguments of `capture`.
#[derive(Args, Debug)]
#[cfg_attr(feature = "verbs", command(mut_arg("verbs", |verbs| verbs.conflicts_with("list"))))]
pub(crate) struct Capture {
    /// Interface to capture from, or `any` for all that are up; repeat it to capture several
    /// interfaces into one file
    #[arg(short, long = "interface", value_name = "NAME", required_unless_present_any = ["list", "doctor", "snoop"])]
    #[cfg_attr(feature = "verbs", arg(required_unless_present = "verbs"))]
    interfaces: Vec<String>,
    #[cfg(feature = "verbs")]
    #[command(flatten)]
    device: Device,
    /// Capture the messages of this host's NFS/RDMA client and server instead, from the kernel
    ///
    /// Use it where the adapter's packets never reach the network stack. Probes on the kernel's
    /// transport fetch up to 4,096 bytes of each message. The file has a composed RoCEv2 frame for
    /// each, with real addresses and queue pairs. It has no data of chunks, acknowledgements or
    /// retransmissions. This needs root, tracefs, and the kernel's type information (BTF), and it
    /// slows each message down.
    #[arg(long, conflicts_with_all = ["interfaces", "list", "cut_bulk"])]
    #[cfg_attr(feature = "verbs", arg(conflicts_with = "verbs"))]
    #[cfg_attr(feature = "pnet", arg(conflicts_with = "pnet"))]
    snoop: bool,
    /// Capture with pnet_datalink, as on other systems than Linux: one interface, slower, and
    /// without drop counts
    #[cfg(feature = "pnet")]
    #[arg(long)]
    #[cfg_attr(feature = "verbs", arg(conflicts_with = "verbs"))]
    pnet: bool,
    /// Output file in pcapng, or `-` for standard output
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["list", "doctor"])]
    write: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) new_files: NewFiles,
    /// List the interfaces and their RDMA devices, and exit
    #[arg(short = 'L', long, conflicts_with_all = ["interfaces", "write"])]
    list: bool,
    /// Print which captures work on this host and the command to run, and exit
    ///
    /// The report has the RDMA devices, how much of their traffic reaches the network stack, and what
    /// --snoop and --kernel need: type information (BTF), tracefs and privileges.
    #[arg(long, conflicts_with_all = ["interfaces", "write", "list", "snoop"])]
    #[cfg_attr(feature = "verbs", arg(conflicts_with = "verbs"))]
    doctor: bool,
    /// Maximum number of bytes captured of each packet
    #[arg(short, long, value_name = "SIZE", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(64..=262_144))]
    snap_length: u32,
    /// Omit the payload of RDMA Writes and RDMA Reads
    ///
    /// Headers, Sends and messages in chunks are written, and all packets whose content is
    /// uncertain, so `analyze` and `check` give the same results. ICRCs are verified before packets
    /// are shortened; packets with a bad ICRC are written in full. `extract` finds no files in such
    /// a capture.
    #[arg(long)]
    cut_bulk: bool,
    /// Stop after this number of packets
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Stop after this time, such as 30s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<u64>,
    /// Start a new file after this size, in MiB
    ///
    /// The files are numbered: `name.pcapng` becomes `name-00001.pcapng` and so on.
    #[arg(long, value_name = "SIZE", value_parser = clap::value_parser!(u64).range(1..))]
    rotate_size: Option<u64>,
    /// Start a new file after this time, such as 60s
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    rotate_time: Option<u64>,
    /// Keep at most this number of rotated files; the oldest is deleted
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(2..))]
    files: Option<u64>,
    #[command(flatten)]
    mirror: Mirror,
    #[command(flatten)]
    ports: Ports,
    /// Compress the file; the default follows the file name, which ends in .gz or .zst
    #[arg(long, value_enum, value_name = "FORMAT")]
    compress: Option<Compress>,
    /// Store TEXT as a comment in the capture
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Clock for time stamps; `hardware` is the network adapter's, and needs CAP_NET_ADMIN unless
    /// it is already enabled
    #[arg(long, value_enum, value_name = "CLOCK", default_value_t = Clock::System)]
    time_stamps: Clock,
    /// Also record the kernel's RPC-over-RDMA tracepoints, for `analyze`
    ///
    /// This needs root and tracefs. The records are stored in the same file, in blocks that other
    /// programs skip.
    #[arg(long)]
    kernel: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Compress {
    /// gzip
    Gzip,
    /// Zstandard
    Zstd,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    /// The kernel's clock when it receives the packet
    System,
    /// The network adapter's clock
    Hardware,
}

pub(crate) fn run(command: &Capture, out: &mut Out) -> io::Result<Status> {
    if command.list {
        return list(out).map(|()| Status::Done);
    }
    #[cfg(target_os = "linux")]
    if command.doctor {
        return doctor::write(out).map(|()| Status::Done);
    }
    match capture(command) {
        Ok(status) => Ok(status),
        Err(error) => match error.downcast_ref::<io::Error>() {
            // The reader of standard output has closed it. Its error ends the command without a
            // message.
            Some(system) if system.kind() == ErrorKind::BrokenPipe => {
                if !command.quiet {
                    notify(format_args!("standard output was closed: capture stopped"));
                }
                Err(ErrorKind::BrokenPipe.into())
            }
            _ => complain(&error, out),
        },
    }
}

/// Lists the interfaces.
#[cfg(not(target_os = "linux"))]
fn list(out: &mut Out) -> io::Result<()> {
    for (name, addresses) in rdmascope_capture_agent::datalink::datalink_interfaces() {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        writeln!(out, "{:<15} {}", Plain(&name), addresses.join(" "))?;
    }
    Ok(())
}

/// Lists the interfaces with their RDMA devices.
#[cfg(target_os = "linux")]
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
            let kind = if *is_hardware {
                "hardware: its RoCE packets are visible only if the device mirrors them"
            } else {
                "software"
            };
            write!(out, "; RDMA device {} ({kind})", Plain(device))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn capture(command: &Capture) -> Result<Status> {
    ensure!(!command.doctor, "--doctor needs Linux");
    let Some(path) = &command.write else { bail!("no output file: use --write FILE") };
    let is_pipe = path == Path::new("-");
    if is_pipe {
        terminal::refuse_pcapng("--write")?;
    }
    let rotates = command.rotate_size.is_some() || command.rotate_time.is_some();
    if is_pipe && rotates {
        bail!("standard output cannot rotate; use --write FILE");
    }
    if command.files.is_some() && !rotates {
        bail!("--files needs --rotate-size or --rotate-time");
    }
    let wanted = command.mirror.wanted(command.ports);
    #[cfg(target_os = "linux")]
    if command.kernel && wanted.iwarp.is_none() {
        warn_of_iwarp();
    }
    let mut tracing = if command.kernel { Some(Tracing::new()?) } else { None };
    let mut live = source::open(command, &wanted)?;
    // Drop root before creating files, so that a link in a folder of this user gives access to
    // nothing that the user may not write.
    #[cfg(target_os = "linux")]
    command.mirror.become_user()?;
    let mut files = command.files(path, &wanted, &*live);
    let mut file = files.begin()?;
    record(&mut tracing, &mut file, true)?;
    #[cfg(target_os = "linux")]
    {
        let reach = if rotates { Reach::Below(files.folder()) } else { Reach::Nothing };
        // The instances of tracefs are removed at the end.
        let instances = tracefs::instances().filter(|_| command.kernel || command.snoop);
        confined_except(reach, instances.as_deref(), command.quiet)?;
    }
    if !command.quiet {
        let names = live.names().join(", ");
        notify(format_args!("capturing from {names}; press Ctrl-C to stop"));
    }
    let mut bulk = command.cut_bulk.then(|| BulkCut::new(command.ports.frame()));
    let start = Instant::now();
    let [duration, age] = [command.duration, command.rotate_time].map(|time| time.map(Duration::from_nanos));
    let size = command.rotate_size.map(|size| size << 20);
    let mut states = vec![State::Up; live.names().len()];
    let mut changes = 0;
    let mut failed = None;
    loop {
        let mut is_pause = false;
        let mut captured = 0;
        match live.next() {
            Ok(Next::Record(record)) => {
                file.packet(&bulk::cut(&mut bulk, &record))?;
                captured = record.number;
            }
            Ok(Next::Idle(_)) => is_pause = true,
            Ok(Next::Note(note)) => {
                files.note(&note);
                file.note(note.kind, &note.bytes)?;
                continue;
            }
            Ok(_) => break,
            // Keep the packets captured so far, and finish the file.
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
        if command.count.is_some_and(|count| captured >= count) {
            break;
        }
        // Reading the clock costs as much as a packet.
        let is_full = size.is_some_and(|size| file.written() >= size);
        if !is_pause && !is_full && captured % STRIDE != 0 {
            continue;
        }
        if changes != live.changes() {
            changes = live.changes();
            report_states(&*live, &mut states);
        }
        if duration.is_some_and(|duration| start.elapsed() >= duration) {
            break;
        }
        if is_full || age.is_some_and(|age| file.since.elapsed() >= age) {
            record(&mut tracing, &mut file, true)?;
            file.end(&mut *live)?;
            file = files.begin()?;
            if let Some(bulk) = &mut bulk {
                bulk.begin_file();
            }
            record(&mut tracing, &mut file, true)?;
        } else {
            record(&mut tracing, &mut file, false)?;
            file.flush(is_pause)?;
        }
    }
    record(&mut tracing, &mut file, true)?;
    file.end(&mut *live)?;
    let counts = live.counts()?;
    if let Some(dropped) = counts.dropped {
        warn_of_drops(dropped, "use a larger --buffer or a smaller --snap-length");
    }
    for lack in live.lacks() {
        notify(format_args!("warning: {lack}"));
    }
    if command.time_stamps == Clock::Hardware && live.stamped() < counts.delivered {
        notify(format_args!(
            "warning: {} packets have kernel time stamps: the adapter stamps only received packets, and not all of them",
            counts.delivered - live.stamped()
        ));
    }
    if let Some(error) = failed {
        return Err(error.into());
    }
    if !command.quiet {
        let seconds = start.elapsed().as_secs_f64();
        let dropped = dropped(counts.dropped, live.uncounted());
        notify(format_args!("{} packets captured in {seconds:.1} s, {dropped}", counts.delivered));
    }
    Ok(Status::Done)
}

/// Warns if all RDMA devices of the host use iWARP and --iwarp is missing: the trace would cover
/// calls whose packets are not captured.
#[cfg(target_os = "linux")]
fn warn_of_iwarp() {
    let devices = iwarp_only();
    if !devices.is_empty() {
        notify(format_args!(
            "warning: the RDMA devices of this host use iWARP over TCP ({}); add --iwarp to capture TCP",
            Plain(devices.join(", "))
        ));
    }
}

/// Packets between two checks of the clock.
const STRIDE: u64 = 256;

/// The drop count as text, or why it is unknown.
pub(crate) fn dropped(dropped: Option<u64>, uncounted: Option<String>) -> String {
    dropped.map_or_else(|| unknown_drops(uncounted), |dropped| format!("{dropped} dropped"))
}

/// The text for an unknown drop count.
fn unknown_drops(why: Option<String>) -> String {
    format!("drop count unknown: {}", why.unwrap_or_default())
}

/// Reports interfaces whose state changed.
fn report_states(live: &dyn LiveSource, known: &mut [State]) {
    for ((name, state), known) in live.names().iter().zip(live.states()).zip(known) {
        if state == known {
            continue;
        }
        *known = *state;
        let description = match state {
            State::Up => "up again",
            State::Down => "down",
            State::Gone => "gone; capture resumes when an interface with this name appears",
        };
        notify(format_args!("{name}: the interface is {description}"));
    }
}

impl Capture {
    /// The files to write.
    fn files<'a>(&self, path: &'a Path, wanted: &Wanted, live: &dyn LiveSource) -> Files<'a> {
        let filter = match &self.mirror.filter {
            _ if self.snoop => String::new(),
            Some(filter) => format!("({wanted}) and ({filter})"),
            None => wanted.to_string(),
        };
        let describe = |name: &String| Description {
            link: if self.snoop { LinkType::RAW } else { LinkType::ETHERNET },
            name: name.clone(),
            filter: filter.clone(),
            snap_length: self.snap_length,
        };
        let host = Host::this();
        let cut = self.cut_bulk.then(|| bulk::COMMENT.to_owned());
        let uncounted = live.uncounted().map(|why| unknown_drops(Some(why)));
        let snooped = self.snoop.then(|| SNOOPED.to_owned());
        let comments = self.comment.iter().cloned().chain(snooped).chain(cut).chain(uncounted);
        let comments = comments.chain([format!("host {}", host.name)]);
        Files {
            path,
            rotates: self.rotate_size.is_some() || self.rotate_time.is_some(),
            keep: self.files,
            compression: match self.compress {
                Some(Compress::Gzip) => Some(Compression::Gzip),
                Some(Compress::Zstd) => Some(Compression::Zstd),
                None => Compression::of_name(path),
            },
            interfaces: live.names().iter().map(describe).collect(),
            system: host.system,
            comments: comments.collect(),
            made: VecDeque::new(),
            number: 0,
            // A snooped connection is described before its first message.
            inventory: if self.snoop { String::new() } else { inventory(self.quiet) },
        }
    }
}

/// The comment of a file with snooped messages.
const SNOOPED: &str = "snooped at the kernel's NFS/RDMA transport: the frames were composed from its messages; their PSNs \
     and ICRCs are not those of any packet, and RDMA Reads, RDMA Writes and acknowledgements are missing";

/// A hint for unknown interface names.
const LISTED: &str = "; `rdmascope capture --list` lists the interfaces";

/// Adds the remedy to an error of a live capture.
#[cfg(target_os = "linux")]
pub(crate) fn explained(error: LiveError) -> anyhow::Error {
    let remedy = match &error {
        LiveError::NotPermitted => PERMISSION,
        LiveError::NoInterface(_) => LISTED,
        LiveError::Filter(FilterError::NoLibrary) => {
            "; install libpcap (Debian: libpcap0.8) or omit --filter"
        }
        LiveError::Filter(FilterError::Refused(_)) => " in --filter",
        LiveError::NoHardwareTime { .. } => "; omit --time-stamps to use kernel time stamps",
        LiveError::System(system) if system.kind() == ErrorKind::OutOfMemory => {
            "; use a smaller --buffer, which takes less memory"
        }
        _ => "",
    };
    anyhow::anyhow!("{error}{remedy}")
}
