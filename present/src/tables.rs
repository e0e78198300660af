//! Tables of fixed columns, so that each line can be written as it comes.

pub mod connections;
pub mod packets;
pub mod transactions;

#[cfg(test)]
pub(crate) mod tests;
