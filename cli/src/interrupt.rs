//! What a signal does. Ctrl-C ends the input, where that is a pipe, and the command goes on as at the end of a file: so tcpdump and
//! tshark do it. Else, and the second time, it ends the process, which leaves no unfinished files behind. So do SIGTERM and SIGHUP.

use rdmascope_capture_agent::Interrupt;
use std::sync::LazyLock;

/// Ends pipes that are read.
pub(crate) static INPUTS: LazyLock<Interrupt> = LazyLock::new(Interrupt::default);

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
            if signal == SIGINT && INPUTS.end_inputs() {
                continue;
            }
            crate::whole::remove_unfinished();
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
