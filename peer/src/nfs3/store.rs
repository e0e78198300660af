//! A bounded file system in memory: files, directories, symbolic links and special files.

use super::types::{Attributes, FileType, SetAttributes, SetTime, Status, Time};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The limits of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most names in all directories.
    pub most_names: usize,
    /// Most bytes of one file.
    pub most_file: u64,
    /// Most bytes of all files.
    pub most_bytes: u64,
}

impl Default for Limits {
    /// 65,536 names; 256 MiB for one file and in total.
    fn default() -> Limits {
        Limits { most_names: 65_536, most_file: 256 << 20, most_bytes: 256 << 20 }
    }
}

/// Most bytes of a name.
pub(super) const MOST_NAME: usize = 255;
/// Most bytes of the text of a symbolic link.
pub(super) const MOST_PATH: usize = 1024;
/// Most names of one file.
pub(super) const MOST_LINKS: u32 = 1024;
/// The fileid of the root directory.
pub(super) const ROOT: Id = 1;
/// The first cookie in a directory after those of "." and "..".
const FIRST_COOKIE: u64 = 3;

/// The fileid of a file. It is never reused.
pub(super) type Id = u64;

/// The credential of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) gids: Vec<u32>,
}

/// Access rights, as the bits of one octal digit of a mode.
pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;
pub(super) const EXECUTE: u32 = 1;

#[derive(Debug, Default)]
pub(super) struct Directory {
    names: BTreeMap<Vec<u8>, (Id, u64)>,
    cookies: BTreeMap<u64, Vec<u8>>,
    parent: Id,
    last_cookie: u64,
}

impl Directory {
    /// Returns the entries in the order of their names.
    pub(super) fn names(&self) -> impl DoubleEndedIterator<Item = (&[u8], Id)> {
        self.names.iter().map(|(name, (id, _))| (&name[..], *id))
    }
}

#[derive(Debug)]
pub(super) enum Content {
    File(Vec<u8>),
    Directory(Directory),
    Link(Vec<u8>),
    Special(FileType, (u32, u32)),
}

#[derive(Debug)]
struct Inode {
    content: Content,
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    accessed: Time,
    modified: Time,
    changed: Time,
    /// createverf3 of an exclusive CREATE.
    verifier: Option<[u8; 8]>,
}

/// One name in a directory.
pub(super) struct Entry<'a> {
    pub(super) id: Id,
    pub(super) name: &'a [u8],
    pub(super) cookie: u64,
}

#[derive(Debug)]
pub(super) struct Store {
    pub(super) limits: Limits,
    inodes: BTreeMap<Id, Inode>,
    last: Id,
    pub(super) names: usize,
    pub(super) bytes: u64,
}

impl Store {
    /// Creates a root directory with write access for everyone.
    pub(super) fn new(limits: Limits, now: Time) -> Store {
        let root = Directory { parent: ROOT, last_cookie: FIRST_COOKIE - 1, ..Directory::default() };
        let mut store = Store { limits, inodes: BTreeMap::new(), last: 0, names: 0, bytes: 0 };
        store.insert(Content::Directory(root), &Who::default(), 0o777, now);
        store
    }

    fn insert(&mut self, content: Content, who: &Who, mode: u32, now: Time) -> Id {
        self.last += 1;
        let links = if matches!(content, Content::Directory(_)) { 2 } else { 1 };
        let inode = Inode {
            content,
            mode,
            links,
            uid: who.uid,
            gid: who.gid,
            accessed: now,
            modified: now,
            changed: now,
            verifier: None,
        };
        self.inodes.insert(self.last, inode);
        self.last
    }

    pub(super) fn contains(&self, id: Id) -> bool {
        self.inodes.contains_key(&id)
    }

    pub(super) fn content(&self, id: Id) -> Result<&Content, Status> {
        self.inodes.get(&id).map(|inode| &inode.content).ok_or(Status::Stale)
    }

    fn inode(&mut self, id: Id) -> Result<&mut Inode, Status> {
        self.inodes.get_mut(&id).ok_or(Status::Stale)
    }

