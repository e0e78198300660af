//! What a capture takes its packets from: network interfaces by a ring of the kernel, by `pnet_datalink`, or an RDMA device by verbs.

use super::{Capture, Clock};
use crate::interrupt;
use crate::mirror::PERMISSION;
#[cfg(feature = "verbs")]
use crate::snoop;
use anyhow::{Result, anyhow, bail, ensure};
use rdmascope_capture_agent::LiveSource;
use rdmascope_capture_agent::datalink::{Datalink, DatalinkConfig, DatalinkError};
use rdmascope_capture_agent::filter::Wanted;

/// Opens what the arguments name. From now on Ctrl-C ends it.
pub(super) fn open(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    #[cfg(feature = "verbs")]
    if let Some(device) = &command.device.verbs {
        refuse_hardware_time(command, snoop::DEVICE)?;
        return snoop::open(device, &command.mirror, wanted, command.snap_length);
    }
    if command.pnet || cfg!(not(target_os = "linux")) {
        datalink(command, wanted)
    } else {
        mirror(command, wanted)
    }
}

#[cfg(target_os = "linux")]
fn mirror(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    use rdmascope_capture_agent::live::{Live, LiveConfig};
    let hardware_time = command.time_stamps == Clock::Hardware;
    if command.mirror.threads > 1 && hardware_time {
        bail!(
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
fn mirror(_: &Capture, _: &Wanted) -> Result<Box<dyn LiveSource>> {
    bail!("interfaces are captured by pnet_datalink here")
}

fn datalink(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    let [interface] = &command.interfaces[..] else {
        bail!("pnet_datalink captures from one interface at a time: name one with --interface");
    };
    refuse_hardware_time(command, "pnet_datalink")?;
    command.mirror.refuse("pnet_datalink", cfg!(not(target_os = "linux")))?;
    let config = DatalinkConfig {
        interface: interface.clone(),
        wanted: wanted.clone(),
        snap_length: command.snap_length,
        buffer: command.mirror.buffer(),
        promiscuous: command.mirror.promiscuous,
    };
    let opened = Datalink::open(&config, interrupt::end_once()).map_err(|error| {
        let remedy = match &error {
            DatalinkError::NoInterface(_) => super::LISTED,
            DatalinkError::NotPermitted => PERMISSION,
            _ => "",
        };
        anyhow!("{error}{remedy}")
    });
    Ok(Box::new(opened?))
}

/// Time stamps of adapters are the kernel's ring's alone.
fn refuse_hardware_time(command: &Capture, of: &str) -> Result<()> {
    ensure!(command.time_stamps == Clock::System, "--time-stamps hardware cannot be had with {of}");
    Ok(())
}
