//! Tables of fixed columns, so that each line can be written as it comes.

pub(crate) mod connections;
pub(crate) mod packets;
pub(crate) mod transactions;

#[cfg(test)]
pub(crate) mod tests;
