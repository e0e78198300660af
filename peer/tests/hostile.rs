//! A remote side that keeps to no rule, below RPC-over-RDMA: what it sends when costs no more than it should, and everything ends.

#[path = "hostile/cases.rs"]
mod cases;
#[path = "hostile/foe.rs"]
mod foe;
#[path = "hostile/places.rs"]
mod places;
#[path = "hostile/seeded.rs"]
mod seeded;
