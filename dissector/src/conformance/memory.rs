//! Memory that is advertised, and what touches it (RFC 8166, sections 3.4, 4.4 and 8).

use super::rule::{Rule, Unseen};

pub(super) const RULES: &[Rule] = &[];

pub(super) const UNSEEN: &[Unseen] = &[];
