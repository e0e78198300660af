//! Chunk lists (RFC 8166, sections 3.4, 4.3 and 4.4; RFC 8267).

use super::rule::{Rule, Unseen};

pub(super) const RULES: &[Rule] = &[];

pub(super) const UNSEEN: &[Unseen] = &[];