    pub(super) fn directory(&self, id: Id) -> Result<&Directory, Status> {
        match self.content(id)? {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Status::NotDir),
        }
    }

    fn directory_mut(&mut self, id: Id) -> Result<&mut Directory, Status> {
        match &mut self.inode(id)?.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Status::NotDir),
        }
    }

    pub(super) fn attributes(&self, id: Id, fsid: u64) -> Option<Attributes> {
        let inode = self.inodes.get(&id)?;
        let (kind, size, device) = match &inode.content {
            Content::File(bytes) => (FileType::Regular, bytes.len() as u64, (0, 0)),
            Content::Directory(directory) => {
                (FileType::Directory, 32 * (2 + directory.names.len()) as u64, (0, 0))
            }
            Content::Link(path) => (FileType::Link, path.len() as u64, (0, 0)),
            Content::Special(kind, device) => (*kind, 0, *device),
        };
        Some(Attributes {
            kind,
            mode: inode.mode,
            links: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            size,
            used: size,
            device,
            fsid,
            fileid: id,
            accessed: inode.accessed,
            modified: inode.modified,
            changed: inode.changed,
        })
    }

    /// Returns the granted subset of `rights`, according to the mode bits.
    pub(super) fn rights(&self, id: Id, who: &Who, rights: u32) -> u32 {
        let Some(inode) = self.inodes.get(&id) else { return 0 };
        if who.uid == 0 {
            // Root may execute a file if anyone may.
            let none = !matches!(inode.content, Content::Directory(_)) && inode.mode & 0o111 == 0;
            return rights & if none { !EXECUTE } else { !0 };
        }
        let shift = if inode.uid == who.uid {
            6
        } else if inode.gid == who.gid || who.gids.contains(&inode.gid) {
            3
        } else {
            0
        };
        inode.mode >> shift & rights
    }

    /// Returns NFS3ERR_ACCES if the caller lacks one of these rights.
    pub(super) fn want(&self, id: Id, who: &Who, rights: u32) -> Result<(), Status> {
        if self.rights(id, who, rights) == rights { Ok(()) } else { Err(Status::Acces) }
    }

    /// Allows the owner of a file to read and write it regardless of its mode, because the client
    /// checked access at open (RFC 1813, section 4.4).
    pub(super) fn want_data(&self, id: Id, who: &Who, rights: u32) -> Result<(), Status> {
        let is_owner = self.inodes.get(&id).is_some_and(|inode| inode.uid == who.uid);
        if is_owner { Ok(()) } else { self.want(id, who, rights) }
    }

    pub(super) fn lookup(&self, directory: Id, name: &[u8], who: &Who) -> Result<Id, Status> {
        let entries = self.directory(directory)?;
        self.want(directory, who, EXECUTE)?;
        match name {
            b"." => Ok(directory),
            b".." => Ok(entries.parent),
            _ if name.len() > MOST_NAME => Err(Status::NameTooLong),
            _ => entries.names.get(name).map(|(id, _)| *id).ok_or(Status::NoEnt),
        }
    }

    /// Returns the entries after a cookie in order, "." and ".." first.
    pub(super) fn list(&self, id: Id, cookie: u64) -> Result<impl Iterator<Item = Entry<'_>>, Status> {
        let directory = self.directory(id)?;
        let dots = [(id, &b"."[..], 1), (directory.parent, &b".."[..], 2)];
        let dots = dots.into_iter().map(|(id, name, cookie)| Entry { id, name, cookie });
        let from = cookie.saturating_add(1);
        let named = directory.cookies.range(from..).filter_map(|(cookie, name)| {
            let (id, _) = directory.names.get(name)?;
            Some(Entry { id: *id, name, cookie: *cookie })
        });
        Ok(dots.filter(move |entry| entry.cookie > cookie).chain(named))
    }

    /// Checks whether a new name can be added to a directory.
    fn admits(&self, directory: Id, name: &[u8], who: &Who) -> Result<(), Status> {
        let entries = self.directory(directory)?;
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            return Err(Status::Inval);
        }
        if name.len() > MOST_NAME {
            return Err(Status::NameTooLong);
        }
        if name == b"." || name == b".." || entries.names.contains_key(name) {
            return Err(Status::Exist);
        }
        self.want(directory, who, WRITE | EXECUTE)
    }

    fn has_room(&self) -> Result<(), Status> {
        if self.names < self.limits.most_names { Ok(()) } else { Err(Status::NoSpc) }
    }

    /// Creates an object.
    pub(super) fn make(
        &mut self,
        directory: Id,
        name: &[u8],
        content: Content,
        (who, set, now): (&Who, &SetAttributes, Time),
    ) -> Result<Id, Status> {
        self.admits(directory, name, who)?;
        self.has_room()?;
        let (content, mode) = match content {
            Content::Directory(_) => {
                let new =
                    Directory { parent: directory, last_cookie: FIRST_COOKIE - 1, ..Directory::default() };
                (Content::Directory(new), 0o755)
            }
            Content::Link(path) => (Content::Link(path), 0o777),
            other => (other, 0o644),
        };
        let is_directory = matches!(content, Content::Directory(_));
        let id = self.insert(content, who, mode, now);
        if let Err(status) = self.set(id, who, set, now) {
            self.inodes.remove(&id);
            return Err(status);
        }
        self.name(directory, name, id, now)?;
        if is_directory {
            self.inode(directory)?.links += 1;
        }
        Ok(id)
    }

    /// Returns whether an exclusive CREATE with this verifier created the file.
    pub(super) fn is_made_with(&self, id: Id, verifier: [u8; 8]) -> bool {
        self.inodes.get(&id).is_some_and(|inode| inode.verifier == Some(verifier))
    }

    pub(super) fn made_with(&mut self, id: Id, verifier: [u8; 8]) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.verifier = Some(verifier);
        }
    }

    fn name(&mut self, directory: Id, name: &[u8], id: Id, now: Time) -> Result<(), Status> {
        let entries = self.directory_mut(directory)?;
        entries.last_cookie += 1;
        let cookie = entries.last_cookie;
        entries.names.insert(name.to_vec(), (id, cookie));
        entries.cookies.insert(cookie, name.to_vec());
        self.names += 1;
        self.touch(directory, now);
        Ok(())
    }

    fn unname(&mut self, directory: Id, name: &[u8], now: Time) -> Result<Id, Status> {
        let entries = self.directory_mut(directory)?;
        let (id, cookie) = entries.names.remove(name).ok_or(Status::NoEnt)?;
        entries.cookies.remove(&cookie);
        self.names -= 1;
        self.touch(directory, now);
        Ok(id)
    }

    /// Updates mtime and ctime.
    fn touch(&mut self, id: Id, now: Time) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            (inode.modified, inode.changed) = (now, now);
        }
    }

    fn unlink(&mut self, id: Id, now: Time) {
        let Some(inode) = self.inodes.get_mut(&id) else { return };
        inode.links = inode.links.saturating_sub(1);
        inode.changed = now;
        let is_over = inode.links == 0 || matches!(inode.content, Content::Directory(_));
        if is_over
            && let Some(gone) = self.inodes.remove(&id)
            && let Content::File(bytes) = gone.content
        {
            self.bytes -= bytes.len() as u64;
        }
    }

    /// REMOVE and RMDIR.
    pub(super) fn remove(
        &mut self,
        directory: Id,
        name: &[u8],
        wants_directory: bool,
        (who, now): (&Who, Time),
    ) -> Result<(), Status> {
        match name {
            b"." => return Err(Status::Inval),
            b".." => return Err(if wants_directory { Status::Exist } else { Status::Inval }),
            _ => {}
        }
        let id = self.lookup(directory, name, who)?;
        self.want(directory, who, WRITE | EXECUTE)?;
        match (self.content(id)?, wants_directory) {
            (Content::Directory(_), false) => return Err(Status::IsDir),
            (Content::Directory(found), true) if !found.names.is_empty() => return Err(Status::NotEmpty),
            (Content::Directory(_), true) => self.inode(directory)?.links -= 1,
            (_, true) => return Err(Status::NotDir),
            (_, false) => {}
        }
        self.unname(directory, name, now)?;
        self.unlink(id, now);
        Ok(())
    }

    /// RENAME (RFC 1813, section 3.3.14).
    pub(super) fn rename(
        &mut self,
        (from, old): (Id, &[u8]),
        (to, new): (Id, &[u8]),
        (who, now): (&Who, Time),
    ) -> Result<(), Status> {
        if [old, new].iter().any(|name| *name == b"." || *name == b"..") {
            return Err(Status::Inval);
        }
        let id = self.lookup(from, old, who)?;
        self.want(from, who, WRITE | EXECUTE)?;
        self.want(to, who, WRITE | EXECUTE)?;
        let is_directory = matches!(self.content(id)?, Content::Directory(_));
        // A directory cannot be moved below itself.
        let mut above = to;
        while is_directory && above != ROOT {
            if above == id {
                return Err(Status::Inval);
            }
            above = self.directory(above)?.parent;
        }
        match self.lookup(to, new, who) {
            Ok(target) if target == id => return Ok(()),
            Ok(target) => {
                if is_directory != matches!(self.content(target)?, Content::Directory(_)) {
                    return Err(Status::Exist);
                }
                self.remove(to, new, is_directory, (who, now))?;
            }
            Err(Status::NoEnt) => self.admits(to, new, who)?,
            Err(status) => return Err(status),
        }
        self.unname(from, old, now)?;
        self.name(to, new, id, now)?;
        self.inode(id)?.changed = now;
        if is_directory && from != to {
            self.inode(from)?.links -= 1;
            self.inode(to)?.links += 1;
            self.directory_mut(id)?.parent = to;
        }
        Ok(())
    }

    /// LINK.
    pub(super) fn link(
        &mut self,
        id: Id,
        (directory, name): (Id, &[u8]),
        (who, now): (&Who, Time),
    ) -> Result<(), Status> {
        if matches!(self.content(id)?, Content::Directory(_)) {
            return Err(Status::Inval);
        }
        self.admits(directory, name, who)?;
        self.has_room()?;
        let inode = self.inode(id)?;
        if inode.links >= MOST_LINKS {
            return Err(Status::MLink);
        }
        inode.links += 1;
        inode.changed = now;
        self.name(directory, name, id, now)
    }

    /// SETATTR, also for the attributes of a new object.
    pub(super) fn set(&mut self, id: Id, who: &Who, set: &SetAttributes, now: Time) -> Result<(), Status> {
        let inode = self.inodes.get(&id).ok_or(Status::Stale)?;
        let (is_owner, is_root) = (inode.uid == who.uid || who.uid == 0, who.uid == 0);
        let stranger_times =
            matches!(set.accessed, SetTime::Client(_)) || matches!(set.modified, SetTime::Client(_));
        if set.uid.is_some_and(|uid| uid != inode.uid) && !is_root
            || (set.mode.is_some() || stranger_times || set.gid.is_some_and(|gid| gid != inode.gid))
                && !is_owner
            || set.gid.is_some_and(|gid| gid != inode.gid && gid != who.gid && !who.gids.contains(&gid))
                && !is_root
        {
            return Err(Status::Perm);
        }
        if set.accessed == SetTime::Server || set.modified == SetTime::Server {
            self.want_data(id, who, WRITE)?;
        }
        if let Some(size) = set.size {
            self.want_data(id, who, WRITE)?;
            self.resize(id, size)?;
        }
        let inode = self.inode(id)?;
        if set.size.is_some() {
            inode.modified = now;
        }
        inode.mode = set.mode.map_or(inode.mode, |mode| mode & 0o7777);
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        for (place, time) in [(&mut inode.accessed, set.accessed), (&mut inode.modified, set.modified)] {
            match time {
                SetTime::Keep => {}
                SetTime::Server => *place = now,
                SetTime::Client(time) => *place = time,
            }
        }
        inode.changed = now;
        Ok(())
    }

    /// Changes the length of a file, filling it with zeros.
    fn resize(&mut self, id: Id, size: u64) -> Result<&mut Vec<u8>, Status> {
        let (limits, bytes) = (self.limits, self.bytes);
        let Content::File(data) = &mut self.inode(id)?.content else { return Err(Status::Inval) };
        if size > limits.most_file {
            return Err(Status::FBig);
        }
        let others = bytes - data.len() as u64;
        if others + size > limits.most_bytes && size > data.len() as u64 {
            return Err(Status::NoSpc);
        }
        data.resize(size as usize, 0);
        self.bytes = others + size;
        match &mut self.inode(id)?.content {
            Content::File(data) => Ok(data),
            _ => Err(Status::Inval),
        }
    }

    /// WRITE.
    pub(super) fn write(&mut self, id: Id, offset: u64, data: &[u8], now: Time) -> Result<(), Status> {
        let Content::File(file) = self.content(id)? else { return Err(Status::Inval) };
        if !data.is_empty() {
            let end = offset.checked_add(data.len() as u64).ok_or(Status::FBig)?;
            let size = end.max(file.len() as u64);
            let file = self.resize(id, size)?;
            file[offset as usize..end as usize].copy_from_slice(data);
            self.touch(id, now);
        }
        Ok(())
    }
}
