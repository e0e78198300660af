//! Numbers and small structures of NFS version 3 (RFC 1813, sections 2.5 and 2.6).

use alloc::vec::Vec;
use rdmascope_wire::xdr::{Reader, put_opaque, put_u32, put_u64};
use rdmascope_wire::{Layer, Stop};

/// The longest file handle, in bytes: NFS3_FHSIZE.
pub const MOST_HANDLE: usize = 64;

/// Declares an enum of numbers from a specification.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident { $($(#[$note:meta])* $variant:ident = $number:literal $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum $name { $($(#[$note])* $variant = $number,)* }

        impl $name {
            /// All values, in the order of the specification.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// Returns the value with this number.
            pub const fn from_number(number: u32) -> Option<$name> {
                match number {
                    $($number => Some($name::$variant),)*
                    _ => None,
                }
            }

            /// Returns its number.
            pub const fn number(self) -> u32 {
                self as u32
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(match self { $($name::$variant => $text,)* })
            }
        }
    };
}
pub(super) use numbers;

numbers! {
    /// The procedures (section 3.3).
    #[allow(missing_docs)]
    Procedure {
        Null = 0 "NULL",
        Getattr = 1 "GETATTR",
        Setattr = 2 "SETATTR",
        Lookup = 3 "LOOKUP",
        Access = 4 "ACCESS",
        Readlink = 5 "READLINK",
        Read = 6 "READ",
        Write = 7 "WRITE",
        Create = 8 "CREATE",
        Mkdir = 9 "MKDIR",
        Symlink = 10 "SYMLINK",
        Mknod = 11 "MKNOD",
        Remove = 12 "REMOVE",
        Rmdir = 13 "RMDIR",
        Rename = 14 "RENAME",
        Link = 15 "LINK",
        Readdir = 16 "READDIR",
        Readdirplus = 17 "READDIRPLUS",
        Fsstat = 18 "FSSTAT",
        Fsinfo = 19 "FSINFO",
        Pathconf = 20 "PATHCONF",
        Commit = 21 "COMMIT",
    }
}

impl Procedure {
    /// Returns whether a repeated execution may have another result.
    pub const fn is_non_idempotent(self) -> bool {
        use Procedure::*;
        matches!(self, Setattr | Create | Mkdir | Symlink | Mknod | Remove | Rmdir | Rename | Link)
    }
}

numbers! {
    /// nfsstat3 (section 2.6).
    #[allow(missing_docs)]
    Status {
        Ok = 0 "NFS3_OK",
        Perm = 1 "NFS3ERR_PERM",
        NoEnt = 2 "NFS3ERR_NOENT",
        Io = 5 "NFS3ERR_IO",
        Nxio = 6 "NFS3ERR_NXIO",
        Acces = 13 "NFS3ERR_ACCES",
        Exist = 17 "NFS3ERR_EXIST",
        Xdev = 18 "NFS3ERR_XDEV",
        NoDev = 19 "NFS3ERR_NODEV",
        NotDir = 20 "NFS3ERR_NOTDIR",
        IsDir = 21 "NFS3ERR_ISDIR",
        Inval = 22 "NFS3ERR_INVAL",
        FBig = 27 "NFS3ERR_FBIG",
        NoSpc = 28 "NFS3ERR_NOSPC",
        Rofs = 30 "NFS3ERR_ROFS",
        MLink = 31 "NFS3ERR_MLINK",
        NameTooLong = 63 "NFS3ERR_NAMETOOLONG",
        NotEmpty = 66 "NFS3ERR_NOTEMPTY",
        DQuot = 69 "NFS3ERR_DQUOT",
        Stale = 70 "NFS3ERR_STALE",
        Remote = 71 "NFS3ERR_REMOTE",
        BadHandle = 10001 "NFS3ERR_BADHANDLE",
        NotSync = 10002 "NFS3ERR_NOT_SYNC",
        BadCookie = 10003 "NFS3ERR_BAD_COOKIE",
        NotSupp = 10004 "NFS3ERR_NOTSUPP",
        TooSmall = 10005 "NFS3ERR_TOOSMALL",
        ServerFault = 10006 "NFS3ERR_SERVERFAULT",
        BadType = 10007 "NFS3ERR_BADTYPE",
        Jukebox = 10008 "NFS3ERR_JUKEBOX",
    }
}

numbers! {
    /// ftype3 (section 2.5).
    #[allow(missing_docs)]
    FileType {
        Regular = 1 "NF3REG",
        Directory = 2 "NF3DIR",
        Block = 3 "NF3BLK",
        Character = 4 "NF3CHR",
        Link = 5 "NF3LNK",
        Socket = 6 "NF3SOCK",
        Fifo = 7 "NF3FIFO",
    }
}

/// nfstime3: a time since 1970-01-01, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub seconds: u32,
    /// Nanoseconds, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Time {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Time, Stop> {
        Ok(Time { seconds: reader.u32()?, nanoseconds: reader.u32()? })
    }

    pub(super) fn build(self, out: &mut Vec<u8>) {
        put_u32(out, self.seconds);
        put_u32(out, self.nanoseconds);
    }
}

