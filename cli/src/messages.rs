//! Capturing the messages of the kernel's NFS/RDMA transport, common to `capture` and `live`.

use crate::interrupt;
use crate::mirror::Mirror;
use anyhow::{Result, anyhow};
use rdmascope_capture_agent::LiveSource;
use rdmascope_capture_agent::live::tracefs::TracefsError;
use rdmascope_capture_agent::messages::{Messages, MessagesConfig, SnoopMessagesError};
use std::time::Duration;

/// Starts the capture. From then on, Ctrl-C ends it.
pub(crate) fn open(mirror: &Mirror, snap_length: u32) -> Result<Box<dyn LiveSource>> {
    mirror.refuse("--snoop", true)?;
    let config = MessagesConfig { snap_length, buffer: mirror.buffer(), interval: Duration::from_millis(50) };
    let opened = Messages::open(&config, interrupt::end_once()).map_err(|error| match error {
        SnoopMessagesError::Tracefs(TracefsError::NotPermitted) => {
            anyhow!("--snoop: probes require root, and a kernel that is not locked down (confidentiality)")
        }
        error => anyhow!("--snoop: {error}"),
    });
    Ok(Box::new(opened?))
}
