//! Private data and the life of connections (RFC 8797).

use super::rule::{Rule, Unseen};

pub(super) const RULES: &[Rule] = &[];

pub(super) const UNSEEN: &[Unseen] = &[];
