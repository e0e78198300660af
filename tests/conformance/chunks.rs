//! Chunks.

use crate::Trigger;

pub(crate) const TRIGGERS: &[Trigger] = &[];
