//! The text output of `check`: the findings to show, the page about them, and the rules.

mod kept;
mod page;
mod rules;

pub use kept::{Kept, Shown};
pub use page::{Line, Page, Selection};
pub use rules::{listed, slug, write_rule, write_rules};

#[cfg(test)]
mod tests;
