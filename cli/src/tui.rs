//! `rdmascope tui`: browses a capture or a live session in the terminal.

use crate::capture_points::With;
use crate::captures;
#[cfg(target_os = "linux")]
use crate::confine;
use crate::confine::Paths;
use crate::input::Input;
use crate::interrupt;
use crate::level::MinimumLevel;
use crate::mirror::Mirror;
use crate::mode::NewFiles;
use crate::output::Status;
use crate::policy::AllowArguments;
use crate::terminal;
use anyhow::{Result, ensure};
use clap::Args;
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::Bytes;
#[cfg(target_os = "linux")]
use rdmascope_capture_agent::confine::Reach;
#[cfg(target_os = "linux")]
use rdmascope_capture_agent::live::tracefs;
use rdmascope_dissector::record::Time;
use rdmascope_present::text::Style;
use rdmascope_tui::Confine;
#[cfg(target_os = "linux")]
use rdmascope_tui::LiveCapture;
use rdmascope_tui::inject::Bench;
use rdmascope_tui::state::{Look, Palette};
use rdmascope_tui::{Export, Options, Source};
use std::io::{self, IsTerminal as _};
#[cfg(target_os = "linux")]
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope tui
  rdmascope tui mount.pcap
  rdmascope tui -i eth0
  rdmascope tui --snoop
  rdmascope tui mount.pcap --to 192.0.2.2
  rdmascope tui linux-6.12.pcap --compare linux-6.1.pcap
  ssh server rdmascope capture -i eth0 -w - | rdmascope tui -";

/// The arguments of `tui`.
#[derive(Args, Debug)]
#[command(mut_arg("files", |files| files.required(false).conflicts_with("interfaces")))]
#[command(mut_args(Mirror::of_interfaces))]
#[command(mut_args(With::never))]
pub(crate) struct Tui {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Interface to capture from, or `any` for all that are up; several interfaces are analyzed as
    /// one capture
    #[arg(short, long = "interface", value_name = "NAME")]
    interfaces: Vec<String>,
    /// Watch the messages of this host's NFS/RDMA client and server instead, from the kernel: see
    /// `capture --snoop`
    #[arg(long, conflicts_with_all = ["interfaces", "files"])]
    snoop: bool,
    /// Live server to send scenarios to: an IP address, followed by a colon and a port if it is not
    /// 20049
    ///
    /// Nothing is sent before a scenario is started on the screen, and only to this server.
    /// docs/scenarios.md describes the scenarios.
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = crate::peer::target)]
    to: Option<SocketAddr>,
    /// Local address to send scenarios from [default: that of the route to the server]
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "ADDR", requires = "to")]
    from: Option<IpAddr>,
    /// Path whose file handle is requested from the server by MOUNT over TCP; in a replayed session
    /// it replaces the first file handle of NFSv3 calls
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "PATH", requires = "to")]
    mount: Option<String>,
    /// Capture to compare with; the comparison of `rdmascope diff` follows the report
    #[arg(long, value_name = "FILE", requires = "files")]
    compare: Option<PathBuf>,
    /// Minimum level of the rules to check
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = MinimumLevel::Warning)]
    level: MinimumLevel,
    /// Memory for an interface or a pipe, in MiB
    ///
    /// Half of it is for the latest records, which limits how far the screen can step back. The
    /// other half is for the state of connections; beyond it, connections are evicted and counted,
    /// starting with the oldest of those with few packets.
    #[arg(long, value_name = "SIZE", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=65536))]
    memory: u64,
    /// Draw with ASCII characters only
    ///
    /// This is the default if the locale is not UTF-8.
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    allowed: AllowArguments,
    #[command(flatten)]
    pub(crate) new_files: NewFiles,
    #[command(flatten, next_help_heading = "Interfaces")]
    mirror: Mirror,
}

impl Tui {
    /// Whether it may send scenarios.
    fn sends(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.to.is_some();
        #[cfg(not(target_os = "linux"))]
        false
    }
}

