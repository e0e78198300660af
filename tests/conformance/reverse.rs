//! Reverse direction.

use crate::Trigger;

pub(crate) const TRIGGERS: &[Trigger] = &[];
