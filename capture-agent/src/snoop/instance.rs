//! An instance of tracefs with the events of this process: defines them, reads their pages, and
//! removes everything at the end.

use super::SnoopError as Error;
use super::btf::Btf;
use super::pages::{self, Layout};
use super::probes::{self, Definition};
use crate::live::tracefs;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Prefix of the names of instances and event groups. The process ID follows.
const INSTANCE: &str = "rdmascope-messages-";
const GROUP: &str = "rdmascope_messages_";
/// The file with the definitions of kprobes.
const EVENTS: &str = "kprobe_events";
/// Folder of the kernel's type information.
const BTF: &str = "/sys/kernel/btf";
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// The largest page of the ring in bytes.
const PAGE: usize = 64 << 10;

/// The events of this process. Dropping it removes them.
#[derive(Debug)]
pub(super) struct Instance {
    folder: PathBuf,
    group: String,
    events: Vec<String>,
    /// The files that a confined process needs for the end.
    definitions: File,
    profile: File,
    switches: Vec<File>,
    /// The pages of each processor.
    pipes: Vec<File>,
    page: Vec<u8>,
}

impl Instance {
    /// Defines the events and starts recording. Calls `add_layout` with each event and its layout.
    pub(super) fn open(
        bytes: usize,
        buffer: usize,
        mut add_layout: impl FnMut(&Definition, u16, Layout),
    ) -> Result<Instance, Error> {
        let Possible { place, wanted, module, mut definitions } = possible(bytes)?;
        let events = place.join(EVENTS);
        remove_left(&place, &mut definitions).map_err(|error| explained(system(&events, error)))?;
        let process = std::process::id();
        let mut instance = Instance {
            folder: place.join(format!("instances/{INSTANCE}{process}")),
            group: format!("{GROUP}{process}"),
            events: Vec::new(),
            definitions,
            profile: open(&place.join("kprobe_profile"), File::options().read(true))?,
            switches: Vec::new(),
            pipes: Vec::new(),
            page: vec![0; PAGE],
        };
        fs::create_dir(&instance.folder).map_err(|error| explained(system(&instance.folder, error)))?;
        instance.define(&wanted, module, &events)?;
        instance.begin(&wanted, buffer, &mut add_layout).map_err(explained)?;
        Ok(instance)
    }

