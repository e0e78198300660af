//! The reliable connection below (IBTA volume 1, chapter 9).

use super::rule::{Rule, Unseen};

pub(super) const RULES: &[Rule] = &[];

pub(super) const UNSEEN: &[Unseen] = &[];
