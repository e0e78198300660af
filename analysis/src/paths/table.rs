//! The files and names of a capture.

use core::hash::{BuildHasher as _, Hash};
use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashTable};
use rdmascope_dissector::frame::Address;

/// The most files, and the most names.
const MOST: usize = 1 << 18;
/// The most bytes of handles and names.
const MOST_BYTES: usize = 32 << 20;
/// The most directories above a file. A deeper path is useless to a reader.
pub(super) const DEEPEST: usize = 64;

/// A file, with or without a known handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct File(u32);

/// A server with its own file handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server(u16);

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    files: Vec<Known>,
    by_handle: HashTable<File>,
    entries: Vec<Name>,
    by_name: HashTable<Entry>,
    servers: HashMap<Address, Server, FixedState>,
    /// The bytes of handles and names.
    bytes: Vec<u8>,
    /// The number of times that a file got its first name, or turned out to be a root.
    pub(super) shown: u64,
    pub(super) left_out: u64,
}

/// A file.
#[derive(Clone, Copy, Debug)]
struct Known {
    server: Server,
    /// Empty if it was not shown, as for the root, and for directories that a COMPOUND passes
    /// through.
    handle: Span,
    is_root: bool,
    /// The first captured name.
    first: Option<Entry>,
    /// The current name, since the last rewind.
    now: Option<Entry>,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
struct Name {
    directory: File,
    name: Span,
    /// The first file with this name.
    first: Option<File>,
    now: Now,
}

/// The file that currently has a name.
#[derive(Clone, Copy, Debug)]
enum Now {
    /// The first file, because nothing was shown since the last rewind.
    AsBefore,
    /// This file.
    Has(File),
    /// No file.
    Gone,
}

/// A range in [`Table::bytes`].
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    length: u16,
}

impl Table {
    pub(super) fn rewind(&mut self) {
        self.files.iter_mut().for_each(|file| file.now = None);
        self.entries.iter_mut().for_each(|entry| entry.now = Now::AsBefore);
    }

    /// The server with this address, unless there are too many.
    pub(super) fn server(&mut self, address: Address) -> Option<Server> {
        if let Some(server) = self.servers.get(&address) {
            return Some(*server);
        }
        let Ok(number) = u16::try_from(self.servers.len()) else {
            self.left_out += 1;
            return None;
        };
        self.servers.insert(address, Server(number));
        Some(Server(number))
    }

    /// The root of a server's name space.
    pub(super) fn root(&mut self, server: Server) -> Option<File> {
        let file = self.of_handle(server, &[])?;
        self.set_root(file);
        Some(file)
    }

    /// The file with this handle. An empty handle, which no file has, represents the root.
    pub(super) fn of_handle(&mut self, server: Server, handle: &[u8]) -> Option<File> {
        let hash = hash((server, handle));
        if let Some(file) = self.by_handle.find(hash, |file| self.is(*file, server, handle)) {
            return Some(*file);
        }
        let file = self.add(server, handle)?;
        self.index_handle(hash, file);
        Some(file)
    }

    /// The file with this handle, if it is known already.
    pub(super) fn known(&self, address: Address, handle: &[u8]) -> Option<File> {
        let server = *self.servers.get(&address)?;
        self.by_handle.find(hash((server, handle)), |file| self.is(*file, server, handle)).copied()
    }

    /// The entry of a name in this directory.
    pub(super) fn entry(&mut self, directory: File, name: &[u8]) -> Option<Entry> {
        let hash = hash((directory.0, name));
        let Table { entries, by_name, bytes, .. } = self;
        let is_it = |entry: &Entry| {
            let known = &entries[entry.0 as usize];
            known.directory == directory && known.name.of(bytes) == name
        };
        if let Some(entry) = by_name.find(hash, is_it) {
            return Some(*entry);
        }
        let name = self.keep(name, self.entries.len())?;
        let Table { entries, by_name, bytes, .. } = self;
        let entry = Entry(entries.len() as u32);
        entries.push(Name { directory, name, first: None, now: Now::AsBefore });
        by_name.insert_unique(hash, entry, |entry| {
            let known = &entries[entry.0 as usize];
            self::hash((known.directory.0, known.name.of(bytes)))
        });
        Some(entry)
    }

