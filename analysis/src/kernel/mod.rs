//! The kernel as a witness: what the tracepoints of a host tell, beside what the packets show, or alone.
//!
//! [`KernelTrace::read`] puts the events of a trace together to calls. [`Joining`] takes the transactions of a capture beside them, and says in a
//! [`Witness`] where the time of the host went, and where kernel and wire disagree. Without a capture, [`Witness::alone`] tells what the trace
//! tells by itself.

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
pub use joining::{Disagreement, Joined, Joining, Witness};
pub use point::{Point, Role};
pub use steps::{Step, Steps};
