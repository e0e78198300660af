//! Capturing the messages of the kernel's NFS/RDMA transport, common to `capture`, `live` and `tui`.

use crate::mirror::Mirror;
use anyhow::{Result, anyhow};
use rdmascope_capture_agent::live::tracefs::TracefsError;
use rdmascope_capture_agent::snoop::{Messages, SnoopConfig, SnoopError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Starts the capture, which ends when `end` is set.
pub(crate) fn open(mirror: &Mirror, snap_length: u32, end: Arc<AtomicBool>) -> Result<Messages> {
    mirror.refuse("--snoop", true)?;
    let config = SnoopConfig { snap_length, buffer: mirror.buffer(), interval: Duration::from_millis(50) };
    Messages::open(&config, end).map_err(|error| match error {
        SnoopError::Tracefs(TracefsError::NotPermitted) => {
            anyhow!("--snoop: probes require root, and a kernel that is not locked down (confidentiality)")
        }
        error => anyhow!("--snoop: {error}"),
    })
}
