//! What a signal does. Ctrl-C ends the input, where that is a pipe, and the command goes on as at the end of a file: so tcpdump and
//! tshark do it. A live peer ends its connections, and a live capture its file, also with SIGTERM. Else, and the second time, it ends the process, which leaves no unfinished files behind. So do SIGTERM and SIGHUP.

use rdmascope_capture_agent::Interrupt;
#[cfg(target_os = "linux")]
use rdmascope_peer::driver::Waker;
use std::sync::LazyLock;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(target_os = "linux")]
use std::sync::{Arc, Mutex, PoisonError};

/// Ends pipes that are read.
pub(crate) static INPUTS: LazyLock<Interrupt> = LazyLock::new(Interrupt::default);

/// Ends the connections of a peer.
#[cfg(target_os = "linux")]
static PEER: Mutex<Option<Waker>> = Mutex::new(None);

/// Lets the next SIGINT or SIGTERM wake a peer. The one after it ends the process.
#[cfg(target_os = "linux")]
pub(crate) fn wake_once(waker: Waker) {
    *PEER.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
}

/// Ends a live capture.
#[cfg(target_os = "linux")]
static CAPTURE: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// What the next SIGINT or SIGTERM sets. The one after it ends the process.
#[cfg(target_os = "linux")]
pub(crate) fn end_once() -> Arc<AtomicBool> {
    let end = Arc::new(AtomicBool::new(false));
    *CAPTURE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&end));
    end
}

/// Whether there was one to wake or to end.
#[cfg(target_os = "linux")]
fn wake() -> bool {
    if let Some(end) = CAPTURE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        end.store(true, Ordering::Relaxed);
        return true;
    }
    let waker = PEER.lock().unwrap_or_else(PoisonError::into_inner).take();
    waker.is_some_and(|waker| {
        waker.wake();
        true
    })
}

#[cfg(not(target_os = "linux"))]
#[cfg(unix)]
fn wake() -> bool {
    false
}

/// From now on signals do that. What is ignored, as `nohup` has it, stays ignored.
#[cfg(unix)]
pub(crate) fn listen() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::{iterator::Signals, low_level::emulate_default_handler};

    let ignored = ignored();
    let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    // Without this, signals end the process as they always do.
    let Ok(mut signals) = Signals::new(heard) else { return };
    let _ = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGINT && INPUTS.end_inputs() || signal != SIGHUP && wake() {
                continue;
            }
            let _nothing_new = crate::whole::remove_unfinished();
            let _ = emulate_default_handler(signal);
        }
    });
}

/// The signals that are ignored: a bit for each, that of signal 1 first. Known on Linux alone.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(not(unix))]
pub(crate) fn listen() {}
