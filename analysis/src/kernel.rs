//! The kernel trace of a host, joined with a capture or alone.
//!
//! [`KernelTrace::read`] assembles the events of a trace into calls. [`Joining`] takes the
//! transactions of a capture. It returns a [`TraceResults`] with the host's time by steps and the
//! differences between kernel and wire. [`TraceResults::alone`] does this for a trace without a capture.

mod calls;
mod clock;
mod difference;
mod joining;
mod point;
mod steps;
mod wire;

pub use calls::{Call, Chunks, KernelTrace};
pub use clock::{Clock, Window};
pub use difference::{About, Difference};
pub use joining::{Disagreement, Joined, Joining, TraceResults};
pub use point::{Point, Role};
pub use steps::{Step, Steps};
