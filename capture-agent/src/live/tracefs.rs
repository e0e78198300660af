//! Records tracepoints of this host during a capture, in a separate tracefs instance, so that other
//! tracing is not disturbed.
//!
//! The clock of the trace is arbitrary: marks relate it to the time of day. A mark is a line that
//! this process writes to the trace. The time of day is read before and after it, and written in
//! the next line.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The subsystems and events to record, as far as the kernel has them. An empty list means all
/// events with the prefixes `xprtrdma_` and `svcrdma_`.
const EVENTS: [(&str, &[&str]); 2] =
    [("rpcrdma", &[]), ("sunrpc", &["xprt_reserve", "rpc_stats_latency", "svc_process"])];
/// Frequent rpcrdma events that contain nothing about transactions.
const LEFT_OUT: [&str; 6] = [
    "svcrdma_dma_map_page",
    "svcrdma_dma_unmap_page",
    "svcrdma_post_recv",
    "xprtrdma_post_recv",
    "xprtrdma_mr_map",
    "xprtrdma_mr_unmap",
];
/// Mount points of tracefs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Size of the buffer of each CPU in KiB.
const BUFFER: &str = "8192";
/// Prefix of the instance name. The process ID follows.
const NAME: &str = "rdmascope-";
const NULL: &str = "/dev/null";
/// Size of a read in bytes.
const PIECE: usize = 64 << 10;
/// Maximum number of bytes that one call reads.
const MOST: usize = 4 << 20;

