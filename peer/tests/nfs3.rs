//! An NFSv3 export and its client: over two peers with a bad network between them, and call by call, with `nfs3_types` as the
//! witness of what is in the messages.

#[path = "nfs3/hostile.rs"]
mod hostile;
#[path = "nfs3/oracle.rs"]
mod oracle;
#[path = "nfs3/session.rs"]
mod session;
