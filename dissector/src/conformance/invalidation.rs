//! Remote invalidation (RFC 8797, section 4.1).

use super::rule::{Rule, Unseen};

pub(super) const RULES: &[Rule] = &[];

pub(super) const UNSEEN: &[Unseen] = &[];
