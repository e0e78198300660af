//! An NFSv3 export and its client: over two peers with a bad network, and call by call, with
//! messages checked by `nfs3_types`.

#[path = "nfs3/hostile.rs"]
mod hostile;
#[path = "nfs3/oracle.rs"]
mod oracle;
#[path = "nfs3/session.rs"]
mod session;
