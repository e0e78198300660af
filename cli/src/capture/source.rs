//! The packet sources of a capture: network interfaces through a ring of the kernel or
//! `pnet_datalink`, or an RDMA device through verbs.

#[cfg(any(feature = "pnet", not(target_os = "linux")))]
mod datalink;

use super::{Capture, Clock};
#[cfg(target_os = "linux")]
use crate::interrupt;
#[cfg(feature = "verbs")]
use crate::sniffer;
use anyhow::Result;
use rdmascope_capture_agent::LiveSource;
use rdmascope_capture_agent::filter::Wanted;

/// Opens the source that the arguments name. From then on, Ctrl-C ends the capture.
pub(super) fn open(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    #[cfg(feature = "verbs")]
    if let Some(device) = &command.device.verbs {
        refuse_hardware_time(command, sniffer::DEVICE)?;
        return sniffer::open(device, &command.mirror, wanted, command.snap_length);
    }
    if command.snoop {
        refuse_hardware_time(command, "--snoop")?;
        return messages(command);
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
            "--threads needs kernel time stamps: adapters have separate clocks, and packets are ordered by time"
        );
    }
    let config = LiveConfig {
        wanted: wanted.clone(),
        snap_length: command.snap_length,
        hardware_time,
        ..command.mirror.config(&command.interfaces, command.ports)
    };
    let live = Live::open(&config, interrupt::end_once()).map_err(super::explained)?;
    Ok(Box::new(live))
}

#[cfg(target_os = "linux")]
fn messages(command: &Capture) -> Result<Box<dyn LiveSource>> {
    Ok(Box::new(crate::snoop::open(&command.mirror, command.snap_length, interrupt::end_once())?))
}

#[cfg(not(target_os = "linux"))]
fn messages(_: &Capture) -> Result<Box<dyn LiveSource>> {
    anyhow::bail!("--snoop needs Linux")
}

#[cfg(not(target_os = "linux"))]
fn mirror(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    datalink::open(command, wanted)
}

/// Fails for hardware time stamps, which only the kernel's ring supports.
fn refuse_hardware_time(command: &Capture, of: &str) -> Result<()> {
    anyhow::ensure!(
        command.time_stamps == Clock::System,
        "--time-stamps hardware is not supported with {of}"
    );
    Ok(())
}
