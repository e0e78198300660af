//! The XDR language, and the descriptions of NFS in it.
//!
//! `nfs3.x` and `nfs4.x` stand in the XDR language, as in the RFCs. They are the one place where the types of arguments and results are described. Each is parsed
//! once, when it is first asked for ([`language`]). The texts are part of the program, so a mistake in one panics, and the tests find it.
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

pub mod language;

use language::Language;
use std::sync::LazyLock;

/// NFS version 3 (RFC 1813), and NFSACL version 3.
pub static NFS3: LazyLock<Language> = LazyLock::new(|| Language::known(include_str!("nfs3.x")));

/// NFS version 4, minor versions 0 to 2 (RFC 7863, RFC 8275, RFC 8276, RFC 9754), and its callbacks.
pub static NFS4: LazyLock<Language> = LazyLock::new(|| Language::known(include_str!("nfs4.x")));

/// The program number of callbacks in RFC 7863: clients choose others.
pub const CALLBACK: u32 = 0x4000_0000;
