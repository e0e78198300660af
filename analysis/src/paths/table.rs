//! Files and names: which name in which directory has which file.

use core::hash::{BuildHasher as _, Hash};
use foldhash::quality::FixedState;
use hashbrown::{HashMap, HashTable};
use rdmascope_dissector::frame::Address;

/// Files that are known at once, and names.
const MOST: usize = 1 << 18;
/// Bytes of their handles and names.
const MOST_BYTES: usize = 32 << 20;
/// Directories above a file. More than that is a circle, or nothing that a person reads.
pub(super) const DEEPEST: usize = 64;

/// Which file it is, with or without a known handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct File(u32);

/// Which server a handle means something to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server(u16);

/// Which name in which directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u32);

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    files: Vec<Known>,
    by_handle: HashTable<File>,
    entries: Vec<Name>,
    by_name: HashTable<Entry>,
    servers: HashMap<Address, Server, FixedState>,
    /// Handles and names.
    bytes: Vec<u8>,
    /// How often a file got its first name, or was shown to be a root.
    pub(super) shown: u64,
    pub(super) left_out: u64,
}

/// A file.
#[derive(Clone, Copy, Debug)]
struct Known {
    server: Server,
    /// Empty where it was not shown: of the root, and of directories on the way of a COMPOUND.
    handle: Span,
    is_root: bool,
    /// The name under which it was shown first.
    first: Option<Entry>,
    /// The name that it has now, since the last rewind.
    now: Option<Entry>,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
struct Name {
    directory: File,
    name: Span,
    /// The file that had it first.
    first: Option<File>,
    now: Now,
}

/// Which file has a name.
#[derive(Clone, Copy, Debug)]
enum Now {
    /// Nothing was shown since the last rewind.
    AsBefore,
    /// This one.
    Has(File),
    /// None.
    Gone,
}

/// A range of the bytes.
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

    /// The file with this handle. An empty handle, which no file has, stands for the root.
    pub(super) fn of_handle(&mut self, server: Server, handle: &[u8]) -> Option<File> {
        let hash = hash((server, handle));
        if let Some(file) = self.by_handle.find(hash, |file| self.is(*file, server, handle)) {
            return Some(*file);
        }
        let file = self.add(server, handle)?;
        self.index_handle(hash, file);
        Some(file)
    }

    /// The same, of what is known already.
    pub(super) fn known(&self, address: Address, handle: &[u8]) -> Option<File> {
        let server = *self.servers.get(&address)?;
        self.by_handle.find(hash((server, handle)), |file| self.is(*file, server, handle)).copied()
    }

    /// The name in this directory.
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

    /// The file that this name leads to, a new one without a handle if none is known.
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

    /// The directory that a file is in.
    pub(super) fn directory(&self, file: File) -> Option<File> {
        self.name_of(file).map(|name| name.directory)
    }

    /// Gives a file a name.
    pub(super) fn name(&mut self, file: File, entry: Entry) {
        self.files[file.0 as usize].now = Some(entry);
        self.link(file, entry);
    }

    /// Lets a name lead to a file, which keeps the name that it has, if it has one.
    pub(super) fn link(&mut self, file: File, entry: Entry) {
        self.show(file, entry);
        let name = &mut self.entries[entry.0 as usize];
        name.first.get_or_insert(file);
        name.now = Now::Has(file);
    }

    /// Lets a name lead nowhere. What had it keeps it: there is no other one to show.
    pub(super) fn unlink(&mut self, entry: Entry) {
        self.entries[entry.0 as usize].now = Now::Gone;
    }

    /// Says that the file that a name led to has this handle.
    pub(super) fn bind(&mut self, file: File, server: Server, handle: &[u8]) {
        if handle.is_empty() || self.is(file, server, handle) {
            return;
        }
        let hash = hash((server, handle));
        let found = self.by_handle.find(hash, |known| self.is(*known, server, handle)).copied();
        let Known { handle: own, is_root, first, now, .. } = self.files[file.0 as usize];
        let holder = match found {
            Some(found) => found,
            // The root is found by its empty handle, too.
            None if own.length == 0 && !is_root => {
                let Some(kept) = self.keep(handle, 0) else { return };
                self.files[file.0 as usize].handle = kept;
                self.index_handle(hash, file);
                return;
            }
            // Another file has the name now.
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
            // What was made for a name alone is that file, and had the names that it had.
            if let Some(first) = first {
                self.show(holder, first);
            }
            for entry in [first, now].into_iter().flatten() {
                let name = &mut self.entries[entry.0 as usize];
                name.first = name.first.map(|had| if had == file { holder } else { had });
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

    /// The same with the names that were shown first.
    pub(super) fn write_first(&self, file: File, path: &mut Vec<u8>) -> bool {
        self.write_by(|known| known.first, file, path)
    }

    /// Where the path of a file begins, if that is not the root: the uppermost directory, or the file, whose name is not known.
    pub(super) fn top(&self, file: File) -> Option<File> {
        self.top_by(|known| known.now.or(known.first), file)
    }

    /// The same with the names that were shown first.
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
        let mut names = [None; DEEPEST];
        let mut at = file;
        let mut depth = 0;
        while let (Some(entry), true) = (entry_of(&self.files[at.0 as usize]), depth < DEEPEST) {
            let name = &self.entries[entry.0 as usize];
            names[depth] = Some(name.name);
            at = name.directory;
            depth += 1;
        }
        let is_root = depth < DEEPEST && self.files[at.0 as usize].is_root;
        if is_root {
            path.push(b'/');
        }
        for (index, name) in names[..depth].iter().rev().flatten().enumerate() {
            if index > 0 {
                path.push(b'/');
            }
            push_name(name.of(&self.bytes), path);
        }
        is_root || depth > 0
    }

    /// How many files there are.
    #[cfg(test)]
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }

    fn name_of(&self, file: File) -> Option<&Name> {
        let known = &self.files[file.0 as usize];
        known.now.or(known.first).map(|entry| &self.entries[entry.0 as usize])
    }

    /// Gives a file a name, if it has none.
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

    /// Keeps bytes for one more than `count`, if there is room.
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

/// Appends a name. A `/` in it would make two of it.
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
