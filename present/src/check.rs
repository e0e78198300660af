//! What a judge found, for people: the findings that are kept, the page that is written of them, and the rules themselves.

mod kept;
mod page;
mod rules;

pub use kept::{Kept, Shown};
pub use page::{Asked, Line, Page};
pub use rules::{listed, slug, write_rule, write_rules};

#[cfg(test)]
mod tests;