    /// The file with this name. If none is known, a new one without a handle is added.
    pub(super) fn child(&mut self, server: Server, directory: File, name: &[u8]) -> Option<File> {
        match name {
            b"." => return Some(directory),
            b".." => return self.directory(directory),
            _ => {}
        }
        let entry = self.entry(directory, name)?;
        if let Some(file) = self.entries[entry.0 as usize].file() {
            self.name(file, entry);
            return Some(file);
        }
        let file = self.add(server, &[])?;
        self.name(file, entry);
        Some(file)
    }

    /// The directory of a file.
    pub(super) fn directory(&self, file: File) -> Option<File> {
        self.name_of(file).map(|name| name.directory)
    }

    /// Makes this the current name of a file.
    pub(super) fn name(&mut self, file: File, entry: Entry) {
        self.files[file.0 as usize].now = Some(entry);
        self.link(file, entry);
    }

    /// Adds a name to a file. It becomes the file's first name if it has none.
    pub(super) fn link(&mut self, file: File, entry: Entry) {
        self.show(file, entry);
        let name = &mut self.entries[entry.0 as usize];
        name.first.get_or_insert(file);
        name.now = Now::Has(file);
    }

    /// Removes the file of a name. The file keeps the name, because no other one is known.
    pub(super) fn unlink(&mut self, entry: Entry) {
        self.entries[entry.0 as usize].now = Now::Gone;
    }

    /// Sets the handle of a file that was found by name.
    pub(super) fn bind(&mut self, file: File, server: Server, handle: &[u8]) {
        if handle.is_empty() || self.is(file, server, handle) {
            return;
        }
        let hash = hash((server, handle));
        let found = self.by_handle.find(hash, |known| self.is(*known, server, handle)).copied();
        let Known { handle: own, is_root, first, now, .. } = self.files[file.0 as usize];
        let holder = match found {
            Some(found) => found,
            // The root is also found by its empty handle.
            None if own.length == 0 && !is_root => {
                let Some(kept) = self.keep(handle, 0) else { return };
                self.files[file.0 as usize].handle = kept;
                self.index_handle(hash, file);
                return;
            }
            // The name belongs to another file now.
            None => {
                let Some(file) = self.add(server, handle) else { return };
                self.index_handle(hash, file);
                file
            }
        };
        if is_root {
            self.set_root(holder);
        }
        if own.length == 0 {
            // A file that was added for its name is this file, so its names move to it.
            if let Some(first) = first {
                self.show(holder, first);
            }
            for entry in [first, now].into_iter().flatten() {
                let name = &mut self.entries[entry.0 as usize];
                name.first = name.first.map(|known| if known == file { holder } else { known });
            }
        }
        if let Some(entry) = now.or(first) {
            self.name(holder, entry);
        }
    }

    /// Writes the path of a file. Returns whether it has one.
    pub(super) fn write(&self, file: File, path: &mut Vec<u8>) -> bool {
        self.write_by(|known| known.now.or(known.first), file, path)
    }

    /// Writes the path of a file by the first captured names. Returns whether it has one.
    pub(super) fn write_first(&self, file: File, path: &mut Vec<u8>) -> bool {
        self.write_by(|known| known.first, file, path)
    }

    /// The start of a file's path, if it is not the root: the uppermost directory, or the file,
    /// without a known name.
    pub(super) fn top(&self, file: File) -> Option<File> {
        self.top_by(|known| known.now.or(known.first), file)
    }

    /// The start of a file's path by the first captured names, if it is not the root.
    pub(super) fn first_top(&self, file: File) -> Option<File> {
        self.top_by(|known| known.first, file)
    }

    /// Whether a file has a name, or is the root.
    pub(super) fn is_shown(&self, file: File) -> bool {
        let known = &self.files[file.0 as usize];
        known.first.is_some() || known.is_root
    }

