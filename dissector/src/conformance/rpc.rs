//! RPC messages and their XIDs (RFC 5531; RFC 8166, section 4.2.1).

use super::rule::{Rule, Unseen};

pub(super) const RULES: &[Rule] = &[];

pub(super) const UNSEEN: &[Unseen] = &[];
