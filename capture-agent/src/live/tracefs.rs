//! The tracepoints of this host, recorded while packets are captured: an instance of tracefs of our own, so that nobody else's tracing is touched.
//!
//! What clock the trace has does not matter: marks tie it to that of the packets. A mark is a line that this process writes into the trace; the
//! time of day is read before and after, and the next line tells both.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The events that are recorded, where the kernel has them: subsystem and names. An empty list: all whose names begin as ours do.
const EVENTS: [(&str, &[&str]); 2] =
    [("rpcrdma", &[]), ("sunrpc", &["xprt_reserve", "rpc_stats_latency", "svc_process"])];
/// Of rpcrdma, what tells nothing of a transaction and comes often.
const LEFT_OUT: [&str; 6] = [
    "svcrdma_dma_map_page",
    "svcrdma_dma_unmap_page",
    "svcrdma_post_recv",
    "xprtrdma_post_recv",
    "xprtrdma_mr_map",
    "xprtrdma_mr_unmap",
];
/// Where tracefs is mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Memory for the events of each CPU, in KiB.
const BUFFER: &str = "8192";
/// What our instances are called, with the process behind it.
const NAME: &str = "rdmascope-";
/// Bytes that are read at a time.
const PIECE: usize = 64 << 10;
/// Bytes that one call reads at most.
const MOST: usize = 4 << 20;

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// There is none.
    #[error("tracefs is not mounted: mount -t tracefs none /sys/kernel/tracing")]
    NotMounted,
    /// It has no events of RPC-over-RDMA.
    #[error(
        "the kernel has no rpcrdma tracepoints: modprobe rpcrdma, or its CONFIG_SUNRPC_XPRT_RDMA or CONFIG_FTRACE is off"
    )]
    NoEvents,
    /// It may not be used.
    #[error("tracefs takes root, or whoever may write to it")]
    NotPermitted,
    /// It cannot be used.
    #[error("{}: {error}", path.display())]
    System {
        /// What cannot be used.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// An instance of tracefs that records. It is removed, or at least emptied, when this is dropped.
#[derive(Debug)]
pub struct Tracepoints {
    instance: PathBuf,
    pipe: File,
    marker: File,
    /// `tracing_on` and `buffer_size_kb`: whoever is confined by the end can open neither.
    switch: File,
    size: File,
    marks: u64,
    /// The beginning of a line whose end was not read yet.
    rest: Vec<u8>,
    /// Events that are recorded.
    events: usize,
}

impl Tracepoints {
    /// Begins to record.
    pub fn open() -> Result<Tracepoints, TracefsError> {
        Tracepoints::open_at(&PLACES.map(PathBuf::from))
    }

    fn open_at(places: &[PathBuf]) -> Result<Tracepoints, TracefsError> {
        let is_mounted = |place: &&PathBuf| place.join("instances").is_dir();
        let place = places.iter().find(is_mounted).ok_or_else(|| match fs::metadata(&places[0]) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => TracefsError::NotPermitted,
            _ => TracefsError::NotMounted,
        })?;
        if !place.join("events/rpcrdma").is_dir() {
            return Err(TracefsError::NoEvents);
        }
        remove_left(&place.join("instances"));
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
        // One clock for all CPUs.
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
            instance: instance.to_owned(),
            marks: 0,
            rest: Vec::new(),
            events,
        })
    }

    /// How many events are recorded.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Ties the clock of the trace to the time of day.
    pub fn mark(&mut self) -> io::Result<()> {
        self.marks += 1;
        let mark = self.marks;
        let before = super::now().0;
        self.marker.write_all(format!("rdmascope-mark={mark}").as_bytes())?;
        let after = super::now().0;
        self.marker.write_all(format!("rdmascope-mark={mark} realtime={before}..{after}").as_bytes())
    }

    /// The lines that were traced since the last time, as far as they are whole; nothing where there are none.
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
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        self.rest = bytes.split_off(whole);
        Ok(bytes)
    }
}

impl Drop for Tracepoints {
    /// Whoever may not remove the instance leaves an empty one, of which the next [`Tracepoints::open`] takes care.
    fn drop(&mut self) {
        let _ = self.switch.write_all(b"0");
        let _ = self.size.write_all(b"1");
        if let Ok(nothing) = File::open("/dev/null") {
            // An instance of which a file is open cannot be removed.
            for file in [&mut self.pipe, &mut self.marker, &mut self.switch, &mut self.size] {
                if let Ok(nothing) = nothing.try_clone() {
                    *file = nothing;
                }
            }
            let _ = fs::remove_dir(&self.instance);
        }
    }
}

/// Removes what captures left that have ended: confined, they cannot do so themselves.
fn remove_left(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME)?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn failed(path: &Path, error: io::Error) -> TracefsError {
    match error.kind() {
        ErrorKind::PermissionDenied => TracefsError::NotPermitted,
        _ => TracefsError::System { path: path.to_owned(), error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_tracefs_or_rpcrdma_is_told_what_to_do() {
        let nowhere = tempfile::tempdir().unwrap();
        let places = [nowhere.path().join("a"), nowhere.path().join("b")];
        assert!(matches!(Tracepoints::open_at(&places), Err(TracefsError::NotMounted)));
        fs::create_dir_all(places[1].join("instances")).unwrap();
        assert!(matches!(Tracepoints::open_at(&places), Err(TracefsError::NoEvents)));
    }
}
