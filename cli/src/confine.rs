//! What a command gives up before it reads packets of strangers as they pass.

use crate::interrupt;
use crate::output::tell;
use anyhow::{Result, anyhow};
use rdmascope_capture_agent::confine::{ConfineError, Confined, Reach, confine};
use std::io::ErrorKind;

/// Confines this process for good: no capability, and nothing can be opened any more but what `reach` says. To be called when all is open, before a
/// thread is started; from then on signals are listened to. What this kernel has no means for is told of, unless `quiet`.
pub(crate) fn confined(reach: Reach<'_>, quiet: bool) -> Result<()> {
    // Listening takes a socket and a file, which cannot be had any more later; and a thread, which would not be confined now.
    let heard = interrupt::hear();
    let Confined { landlock, seccomp } = confine(reach).map_err(explained)?;
    if let Some(heard) = heard {
        heard.listen();
    }
    if !quiet {
        match (landlock, seccomp) {
            (true, true) => {}
            (true, false) => tell(format_args!(
                "warning: this kernel has no seccomp: no file can be opened any more, but sockets can"
            )),
            (false, true) if reach == Reach::Nothing => {
                tell(format_args!("warning: this kernel has no landlock: seccomp alone refuses files"));
            }
            (false, true) => tell(format_args!(
                "warning: this kernel has no landlock: files can be opened outside the folder too"
            )),
            (false, false) => tell(format_args!(
                "warning: this kernel has neither landlock nor seccomp: files and sockets can still be opened"
            )),
        }
    }
    Ok(())
}

/// What to do about it.
fn explained(error: ConfineError) -> anyhow::Error {
    match &error {
        ConfineError::Folder { error: system, .. } if system.kind() == ErrorKind::PermissionDenied => {
            anyhow!(
                "{error}: files are made here without the capabilities of root: --user names whose folder it is"
            )
        }
        _ => anyhow!("cannot be confined: {error}"),
    }
}