    fn top_by(&self, entry_of: impl Fn(&Known) -> Option<Entry>, file: File) -> Option<File> {
        let mut at = file;
        for _ in 0..DEEPEST {
            let known = &self.files[at.0 as usize];
            match entry_of(known) {
                Some(entry) => at = self.entries[entry.0 as usize].directory,
                None => return (!known.is_root).then_some(at),
            }
        }
        None
    }

    fn write_by(&self, entry_of: impl Fn(&Known) -> Option<Entry>, file: File, path: &mut Vec<u8>) -> bool {
        let mut names: [Option<(File, Span)>; DEEPEST] = [None; DEEPEST];
        let mut at = file;
        let mut depth = 0;
        while let (Some(entry), true) = (entry_of(&self.files[at.0 as usize]), depth < DEEPEST) {
            // A server may use one handle for two files. Their directories form a circle then.
            if names[..depth].iter().flatten().any(|(below, _)| *below == at) {
                break;
            }
            let name = &self.entries[entry.0 as usize];
            names[depth] = Some((at, name.name));
            at = name.directory;
            depth += 1;
        }
        let is_root = depth < DEEPEST && self.files[at.0 as usize].is_root;
        if is_root {
            path.push(b'/');
        }
        for (index, (_, name)) in names[..depth].iter().rev().flatten().enumerate() {
            if index > 0 {
                path.push(b'/');
            }
            push_name(name.of(&self.bytes), path);
        }
        is_root || depth > 0
    }

    /// The number of files.
    #[cfg(test)]
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    fn name_of(&self, file: File) -> Option<&Name> {
        let known = &self.files[file.0 as usize];
        known.now.or(known.first).map(|entry| &self.entries[entry.0 as usize])
    }

    /// Sets the first name of a file, if it has none.
    fn show(&mut self, file: File, entry: Entry) {
        let Table { files, shown, .. } = self;
        files[file.0 as usize].first.get_or_insert_with(|| {
            *shown += 1;
            entry
        });
    }

    fn set_root(&mut self, file: File) {
        let known = &mut self.files[file.0 as usize];
        self.shown += u64::from(!known.is_root);
        known.is_root = true;
    }

    fn is(&self, file: File, server: Server, handle: &[u8]) -> bool {
        let known = &self.files[file.0 as usize];
        known.server == server && known.handle.of(&self.bytes) == handle
    }

    fn add(&mut self, server: Server, handle: &[u8]) -> Option<File> {
        let handle = self.keep(handle, self.files.len())?;
        let file = File(self.files.len() as u32);
        self.files.push(Known { server, handle, is_root: false, first: None, now: None });
        Some(file)
    }

    fn index_handle(&mut self, hash: u64, file: File) {
        let Table { files, by_handle, bytes, .. } = self;
        by_handle.insert_unique(hash, file, |file| {
            let known = &files[file.0 as usize];
            self::hash((known.server, known.handle.of(bytes)))
        });
    }

    /// Stores bytes for one entry more than `count`, if there is room.
    fn keep(&mut self, bytes: &[u8], count: usize) -> Option<Span> {
        let length = u16::try_from(bytes.len()).ok();
        let has_room = count < MOST && self.bytes.len() + bytes.len() <= MOST_BYTES;
        let Some(length) = length.filter(|_| has_room) else {
            self.left_out += 1;
            return None;
        };
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        Some(Span { start, length })
    }
}

impl Name {
    fn file(&self) -> Option<File> {
        match self.now {
            Now::AsBefore => self.first,
            Now::Has(file) => Some(file),
            Now::Gone => None,
        }
    }
}

impl Span {
    fn of(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &bytes[start..start + usize::from(self.length)]
    }
}

/// Appends a name. A `/` in it is escaped, because it would split the name.
pub(super) fn push_name(name: &[u8], path: &mut Vec<u8>) {
    for byte in name {
        match byte {
            b'/' => path.extend_from_slice(br"\x2f"),
            byte => path.push(*byte),
        }
    }
}

fn hash(key: impl Hash) -> u64 {
    FixedState::with_seed(0).hash_one(key)
}
