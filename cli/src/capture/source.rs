//! What a capture takes its packets from: network interfaces by a ring of the kernel, by `pnet_datalink`, or an RDMA device by verbs.

#[cfg(any(feature = "pnet", not(target_os = "linux")))]
mod datalink;

use super::{Capture, Clock};
#[cfg(target_os = "linux")]
use crate::interrupt;
#[cfg(feature = "verbs")]
use crate::snoop;
use anyhow::Result;
use rdmascope_capture_agent::LiveSource;
use rdmascope_capture_agent::filter::Wanted;

/// Opens what the arguments name. From now on Ctrl-C ends it.
pub(super) fn open(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    #[cfg(feature = "verbs")]
    if let Some(device) = &command.device.verbs {
        refuse_hardware_time(command, snoop::DEVICE)?;
        return snoop::open(device, &command.mirror, wanted, command.snap_length);
    }
    #[cfg(feature = "pnet")]
    if command.pnet {
        return datalink::open(command, wanted);
    }
    mirror(command, wanted)
}

#[cfg(target_os = "linux")]
fn mirror(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    use rdmascope_capture_agent::live::{Live, LiveConfig};
    let hardware_time = command.time_stamps == Clock::Hardware;
    if command.mirror.threads > 1 && hardware_time {
        anyhow::bail!(
            "--threads goes with the kernel's time stamps only: adapters have each a clock of their own, and packets are put in order by time"
        );
    }
    let config = LiveConfig {
        wanted: wanted.clone(),
        snap_length: command.snap_length,
        hardware_time,
        ..command.mirror.config(&command.interfaces, command.port)
    };
    let live = Live::open(&config, interrupt::end_once()).map_err(super::explained)?;
    Ok(Box::new(live))
}

#[cfg(not(target_os = "linux"))]
fn mirror(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    datalink::open(command, wanted)
}

/// Only the kernel's ring has the time stamps of adapters.
#[cfg(any(feature = "pnet", feature = "verbs", not(target_os = "linux")))]
fn refuse_hardware_time(command: &Capture, of: &str) -> Result<()> {
    anyhow::ensure!(command.time_stamps == Clock::System, "--time-stamps hardware cannot be had with {of}");
    Ok(())
}
