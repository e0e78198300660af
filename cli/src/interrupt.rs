//! Signal handling. Ctrl-C ends the input if that is a pipe, and the command continues as at the
//! end of a file, like tcpdump and tshark. A live peer ends its connections and a live capture its
//! file, also on SIGTERM and SIGHUP. In other cases, and on the second signal, the process ends and
//! leaves no unfinished files.

use rdmascope_capture_agent::Interrupt;
#[cfg(target_os = "linux")]
use rdmascope_peer::driver::Waker;
use std::sync::LazyLock;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(unix)]
use std::sync::{Arc, Mutex, PoisonError};

/// Ends pipes that are read.
pub(crate) static INPUTS: LazyLock<Interrupt> = LazyLock::new(Interrupt::default);

/// Ends the connections of a peer.
#[cfg(target_os = "linux")]
static PEER: Mutex<Option<Waker>> = Mutex::new(None);

/// Lets the next SIGINT, SIGTERM or SIGHUP wake a peer. The one after it ends the process.
#[cfg(target_os = "linux")]
pub(crate) fn wake_once(waker: Waker) {
    *PEER.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
}

/// Ends a live capture.
#[cfg(unix)]
static CAPTURE: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// The flag that the next SIGINT, SIGTERM or SIGHUP sets. The one after it ends the process.
#[cfg(unix)]
pub(crate) fn end_once() -> Arc<AtomicBool> {
    let end = Arc::new(AtomicBool::new(false));
    *CAPTURE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&end));
    end
}

/// Ends a capture or wakes a peer. Returns whether one was registered.
#[cfg(unix)]
fn wake() -> bool {
    if let Some(end) = CAPTURE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        end.store(true, Ordering::Relaxed);
        return true;
    }
    wake_peer()
}

#[cfg(target_os = "linux")]
fn wake_peer() -> bool {
    let waker = PEER.lock().unwrap_or_else(PoisonError::into_inner).take();
    waker.is_some_and(|waker| {
        waker.wake();
        true
    })
}

#[cfg(not(target_os = "linux"))]
#[cfg(unix)]
fn wake_peer() -> bool {
    false
}

/// Starts to handle signals. Signals that are ignored, as under `nohup`, stay ignored.
pub(crate) fn listen() {
    if let Some(signals) = register() {
        signals.listen();
    }
}

/// Registered signals, which are queued until [`RegisteredSignals::listen`].
#[cfg(unix)]
pub(crate) struct RegisteredSignals(signal_hook::iterator::Signals);

/// Registers the signals, and queues them until [`RegisteredSignals::listen`] is called. Returns
/// `None` if that fails; signals then have their default effect.
#[cfg(unix)]
pub(crate) fn register() -> Option<RegisteredSignals> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

    let ignored = ignored();
    let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    signal_hook::iterator::Signals::new(signals).ok().map(RegisteredSignals)
}

#[cfg(unix)]
impl RegisteredSignals {
    /// Starts the thread that handles the signals.
    pub(crate) fn listen(self) {
        use signal_hook::{consts::SIGINT, low_level::emulate_default_handler};

        let RegisteredSignals(mut signals) = self;
        let _ = std::thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                // In a pager, Ctrl-C is meant for the pager.
                if signal == SIGINT && crate::pager::is_running() {
                    continue;
                }
                if signal == SIGINT && INPUTS.end_inputs() || wake() {
                    continue;
                }
                let _nothing_new = crate::atomic_file::remove_unfinished();
                let _ = emulate_default_handler(signal);
            }
        });
    }
}

/// The ignored signals as a bit mask, starting with signal 1. Linux only.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(not(unix))]
pub(crate) struct RegisteredSignals;

#[cfg(not(unix))]
pub(crate) fn register() -> Option<RegisteredSignals> {
    None
}

#[cfg(not(unix))]
impl RegisteredSignals {
    pub(crate) fn listen(self) {}
}
