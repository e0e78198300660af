//! What a capture takes its packets from: network interfaces by a ring of the kernel, by `pnet_datalink`, or an RDMA device by verbs.

use super::{Capture, Clock};
use crate::interrupt;
use anyhow::{Result, anyhow, bail};
use rdmascope_capture_agent::LiveSource;
use rdmascope_capture_agent::datalink::{Datalink, DatalinkConfig, DatalinkError};
use rdmascope_capture_agent::filter::Wanted;

/// Opens what the arguments name. From now on Ctrl-C ends it.
pub(super) fn open(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    #[cfg(feature = "verbs")]
    if let Some(device) = &command.verbs {
        return snoop(command, device, wanted);
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
    refuse(command, "pnet_datalink", cfg!(not(target_os = "linux")))?;
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
            DatalinkError::NotPermitted => super::PERMISSION,
            _ => "",
        };
        anyhow!("{error}{remedy}")
    });
    Ok(Box::new(opened?))
}

#[cfg(feature = "verbs")]
fn snoop(command: &Capture, device: &str, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    use rdmascope_capture_agent::snoop::{SnoopConfig, SnoopError, open};
    refuse(command, "a device by verbs", true)?;
    let config = SnoopConfig {
        device: device.to_owned(),
        wanted: wanted.clone(),
        snap_length: command.snap_length,
        buffer: command.mirror.buffer(),
        interval: std::time::Duration::from_millis(100),
    };
    open(&config, interrupt::end_once()).map_err(|error| {
        let remedy = match &error {
            SnoopError::NoDevice { .. } => "; `rdmascope capture --list` lists those of each interface",
            SnoopError::NotPermitted => super::PERMISSION,
            SnoopError::Memory { .. } => ": --buffer takes less memory",
            _ => "",
        };
        anyhow!("{error}{remedy}")
    })
}

/// Options that the kernel's ring alone has are refused elsewhere, not passed over.
fn refuse(command: &Capture, of: &str, promiscuous: bool) -> Result<()> {
    for (is_given, option) in [
        (command.mirror.filter.is_some(), "--filter"),
        (command.mirror.incoming_only, "--incoming-only"),
        (command.mirror.threads > 1, "--threads"),
        (command.time_stamps == Clock::Hardware, "--time-stamps hardware"),
        (promiscuous && command.mirror.promiscuous, "--promiscuous"),
        (cfg!(not(target_os = "linux")) && command.mirror.user.is_some(), "--user"),
    ] {
        if is_given {
            bail!("{option} cannot be had with {of}");
        }
    }
    Ok(())
}
