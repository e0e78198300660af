//! Remote invalidation.

use crate::Trigger;

pub(crate) const TRIGGERS: &[Trigger] = &[];