/// The reason why tracepoints cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// tracefs is not mounted.
    #[error("tracefs is not mounted: mount -t tracefs none /sys/kernel/tracing")]
    NotMounted,
    /// The kernel has no tracepoints of RPC-over-RDMA.
    #[error(
        "the kernel has no rpcrdma tracepoints: modprobe rpcrdma, or its CONFIG_SUNRPC_XPRT_RDMA or CONFIG_FTRACE is off"
    )]
    NoEvents,
    /// The process may not use tracefs.
    #[error("tracefs requires root or write permission")]
    NotPermitted,
    /// A file of tracefs cannot be used.
    #[error("{}: {error}", path.display())]
    System {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A recording tracefs instance. Dropping it removes the instance, or at least empties it.
#[derive(Debug)]
pub struct Tracepoints {
    instance: PathBuf,
    pipe: File,
    marker: File,
    /// `tracing_on` and `buffer_size_kb`, opened early, because the process may be confined by the
    /// end.
    switch: File,
    size: File,
    /// An open file that replaces the others, because an instance with open files cannot be removed.
    nothing: File,
    marks: u64,
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
    /// Number of events recorded.
    events: usize,
}

impl Tracepoints {
    /// Starts recording.
    pub fn open() -> Result<Tracepoints, TracefsError> {
        Tracepoints::open_at(&PLACES.map(PathBuf::from))
    }

    fn open_at(places: &[PathBuf]) -> Result<Tracepoints, TracefsError> {
        let place = mounted(places)?;
        if !place.join("events/rpcrdma").is_dir() {
            return Err(TracefsError::NoEvents);
        }
        remove_left(&place.join("instances"), NAME);
        let instance = place.join(format!("instances/{NAME}{}", std::process::id()));
        fs::create_dir(&instance).map_err(|error| failed(&instance, error))?;
        let begun = Tracepoints::begin(&instance);
        if begun.is_err() {
            let _ = fs::remove_dir(&instance);
        }
        begun
    }

    fn begin(instance: &Path) -> Result<Tracepoints, TracefsError> {
        let write = |name: &str, value: &str| {
            let path = instance.join(name);
            fs::write(&path, value).map_err(|error| failed(&path, error))
        };
        write("buffer_size_kb", BUFFER)?;
        // A clock that all CPUs share.
        write("trace_clock", "mono")?;
        let mut events = 0;
        for (subsystem, names) in EVENTS {
            let folder = instance.join("events").join(subsystem);
            let Ok(entries) = fs::read_dir(&folder) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let is_ours = match names {
                    [] => name.starts_with("xprtrdma_") || name.starts_with("svcrdma_"),
                    names => names.contains(&name.as_str()),
                };
                if is_ours && !LEFT_OUT.contains(&name.as_str()) {
                    write(&format!("events/{subsystem}/{name}/enable"), "1")?;
                    events += 1;
                }
            }
        }
        if events == 0 {
            return Err(TracefsError::NoEvents);
        }
        let open = |name: &str, write: bool| {
            use std::os::unix::fs::OpenOptionsExt as _;
            let path = instance.join(name);
            let flags = libc::O_NONBLOCK;
            let opened = File::options().read(!write).write(write).custom_flags(flags).open(&path);
            opened.map_err(|error| failed(&path, error))
        };
        Ok(Tracepoints {
            pipe: open("trace_pipe", false)?,
            marker: open("trace_marker", true)?,
            switch: open("tracing_on", true)?,
            size: open("buffer_size_kb", true)?,
            nothing: File::open(NULL).map_err(|error| failed(Path::new(NULL), error))?,
            instance: instance.to_owned(),
            marks: 0,
            rest: Vec::new(),
            events,
        })
    }

    /// Returns the number of event types that are recorded.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Writes a mark that relates the clock of the trace to the time of day.
    pub fn mark(&mut self) -> io::Result<()> {
        self.marks += 1;
        let mark = self.marks;
        let before = super::now().0;
        self.marker.write_all(format!("rdmascope-mark={mark}").as_bytes())?;
        let after = super::now().0;
        self.marker.write_all(format!("rdmascope-mark={mark} realtime={before}..{after}").as_bytes())
    }

    /// Returns the complete lines traced since the last call. Empty if there are none.
    pub fn take(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = core::mem::take(&mut self.rest);
        let mut piece = vec![0; PIECE];
        while bytes.len() < MOST {
            match self.pipe.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => bytes.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.rest = bytes.split_off(complete);
        Ok(bytes)
    }
}

impl Drop for Tracepoints {
    /// Without permission to remove the instance, leaves an empty one, which the next
    /// [`Tracepoints::open`] removes.
    fn drop(&mut self) {
        let _ = self.switch.write_all(b"0");
        let _ = self.size.write_all(b"1");
        for file in [&mut self.pipe, &mut self.marker, &mut self.switch, &mut self.size] {
            if let Ok(nothing) = self.nothing.try_clone() {
                *file = nothing;
            }
        }
        let _ = remove_instance(&self.instance);
    }
}

/// The folder of the instances of tracefs. `None` if tracefs is not mounted.
pub fn instances() -> Option<PathBuf> {
    Some(place().ok()?.join("instances"))
}

/// The place where tracefs is mounted.
pub(crate) fn place() -> Result<PathBuf, TracefsError> {
    mounted(&PLACES.map(PathBuf::from)).cloned()
}

fn mounted(places: &[PathBuf]) -> Result<&PathBuf, TracefsError> {
    let is_mounted = |place: &&PathBuf| place.join("instances").is_dir();
    places.iter().find(is_mounted).ok_or_else(|| match fs::metadata(places[0].join("instances")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => TracefsError::NotPermitted,
        _ => TracefsError::NotMounted,
    })
}

/// Removes instances of processes that have ended: those with this prefix before the process ID.
pub(crate) fn remove_left(instances: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| is_left(name, prefix)) {
            let _ = remove_instance(&entry.path());
        }
    }
}

/// Whether a name has this prefix and the ID of a process that has ended.
pub(crate) fn is_left(name: &str, prefix: &str) -> bool {
    let process = name.strip_prefix(prefix).and_then(|process| process.parse::<u32>().ok());
    process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists())
}

/// Removes an instance, by the call that [`confine`](crate::confine) permits for it.
pub(crate) fn remove_instance(instance: &Path) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(rustix::fs::CWD, instance, rustix::fs::AtFlags::REMOVEDIR)?)
}

pub(crate) fn failed(path: &Path, error: io::Error) -> TracefsError {
    match error.kind() {
        ErrorKind::PermissionDenied => TracefsError::NotPermitted,
        _ => TracefsError::System { path: path.to_owned(), error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tracefs_or_rpcrdma_events_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("a"), folder.path().join("b")];
        assert!(matches!(Tracepoints::open_at(&paths), Err(TracefsError::NotMounted)));
        fs::create_dir_all(paths[1].join("instances")).unwrap();
        assert!(matches!(Tracepoints::open_at(&paths), Err(TracefsError::NoEvents)));
    }
}