/// Runs the command.
pub(crate) fn run(command: &Tui, style: Style) -> Result<Status> {
    ensure!(
        io::stdout().is_terminal(),
        "standard output is not a terminal; use rdmascope analyze, transactions or show for text"
    );
    let look = look(command, style);
    let (mut input, mut names, chosen) = (&command.input, command.interfaces.clone(), chosen(command, look)?);
    match &chosen {
        None => {}
        Some(Chosen::Nothing) => return Ok(Status::Done),
        Some(Chosen::Capture(capture)) => input = capture,
        Some(Chosen::Interface(name)) => names.push(name.clone()),
    }
    let options = Options {
        frame: input.frame(),
        level: command.level.level(),
        arguments: input.options(),
        allowances: command.allowed.allowances(input)?,
        look,
        memory: usize::try_from(command.memory << 20).unwrap_or(usize::MAX),
        compare: command.compare.clone(),
        export: export(input),
    };
    if let Some(other) = &command.compare {
        rdmascope_capture_agent::Files::open(core::slice::from_ref(other), None, &interrupt::INPUTS)?;
        if let Some(pipe) = input.files.iter().find(|path| !path.is_file()) {
            anyhow::bail!("{}: --compare needs a regular file, because it is read twice", pipe.display());
        }
    }
    let bench = bench(command)?;
    let source = if command.snoop {
        messages(command)?
    } else if input.files.is_empty() && names.is_empty() {
        Source::Nothing
    } else if names.is_empty() {
        // Report an invalid capture before the terminal is taken over.
        rdmascope_capture_agent::Files::open(&probed(&input.files), None, &interrupt::INPUTS)?;
        Source::Files(input.files.clone())
    } else {
        interfaces(command, &names)?
    };
    let confine = confinement(command, &source);
    rdmascope_tui::run(source, options, bench, confine)?;
    Ok(Status::Done)
}

/// Characters and colours of the screen.
fn look(command: &Tui, style: Style) -> Look {
    let palette = if terminal::has_any_colour() { Palette::Any } else { Palette::Few };
    let unicode = terminal::screen(style).unicode && !command.ascii;
    Look { unicode, colour: style.has_colour(), palette }
}

/// The answer of the user, if the command names neither a capture nor an interface nor a server.
enum Chosen {
    Nothing,
    Capture(Input),
    Interface(String),
}

/// Lists captures and interfaces to choose from if the command names none.
fn chosen(command: &Tui, look: Look) -> Result<Option<Chosen>> {
    let has_source = !command.input.files.is_empty() || !command.interfaces.is_empty() || command.snoop;
    if has_source || command.sends() {
        return Ok(None);
    }
    let captures = captures();
    let interfaces = interface_names();
    if captures.is_empty() && interfaces.is_empty() {
        anyhow::bail!(
            "no capture given, and none found in this folder or in samples/; rdmascope tui --help has examples"
        );
    }
    let width = captures.iter().map(|path| path.display().to_string().chars().count()).max().unwrap_or(0);
    let choices = captures.iter().map(|path| described(path, width));
    let choices = choices.chain(interfaces.iter().map(|(name, about)| format!("interface {name}  {about}")));
    let index = rdmascope_tui::choose(choices.collect(), look)?;
    Ok(Some(match index.map(|index| (captures.get(index), index)) {
        None => Chosen::Nothing,
        Some((Some(path), _)) => Chosen::Capture(command.input.of(vec![path.clone()])),
        Some((None, index)) => match interfaces.get(index - captures.len()) {
            Some((name, _)) => Chosen::Interface(name.clone()),
            None => Chosen::Nothing,
        },
    }))
}

/// A capture with its size and its time.
fn described(path: &Path, width: usize) -> String {
    let name = path.display().to_string();
    let Ok(metadata) = path.metadata() else { return name };
    let size = Bytes(metadata.len()).to_string();
    let time = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let time = time.map(|time| Rfc3339::from(Time(time.as_secs() as i64 * 1_000_000_000)).to_string());
    let day = time.as_deref().and_then(|time| time.get(..16)).unwrap_or_default().replace('T', " ");
    format!("{name:width$}  {size:>9}  {day}")
}

/// The Ethernet interfaces, each with its state and addresses.
#[cfg(target_os = "linux")]
fn interface_names() -> Vec<(String, String)> {
    let all = rdmascope_capture_agent::live::network_interfaces().into_iter();
    let about = |one: &rdmascope_capture_agent::live::NetworkInterface| {
        let addresses: Vec<String> = one.addresses.iter().map(ToString::to_string).collect();
        format!("{}  {}", one.state, addresses.join(", "))
    };
    all.filter(|one| one.is_ethernet).map(|one| (one.name.clone(), about(&one))).collect()
}

#[cfg(not(target_os = "linux"))]
fn interface_names() -> Vec<(String, String)> {
    Vec::new()
}

