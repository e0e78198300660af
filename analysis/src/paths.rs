//! The paths of files in a capture. LOOKUP, OPEN, CREATE, READDIR and similar operations show which
//! file handle a name in a directory has; RENAME and REMOVE change that.
//!
//! [`Paths::take`] learns names from the successful operations of a transaction, and stores the
//! files of all its operations. A capture that begins in the middle of a session uses file handles
//! before it shows their names. Callers that can read it twice call [`Paths::rewind`] in between:
//! then each file has its first captured name until a RENAME. Other callers store the start of an
//! incomplete path ([`Unnamed`]), and call [`Paths::learned`] later.

mod glob;
mod table;
#[cfg(test)]
mod tests;

pub use glob::FilePattern;

use crate::capture_points::Split;
use core::ops::Deref;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::ulb::{self, Details, Nfs2, Nfs3, Nfs4, Operation, OperationKind, Text};
use table::{Entry, Server, Table};

/// File handles and their names. At most 262,144 files and 262,144 names are kept.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    table: Table,
    /// The files of the latest transaction's operations.
    latest: Vec<About>,
}

/// The files of an operation.
#[derive(Clone, Copy, Debug, Default)]
struct About {
    file: Option<Place>,
    /// The new name of RENAME and LINK, and the destination of COPY and CLONE.
    other: Option<Place>,
}

/// The start of an incomplete path: a file or directory without a known name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unnamed(table::File);

/// A path that became known for an [`Unnamed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The file or directory.
    pub of: Unnamed,
    /// Its path, by the first captured names.
    pub path: Box<[u8]>,
    /// The start of that path, if it does not begin at the root.
    pub above: Option<Unnamed>,
}

impl Learned {
    /// Extends `path`, which began below [`Learned::of`]; `None` means that file or directory
    /// itself. Returns `None` if the result would be too deep. The path stays as it is then.
    pub fn join(&self, path: Option<&[u8]>) -> Option<Box<[u8]>> {
        let (Some(path), [start @ .., last]) = (path, &*self.path) else { return Some(self.path.clone()) };
        let start = if *last == b'/' { start } else { &self.path };
        let slashes = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count();
        (slashes(start) + slashes(path) + 1 < table::DEEPEST).then(|| [start, path].join(&b'/').into())
    }
}

/// A file, or a name in a directory, which need not lead to a file.
#[derive(Clone, Copy, Debug)]
enum Place {
    File(table::File),
    Name(table::File, Text),
}

impl Paths {
    /// Creates an empty table.
    pub fn new() -> Paths {
        Paths::default()
    }

    /// Learns from the successful operations, and stores the files of all operations for
    /// [`Paths::file`] and [`Paths::other_file`] until the next call.
    pub fn take(&mut self, transaction: &Transaction) {
        self.latest.clear();
        let Paths { table, latest } = self;
        let server = server(transaction).and_then(|address| table.server(address));
        let (Some(server), Some(procedure)) = (server, transaction.procedure) else { return };
        let mut walk = Walk { table, details: &transaction.details, server, current: None, saved: None };
        for operation in &transaction.details.operations {
            latest.push(match procedure.is_compound() {
                true => walk.compound(operation),
                false => walk.procedure(operation),
            });
        }
    }

    /// Restarts with the known names: each file has its first captured name.
    pub fn rewind(&mut self) {
        self.latest.clear();
        self.table.rewind();
    }

    /// The number of file handles and names that were left out because the table was full.
    pub fn left_out(&self) -> u64 {
        self.table.left_out
    }

    /// Writes to `path` the path of the file of operation `index` of `transaction`, the last one
    /// taken. Returns whether it is known.
    ///
    /// A path begins with `/` if the capture shows the root of the server's name space; otherwise
    /// it begins at the uppermost directory with a known name. A `/` in a name, which is not
    /// allowed there, is written as `\x2f`.
    pub fn file(&self, transaction: &Transaction, index: usize, path: &mut Vec<u8>) -> bool {
        self.write(transaction, self.latest.get(index).and_then(|about| about.file), path)
    }

