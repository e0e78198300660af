//! Headers (RFC 8166, sections 4.2 and 4.5).

use super::rule::{Rule, Unseen};

pub(super) const RULES: &[Rule] = &[];

pub(super) const UNSEEN: &[Unseen] = &[];