/// Confines the process. Files can be saved in the current folder.
fn confinement(command: &Tui, source: &Source) -> Box<Confine> {
    let here = Path::new(".");
    let files = match source {
        // Scenarios need sockets, which are opened when the first one runs.
        _ if command.sends() => return Box::new(|| Ok(())),
        #[cfg(target_os = "linux")]
        Source::Live(_) => {
            let instances = tracefs::instances().filter(|_| command.snoop);
            return Box::new(move || confine::quietly(Reach::Below(here), instances.as_deref()));
        }
        Source::Files(files) => files.as_slice(),
        _ => &[],
    };
    let mut paths = Paths::default();
    paths.read(files.iter().chain(&command.compare));
    // Compressed captures are unpacked to temporary files.
    paths.temporary(files.len() + 1);
    paths.write(here);
    // Notes are in the folder of the capture.
    for notes in files.iter().filter(|path| path.is_file()).map(|path| rdmascope_tui::marks::notes_path(path))
    {
        paths.read([&notes]);
        paths.write(notes);
    }
    // The terminal is opened again to restore it if standard input is a pipe.
    let terminal = PathBuf::from("/dev/tty");
    paths.read([&terminal]);
    paths.write(&terminal);
    Box::new(move || paths.confine())
}

#[cfg(target_os = "linux")]
fn bench(command: &Tui) -> Result<Option<Bench>> {
    let input = &command.input;
    let bench = |to| crate::peer::bench(to, command.from, again(input), command.mount.clone());
    command.to.map(bench).transpose()
}

#[cfg(not(target_os = "linux"))]
fn bench(_: &Tui) -> Result<Option<Bench>> {
    Ok(None)
}

/// The input if it can be read again, which needs files.
fn again(input: &Input) -> Option<Input> {
    let is_file = !input.files.is_empty() && input.files.iter().all(|path| path.is_file());
    is_file.then(|| Input { quiet: true, ..input.of(input.files.clone()) })
}

/// Exports the capture as `export html` does, to a file that must not exist yet.
fn export(input: &Input) -> Option<Export> {
    let input = again(input)?;
    Some(Export(Arc::new(move |path| {
        crate::export::page(&input, path).map_err(|error| format!("{error:#}"))
    })))
}

/// The captures in this folder, the latest first, and those in `samples/`.
fn captures() -> Vec<PathBuf> {
    let below = |folder: &str| captures::of_folder(Path::new(folder)).unwrap_or_default();
    let mut here = below(".");
    here.sort_by_cached_key(|path| core::cmp::Reverse(path.metadata().and_then(|data| data.modified()).ok()));
    let here = here.into_iter();
    let here = here.map(|path| path.strip_prefix(".").map(Path::to_owned).unwrap_or(path));
    here.chain(below("samples")).collect()
}

/// The files that can be opened twice.
fn probed(files: &[PathBuf]) -> Vec<PathBuf> {
    files
        .iter()
        .filter(|path| path.metadata().is_ok_and(|data| data.is_file()) || !is_available(path))
        .cloned()
        .collect()
}

fn is_available(path: &Path) -> bool {
    path == Path::new("-") || path.exists()
}

/// Opens interfaces. Everything that needs privileges is opened first; untrusted packets are read
/// without any.
#[cfg(target_os = "linux")]
fn interfaces(command: &Tui, names: &[String]) -> Result<Source> {
    use rdmascope_capture_agent::live::{Live, LiveConfig};
    use rdmascope_capture_agent::{Note, NoteKind, inventory};
    let config = LiveConfig {
        // The delay after which the screen shows new packets.
        interval: std::time::Duration::from_millis(50),
        ..command.mirror.config(names, command.input.ports)
    };
    let end = interrupt::end_once();
    let live = Live::open(&config, Arc::clone(&end)).map_err(crate::capture::explained)?;
    let connected = crate::capture::connected(command.input.quiet);
    let known = Note { kind: NoteKind::Inventory, bytes: inventory::to_text(&connected).into_bytes() };
    command.mirror.become_user()?;
    Ok(Source::Live(LiveCapture { name: names.join(", "), notes: vec![known], source: Box::new(live), end }))
}

/// Starts to capture the messages of the kernel. A connection is described before its first
/// message.
#[cfg(target_os = "linux")]
fn messages(command: &Tui) -> Result<Source> {
    let end = interrupt::end_once();
    let snap_length = command.mirror.config(&[], command.input.ports).snap_length;
    let source = crate::snoop::open(&command.mirror, snap_length, Arc::clone(&end))?;
    command.mirror.become_user()?;
    Ok(Source::Live(LiveCapture { name: "rpcrdma".into(), notes: Vec::new(), source: Box::new(source), end }))
}

#[cfg(not(target_os = "linux"))]
fn interfaces(_: &Tui, _: &[String]) -> Result<Source> {
    anyhow::bail!("watching interfaces needs Linux; use a capture file, or - for a pipe")
}

#[cfg(not(target_os = "linux"))]
fn messages(_: &Tui) -> Result<Source> {
    anyhow::bail!("--snoop needs Linux")
}
