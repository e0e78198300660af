//! The XDR language, and descriptions of NFS in it.
//!
//! The `.x` files describe NFS and its companion protocols with the names, numbers and structure of
//! the RFCs. They are the only description of the types of arguments and results. Each is parsed on
//! first use ([`language`]). The files are part of the program, so an error in one is a panic,
//! which the tests find.
//!
//! ```
//! use rdmascope_xdr::NFS3;
//! use rdmascope_xdr::language::{Form, Type};
//!
//! let Some(Type::Named(index)) = NFS3.named("COMMIT3args") else { panic!("it is described") };
//! let Form::Structure(members) = &NFS3.defined(*index).form else { panic!("it is a structure") };
//! let names: Vec<&str> = members.iter().map(|member| member.name).collect();
//! assert_eq!(names, ["file", "offset", "count"]);
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod language;
pub mod naming;
pub mod visit;

use alloc::boxed::Box;
use core::ops::Deref;
use language::Language;
use once_cell::race::OnceBox;

/// A description in the XDR language, parsed on first use. Threads that arrive before the first
/// parse is complete parse it too.
#[derive(Debug)]
pub struct Description {
    text: &'static str,
    rows: &'static [naming::Row],
    parsed: OnceBox<Language>,
}

impl Description {
    const fn new(text: &'static str, rows: &'static [naming::Row]) -> Description {
        Description { text, rows, parsed: OnceBox::new() }
    }
}

impl Deref for Description {
    type Target = Language;

    fn deref(&self) -> &Language {
        self.parsed.get_or_init(|| Box::new(Language::known(self.text, self.rows)))
    }
}

/// NFS version 2 (RFC 1094), and NFSACL version 2.
pub static NFS2: Description =
    Description::new(concat!(include_str!("nfs2.x"), include_str!("nfsacl.x")), naming::NFS2);

/// NFS version 3 (RFC 1813), and NFSACL version 3.
pub static NFS3: Description =
    Description::new(concat!(include_str!("nfs3.x"), include_str!("nfsacl.x")), naming::NFS3);

/// NFS version 4, minor versions 0 to 2 (RFC 7863, RFC 8275, RFC 8276, RFC 9754), and its
/// callbacks.
pub static NFS4: Description = Description::new(include_str!("nfs4.x"), naming::NFS4);

/// MOUNT, versions 1 and 3 (RFC 1094, appendix A; RFC 1813, appendix I).
pub static MOUNT: Description = Description::new(include_str!("mount.x"), naming::MOUNT);

/// The port mapper, and rpcbind versions 3 and 4 (RFC 1833).
pub static PORT_MAPPER: Description = Description::new(include_str!("portmapper.x"), naming::PORT_MAPPER);

/// The program number of callbacks in RFC 7863. Clients choose others.
pub const CALLBACK: u32 = 0x4000_0000;
