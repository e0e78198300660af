//! A hostile remote side below RPC-over-RDMA: its packets cost a bounded effort, and all waits end.

#[path = "hostile/cases.rs"]
mod cases;
#[path = "hostile/places.rs"]
mod connection_limit;
#[path = "hostile/foe.rs"]
mod foe;
#[path = "hostile/seeded.rs"]
mod seeded;
