//! Texts in tables with fixed columns, so that each line can be written at once.

pub mod connections;
pub mod packets;
pub mod transactions;

#[cfg(test)]
pub(crate) mod tests;
