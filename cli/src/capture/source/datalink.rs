//! A single interface through `pnet_datalink`.

use super::refuse_hardware_time;
use crate::capture::{Capture, LISTED};
use crate::interrupt;
use crate::mirror::PERMISSION;
use anyhow::{Result, anyhow, bail};
use rdmascope_capture_agent::LiveSource;
use rdmascope_capture_agent::datalink::{Datalink, DatalinkConfig, DatalinkError};
use rdmascope_capture_agent::filter::Wanted;

/// Opens the interface that the arguments name. Options that pnet_datalink does not support are
/// refused.
pub(super) fn open(command: &Capture, wanted: &Wanted) -> Result<Box<dyn LiveSource>> {
    let [interface] = &command.interfaces[..] else {
        bail!("pnet_datalink captures from one interface at a time; use one --interface");
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
            DatalinkError::NoInterface(_) => LISTED,
            DatalinkError::NotPermitted => PERMISSION,
            _ => "",
        };
        anyhow!("{error}{remedy}")
    });
    Ok(Box::new(opened?))
}