    /// Writes to `path` the path of the second file of an operation: the new name of RENAME and
    /// LINK, or the destination of COPY and CLONE. Returns whether it is known.
    pub fn other_file(&self, transaction: &Transaction, index: usize, path: &mut Vec<u8>) -> bool {
        self.write(transaction, self.latest.get(index).and_then(|about| about.other), path)
    }

    /// Writes to `path` the current path of the file with this handle at this server. Returns
    /// whether it is known.
    pub fn of_handle(&self, server: Address, handle: &[u8], path: &mut Vec<u8>) -> bool {
        path.clear();
        let file = self.table.known(server, handle).filter(|_| !handle.is_empty());
        file.is_some_and(|file| self.table.write(file, path))
    }

    /// The start of the path of operation `index` of the last transaction, if it is not the root;
    /// with `second`, of the path of its second file.
    pub fn unnamed(&self, index: usize, second: bool) -> Option<Unnamed> {
        let about = self.latest.get(index)?;
        let (Place::File(file) | Place::Name(file, _)) = if second { about.other? } else { about.file? };
        self.table.top(file).map(Unnamed)
    }

    /// The path that became known for `of`, if any.
    pub fn learned(&self, of: Unnamed) -> Option<Learned> {
        let mut path = Vec::new();
        let is_known = self.table.is_shown(of.0) && self.table.write_first(of.0, &mut path);
        is_known.then(|| Learned { of, path: path.into(), above: self.table.first_top(of.0).map(Unnamed) })
    }

    /// A number that grows when [`Paths::learned`] may have news.
    pub fn shown(&self) -> u64 {
        self.table.shown
    }

    fn write(&self, transaction: &Transaction, place: Option<Place>, path: &mut Vec<u8>) -> bool {
        path.clear();
        match place {
            Some(Place::File(file)) => self.table.write(file, path),
            Some(Place::Name(directory, name)) => {
                self.table.write(directory, path);
                if !path.is_empty() && path != b"/" {
                    path.push(b'/');
                }
                table::push_name(transaction.details.bytes(name), path);
                true
            }
            None => false,
        }
    }
}

/// A transaction with the paths of its files.
#[derive(Clone, Copy, Debug)]
pub struct TransactionRow<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// The paths of files, if they are followed. The transaction is the last one they took.
    pub paths: Option<&'a Paths>,
    /// Its time by place, if captures of both ends are joined.
    pub split: Option<Split>,
}

impl<'a> From<&'a Transaction> for TransactionRow<'a> {
    fn from(transaction: &'a Transaction) -> TransactionRow<'a> {
        TransactionRow { transaction, paths: None, split: None }
    }
}

impl Deref for TransactionRow<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        self.transaction
    }
}

impl<'a> TransactionRow<'a> {
    /// The row of the next transaction, which `paths` takes.
    pub fn follow(transaction: &'a Transaction, paths: &'a mut Paths) -> TransactionRow<'a> {
        paths.take(transaction);
        TransactionRow { transaction, paths: Some(paths), split: None }
    }

    /// Lends the path of the principal operation's file, if it is known.
    pub fn file(&self, see: &mut dyn FnMut(&[u8])) {
        self.path(Paths::file, see);
    }

    /// Lends the path of the principal operation's second file: the new name of RENAME and LINK, or
    /// the destination of COPY and CLONE.
    pub fn other_file(&self, see: &mut dyn FnMut(&[u8])) {
        self.path(Paths::other_file, see);
    }

    /// The start of the path of [`TransactionRow::file`], if it is not the root; with `second`, of
    /// the path of [`TransactionRow::other_file`].
    pub fn unnamed(&self, second: bool) -> Option<Unnamed> {
        self.paths?.unnamed(principal(&self.details)?, second)
    }

    fn path(&self, of: fn(&Paths, &Transaction, usize, &mut Vec<u8>) -> bool, see: &mut dyn FnMut(&[u8])) {
        let mut path = Vec::new();
        if let (Some(paths), Some(index)) = (self.paths, principal(&self.details))
            && of(paths, self.transaction, index, &mut path)
        {
            see(&path);
        }
    }
}

