//! A hostile remote side below RPC-over-RDMA: its packets cost a bounded effort, and all waits end.

#[path = "hostile/cases.rs"]
mod cases;
#[path = "hostile/foe.rs"]
mod foe;
#[path = "hostile/places.rs"]
mod places;
#[path = "hostile/seeded.rs"]
mod seeded;