/// fattr3 (section 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// type.
    pub kind: FileType,
    /// mode: the permission bits.
    pub mode: u32,
    /// nlink.
    pub links: u32,
    /// uid.
    pub uid: u32,
    /// gid.
    pub gid: u32,
    /// size, in bytes.
    pub size: u64,
    /// used: bytes of storage.
    pub used: u64,
    /// rdev, of a device.
    pub device: (u32, u32),
    /// fsid.
    pub fsid: u64,
    /// fileid.
    pub fileid: u64,
    /// atime.
    pub accessed: Time,
    /// mtime.
    pub modified: Time,
    /// ctime.
    pub changed: Time,
}

impl Attributes {
    /// Its length in bytes.
    pub const LENGTH: usize = 84;

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Attributes, Stop> {
        Ok(Attributes {
            kind: numbered(reader, FileType::from_number)?,
            mode: reader.u32()?,
            links: reader.u32()?,
            uid: reader.u32()?,
            gid: reader.u32()?,
            size: reader.u64()?,
            used: reader.u64()?,
            device: (reader.u32()?, reader.u32()?),
            fsid: reader.u64()?,
            fileid: reader.u64()?,
            accessed: Time::parse(reader)?,
            modified: Time::parse(reader)?,
            changed: Time::parse(reader)?,
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        for word in [self.kind.number(), self.mode, self.links, self.uid, self.gid] {
            put_u32(out, word);
        }
        put_u64(out, self.size);
        put_u64(out, self.used);
        put_u32(out, self.device.0);
        put_u32(out, self.device.1);
        put_u64(out, self.fsid);
        put_u64(out, self.fileid);
        for time in [self.accessed, self.modified, self.changed] {
            time.build(out);
        }
    }

    /// post_op_attr.
    pub(super) fn parse_optional(reader: &mut Reader<'_>) -> Result<Option<Attributes>, Stop> {
        reader.bool()?.then(|| Attributes::parse(reader)).transpose()
    }

    /// Parses wcc_data. Returns the attributes after the operation.
    pub(super) fn parse_after(reader: &mut Reader<'_>) -> Result<Option<Attributes>, Stop> {
        if reader.bool()? {
            // wcc_attr: size, mtime, ctime.
            reader.skip(24)?;
        }
        Attributes::parse_optional(reader)
    }
}

/// One of the times in sattr3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetTime {
    /// DONT_CHANGE.
    #[default]
    Keep,
    /// SET_TO_SERVER_TIME.
    Server,
    /// SET_TO_CLIENT_TIME.
    Client(Time),
}

/// sattr3: the attributes to set (section 2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// mode.
    pub mode: Option<u32>,
    /// uid.
    pub uid: Option<u32>,
    /// gid.
    pub gid: Option<u32>,
    /// size, in bytes.
    pub size: Option<u64>,
    /// atime.
    pub accessed: SetTime,
    /// mtime.
    pub modified: SetTime,
}

impl SetAttributes {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<SetAttributes, Stop> {
        fn word(reader: &mut Reader<'_>) -> Result<Option<u32>, Stop> {
            reader.bool()?.then(|| reader.u32()).transpose()
        }
        fn time(reader: &mut Reader<'_>) -> Result<SetTime, Stop> {
            let at = reader.position();
            match reader.u32()? {
                0 => Ok(SetTime::Keep),
                1 => Ok(SetTime::Server),
                2 => Ok(SetTime::Client(Time::parse(reader)?)),
                _ => Err(Stop::malformed(reader.layer(), at)),
            }
        }
        Ok(SetAttributes {
            mode: word(reader)?,
            uid: word(reader)?,
            gid: word(reader)?,
            size: reader.bool()?.then(|| reader.u64()).transpose()?,
            accessed: time(reader)?,
            modified: time(reader)?,
        })
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        for word in [self.mode, self.uid, self.gid] {
            put_u32(out, word.is_some().into());
            word.into_iter().for_each(|word| put_u32(out, word));
        }
        put_u32(out, self.size.is_some().into());
        self.size.into_iter().for_each(|size| put_u64(out, size));
        for time in [self.accessed, self.modified] {
            match time {
                SetTime::Keep => put_u32(out, 0),
                SetTime::Server => put_u32(out, 1),
                SetTime::Client(time) => {
                    put_u32(out, 2);
                    time.build(out);
                }
            }
        }
    }
}

/// A file handle: opaque bytes, [`MOST_HANDLE`] at most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(Vec<u8>);

impl Handle {
    /// Creates a handle. Returns `None` for more than [`MOST_HANDLE`] bytes.
    pub fn new(bytes: &[u8]) -> Option<Handle> {
        (bytes.len() <= MOST_HANDLE).then(|| Handle(bytes.to_vec()))
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Handle, Stop> {
        let at = reader.position();
        Handle::new(reader.opaque()?).ok_or_else(|| Stop::malformed(reader.layer(), at))
    }

    /// post_op_fh3.
    pub(super) fn parse_optional(reader: &mut Reader<'_>) -> Result<Option<Handle>, Stop> {
        reader.bool()?.then(|| Handle::parse(reader)).transpose()
    }

    pub(super) fn build(&self, out: &mut Vec<u8>) {
        put_opaque(out, &self.0);
    }
}

/// Reads a word that must be a number of the enum.
pub(super) fn numbered<T>(reader: &mut Reader<'_>, from: fn(u32) -> Option<T>) -> Result<T, Stop> {
    let at = reader.position();
    from(reader.u32()?).ok_or_else(|| Stop::malformed(reader.layer(), at))
}

/// Returns a reader of arguments or results.
pub(super) fn reader(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes, Layer::UpperLayer)
}