/// The index of a transaction's principal operation.
pub fn principal(details: &Details) -> Option<usize> {
    let principal = ulb::principal_operation(details)?;
    details.operations.iter().position(|operation| core::ptr::eq(operation, principal))
}

/// The NFS client of a transaction: the end that calls, or in a callback the end that is called.
pub fn client(transaction: &Transaction) -> Option<Address> {
    let route = transaction.route?;
    Some(if is_callback(transaction) { route.destination } else { route.source })
}

/// The NFS server of a transaction.
pub fn server(transaction: &Transaction) -> Option<Address> {
    let route = transaction.route?;
    Some(if is_callback(transaction) { route.source } else { route.destination })
}

fn is_callback(transaction: &Transaction) -> bool {
    transaction.procedure.is_some_and(ulb::Procedure::is_callback)
}

/// A walk over the operations of a transaction.
struct Walk<'a> {
    table: &'a mut Table,
    details: &'a Details,
    server: Server,
    /// The current and the saved file handle of a COMPOUND (RFC 8881, section 16.2.3.1).
    current: Option<Place>,
    saved: Option<Place>,
}

impl Walk<'_> {
    /// Processes a procedure of NFS version 2 or 3, or of NFSACL.
    fn procedure(&mut self, operation: &Operation) -> About {
        let file = self.of_handle(operation.file_handle);
        let second = self.of_handle(operation.other_file_handle);
        let named =
            |directory, name: Option<Text>| name.and_then(|name| entry(directory, name)).or(directory);
        let succeeded = operation.status == Some(0);
        match operation.kind {
            OperationKind::Nfs3(Nfs3::Rename) | OperationKind::Nfs2(Nfs2::Rename) => {
                let (old, new) = (named(file, operation.file_name), named(second, operation.other_name));
                if succeeded {
                    self.rename(old, new);
                }
                return About { file: old, other: new };
            }
            OperationKind::Nfs3(Nfs3::Link) | OperationKind::Nfs2(Nfs2::Link) => {
                let new = named(second, operation.file_name);
                if succeeded {
                    self.link(file, new);
                }
                return About { file, other: new };
            }
            OperationKind::Nfs3(Nfs3::Remove | Nfs3::Rmdir)
            | OperationKind::Nfs2(Nfs2::Remove | Nfs2::Rmdir) => {
                let gone = named(file, operation.file_name);
                if succeeded {
                    self.remove(gone);
                }
                return About { file: gone, other: None };
            }
            OperationKind::Nfs3(Nfs3::Readdirplus) if succeeded => self.list(file),
            _ => {}
        }
        let place = named(file, operation.file_name);
        // A result without a name is another file: the directory of named attributes.
        if let (true, Some(Place::Name(..)), Some(handle)) = (succeeded, place, operation.result_file_handle)
        {
            self.bind(place, handle);
        }
        About { file: place, other: None }
    }

    /// Processes an operation of a COMPOUND or a CB_COMPOUND.
    fn compound(&mut self, operation: &Operation) -> About {
        let OperationKind::Nfs4(kind) = operation.kind else {
            return About { file: self.of_handle(operation.file_handle), other: None };
        };
        let succeeded = operation.status == Some(0);
        let mut about = About { file: self.current, other: None };
        match kind {
            Nfs4::Putfh => {
                self.current = self.of_handle(operation.file_handle);
                about.file = self.current;
            }
            Nfs4::Putrootfh => {
                self.current = self.table.root(self.server).map(Place::File);
                about.file = self.current;
            }
            Nfs4::Putpubfh | Nfs4::Openattr => self.current = None,
            Nfs4::Lookupp => {
                let above = match self.current {
                    Some(Place::File(file)) => self.table.directory(file),
                    Some(Place::Name(directory, _)) => Some(directory),
                    None => None,
                };
                self.current = above.map(Place::File);
            }
            // An OPEN by file handle leaves the current file handle unchanged.
            Nfs4::Lookup | Nfs4::Create | Nfs4::Open => {
                if let Some(name) = operation.file_name {
                    about.file = entry(self.current, name);
                    self.current = about.file;
                    if succeeded {
                        self.current = self.child(self.current);
                    }
                }
            }
            // The current file handle is consumed (RFC 8881, section 18.29.3), or it was only the
            // directory.
            Nfs4::Secinfo => about.file = operation.file_name.and_then(|name| entry(self.current, name)),
            Nfs4::Savefh => self.saved = self.current,
            Nfs4::Restorefh => {
                self.current = self.saved;
                about.file = self.current;
            }
            Nfs4::Getfh => {
                if let (true, Some(handle)) = (succeeded, operation.result_file_handle) {
                    self.bind(self.current, handle);
                    self.current = self.of_handle(Some(handle));
                    about.file = self.current;
                }
            }
            Nfs4::Remove => {
                about.file = operation.file_name.and_then(|name| entry(self.current, name));
                if succeeded {
                    self.remove(about.file);
                }
            }
            Nfs4::Rename => {
                about.file = operation.file_name.and_then(|name| entry(self.saved, name));
                about.other = operation.other_name.and_then(|name| entry(self.current, name));
                if succeeded {
                    self.rename(about.file, about.other);
                }
            }
            Nfs4::Link => {
                about.file = self.saved;
                about.other = operation.file_name.and_then(|name| entry(self.current, name));
                if succeeded {
                    self.link(about.file, about.other);
                }
            }
            Nfs4::Copy | Nfs4::Clone => about = About { file: self.saved, other: self.current },
            Nfs4::Readdir if succeeded => self.list(self.current),
            _ => {}
        }
        about
    }

    fn of_handle(&mut self, handle: Option<Text>) -> Option<Place> {
        let handle = Some(self.details.bytes(handle?)).filter(|handle| !handle.is_empty())?;
        self.table.of_handle(self.server, handle).map(Place::File)
    }

    /// The table entry of a name in a directory.
    fn entry(&mut self, place: Option<Place>) -> Option<Entry> {
        let Some(Place::Name(directory, name)) = place else { return None };
        self.table.entry(directory, self.details.bytes(name))
    }

    /// The file of a name in a directory.
    fn child(&mut self, place: Option<Place>) -> Option<Place> {
        let Some(Place::Name(directory, name)) = place else { return place };
        self.table.child(self.server, directory, self.details.bytes(name)).map(Place::File)
    }

    fn bind(&mut self, place: Option<Place>, handle: Text) {
        if let Some(Place::File(file)) = self.child(place) {
            self.table.bind(file, self.server, self.details.bytes(handle));
        }
    }

    fn rename(&mut self, old: Option<Place>, new: Option<Place>) {
        if let Some(Place::File(file)) = self.child(old) {
            if let Some(old) = self.entry(old) {
                self.table.unlink(old);
            }
            if let Some(new) = self.entry(new) {
                self.table.name(file, new);
            }
        }
    }

    /// Adds a name to a file, which keeps its current one.
    fn link(&mut self, file: Option<Place>, new: Option<Place>) {
        if let (Some(Place::File(file)), Some(new)) = (file, self.entry(new)) {
            self.table.link(file, new);
        }
    }

    fn remove(&mut self, place: Option<Place>) {
        if let Some(entry) = self.entry(place) {
            self.table.unlink(entry);
        }
    }

    /// Takes the entries of a directory.
    fn list(&mut self, directory: Option<Place>) {
        let Some(Place::File(directory)) = directory else { return };
        for listed in &self.details.entries {
            let name = self.details.bytes(listed.name);
            if let Some(file) = self.table.child(self.server, directory, name) {
                self.table.bind(file, self.server, self.details.bytes(listed.file_handle));
            }
        }
    }
}

/// A name in a directory.
fn entry(directory: Option<Place>, name: Text) -> Option<Place> {
    match directory? {
        Place::File(directory) => Some(Place::Name(directory, name)),
        Place::Name(..) => None,
    }
}