    /// `module` comes before the names of functions. With it, the kernel attaches the probes again if
    /// the module is loaded again.
    fn define(&mut self, wanted: &[Definition], module: &str, path: &Path) -> Result<(), Error> {
        for definition in wanted {
            let name = definition.point.event(definition.part);
            let line = format!("p:{}/{name} {module}{}\n", self.group, definition.text);
            self.definitions.write_all(line.as_bytes()).map_err(|error| match error.kind() {
                // The function is not in memory, although its types are.
                ErrorKind::NotFound => Error::NoModule,
                _ => explained(system(path, error)),
            })?;
            self.events.push(name);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        wanted: &[Definition],
        buffer: usize,
        add_layout: &mut impl FnMut(&Definition, u16, Layout),
    ) -> Result<(), Error> {
        let processors = numbered(&self.folder.join("per_cpu"));
        let write = |name: &Path, value: &str| {
            let path = self.folder.join(name);
            fs::write(&path, value).map_err(|error| system(&path, error))
        };
        // A clock that all processors share.
        write(Path::new("trace_clock"), "mono")?;
        let size = (buffer / processors.len().max(1) / 1024).max(256);
        write(Path::new("buffer_size_kb"), &size.to_string())?;
        for (definition, name) in wanted.iter().zip(&self.events) {
            let event = Path::new("events").join(&self.group).join(name);
            let path = self.folder.join(&event).join("format");
            let format = fs::read_to_string(&path).map_err(|error| system(&path, error))?;
            let unknown = || system(&path, io::Error::other("unknown format"));
            let (id, layout) = Layout::parse(&format).ok_or_else(unknown)?;
            add_layout(definition, id, layout);
            if let Some(filter) = &definition.filter {
                write(&event.join("filter"), filter)?;
            }
        }
        let mut options = File::options();
        options.custom_flags(libc::O_NONBLOCK);
        for path in processors {
            let path = path.join("trace_pipe_raw");
            self.pipes.push(options.clone().read(true).open(&path).map_err(|error| system(&path, error))?);
        }
        for name in ["set_event", "tracing_on"] {
            let path = self.folder.join(name);
            self.switches
                .push(options.clone().write(true).open(&path).map_err(|error| system(&path, error))?);
        }
        write(&Path::new("events").join(&self.group).join("enable"), "1")
    }

    /// Calls `see` with processor, time and data of each event since the last call. Returns the events
    /// that were overwritten: the time up to which they were, and their number.
    pub(super) fn take(&mut self, mut see: impl FnMut(usize, u64, &[u8])) -> io::Result<Vec<(u64, u64)>> {
        let mut losses = Vec::new();
        for (processor, pipe) in self.pipes.iter_mut().enumerate() {
            loop {
                match pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(length) => {
                        let page = &self.page[..length];
                        let (began, lost) = pages::events(page, |time, data| see(processor, time, data));
                        losses.extend((lost > 0).then_some((began, lost)));
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(losses)
    }

    /// Returns the number of times that a probe was skipped, because the processor was in another
    /// one.
    pub(super) fn missed(&mut self) -> io::Result<u64> {
        let mut text = String::new();
        self.profile.rewind()?;
        self.profile.read_to_string(&mut text)?;
        let count = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let is_ours = words.next().is_some_and(|name| self.events.iter().any(|event| event == name));
            words.nth(1).filter(|_| is_ours)?.parse::<u64>().ok()
        };
        Ok(text.lines().filter_map(count).sum())
    }
}

impl Drop for Instance {
    /// Without permission to remove the instance, leaves an empty one, which the next
    /// [`Instance::open`] removes.
    fn drop(&mut self) {
        // An event in use cannot be removed, nor an instance with open files. Events are enabled last.
        if let [events, tracing] = &mut self.switches[..] {
            let _ = tracing.write_all(b"0");
            let _ = events.write_all(format!("!{}:*\n", self.group).as_bytes());
        }
        self.switches.clear();
        self.pipes.clear();
        let _ = tracefs::remove_instance(&self.folder);
        for event in &self.events {
            let _ = self.definitions.write_all(format!("-:{}/{event}\n", self.group).as_bytes());
        }
    }
}

/// The things that are needed to define events.
pub(super) struct Possible {
    place: PathBuf,
    wanted: Vec<Definition>,
    module: &'static str,
    definitions: File,
}

/// Checks whether events can be defined here, without side effects.
pub(super) fn possible(bytes: usize) -> Result<Possible, Error> {
    let place = tracefs::place().map_err(|error| explained(error.into()))?;
    if !place.join(EVENTS).exists() {
        return Err(Error::NoProbes);
    }
    let (btf, module) = read_btf()?;
    let wanted = probes::definitions(&btf, bytes)?;
    let definitions = open(&place.join(EVENTS), File::options().read(true).append(true))?;
    Ok(Possible { place, wanted, module, definitions })
}

fn open(path: &Path, options: &OpenOptions) -> Result<File, Error> {
    options.open(path).map_err(|error| explained(system(path, error)))
}

/// Removes the instances and events of processes that have ended.
fn remove_left(place: &Path, definitions: &mut File) -> io::Result<()> {
    tracefs::remove_left(&place.join("instances"), INSTANCE);
    let mut text = String::new();
    definitions.read_to_string(&mut text)?;
    for line in text.lines() {
        let name = line.split(' ').next().and_then(|name| name.split_once(':'));
        let Some((group, event)) = name.and_then(|(_, name)| name.split_once('/')) else { continue };
        if tracefs::is_left(group, GROUP) {
            // One that another instance uses cannot be removed.
            let _ = definitions.write_all(format!("-:{group}/{event}\n").as_bytes());
        }
    }
    Ok(())
}

/// Reads the types of the kernel and of its module, and the prefix of the module's functions.
fn read_btf() -> Result<(Btf, &'static str), Error> {
    let folder = Path::new(BTF);
    let vmlinux = fs::read(folder.join("vmlinux")).map_err(|_| Error::NoBtf)?;
    let module = fs::read(folder.join("rpcrdma")).ok();
    let prefix = if module.is_some() { "rpcrdma:" } else { "" };
    let btf = Btf::parse(&vmlinux, module.as_deref()).ok_or(Error::NoBtf)?;
    match btf.structure("rpcrdma_xprt") {
        Some(_) => Ok((btf, prefix)),
        None if Path::new("/sys/module/rpcrdma").exists() => Err(Error::NoBtf),
        None => Err(Error::NoModule),
    }
}

/// The folders `cpu0`, `cpu1` and so on.
fn numbered(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn system(path: &Path, error: io::Error) -> Error {
    Error::Tracefs(tracefs::failed(path, error))
}

/// Names lockdown as the reason of a refusal, if it is on.
fn explained(error: Error) -> Error {
    let is_refused = matches!(error, Error::Tracefs(tracefs::TracefsError::NotPermitted));
    let state = fs::read_to_string(LOCKDOWN).unwrap_or_default();
    if is_refused && state.contains("[confidentiality]") { Error::Lockdown } else { error }
}
