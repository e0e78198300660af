//! Assembles the files that NFS READs and WRITEs moved.

use super::contents::{Contents, Log, Storage};
use crate::report::is_sealed;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::layout::Piece;
use rdmascope_dissector::transaction::{Outcome, Transaction};
use rdmascope_dissector::ulb::{Nfs2, Nfs3, Nfs4, Operation, OperationKind, Text};
use rdmascope_wire::rpc;
use std::collections::HashMap;
use std::io;

/// Limits of an extraction.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of one file, holes included.
    pub file_size: u64,
    /// The most files.
    pub files: usize,
}

/// Counts of everything that was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Bytes beyond the size limit of a file.
    pub bytes_beyond_size: u64,
    /// READs and WRITEs of files beyond the limit.
    pub of_further_files: u64,
    /// READs and WRITEs without a file handle, offset or count in the capture.
    pub unclear: u64,
    /// READs and WRITEs beyond the limit on stretches.
    pub scattered: u64,
    /// Results of READ_PLUS, whose data is not extracted.
    pub read_plus: u64,
    /// NFS calls with encrypted arguments and results, which may be READs and WRITEs.
    pub sealed: u64,
}

/// The most stretches of all files together. Sequential data is one stretch.
const MOST_STRETCHES: usize = 1 << 20;
/// The most names kept.
const MOST_NAMES: usize = 1 << 16;
/// The most bytes of a file handle (RFC 8881, section 3.2).
const LONGEST_HANDLE: usize = 128;

/// A file handle with its server. Handles of different servers are unrelated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The address of the server.
    pub server: Address,
    /// The file handle.
    pub handle: Vec<u8>,
}

/// A file that was read or written.
#[derive(Debug)]
pub struct Found {
    /// The file handle and its server.
    pub key: Key,
    /// Its bytes.
    pub contents: Contents,
    /// READs and WRITEs.
    pub transactions: u64,
    /// Bytes moved according to the replies to WRITEs, repetitions included.
    pub bytes_written: u64,
    /// Bytes moved according to the replies to READs, repetitions included.
    pub bytes_read: u64,
    /// READs whose data differs from the data written or read before.
    pub conflicts: u64,
    /// The frame with the reply to the last WRITE, DEALLOCATE or change of size.
    changed: u64,
    /// Bytes that were left out.
    pub left_out: u64,
}

/// All files of a capture.
#[derive(Debug)]
pub struct Files<F> {
    limits: Limits,
    /// The bytes of all files.
    pub log: Log<F>,
    /// The files in the order in which they were first read or written.
    pub found: Vec<Found>,
    by_key: HashMap<Key, usize>,
    /// The latest name of each file.
    pub names: HashMap<Key, Vec<u8>>,
    stretches: usize,
    /// Counts of everything that was left out.
    pub left_out: LeftOut,
}

impl<F: Storage> Files<F> {
    /// Creates an empty collection. Its bytes go to `file`, which must be empty.
    pub fn new(limits: Limits, file: F) -> Files<F> {
        Files {
            limits,
            log: Log::new(file),
            found: Vec::new(),
            by_key: HashMap::new(),
            names: HashMap::new(),
            stretches: 0,
            left_out: LeftOut::default(),
        }
    }

    /// Takes the data of a READ or a WRITE, and the names in a transaction. The engine must keep
    /// the contents of transactions (`Keep::contents`).
    ///
    /// # Errors
    /// Errors of the log's file.
    pub fn take(&mut self, transaction: &Transaction) -> io::Result<()> {
        let completed =
            transaction.outcome == Outcome::Completed && transaction.rpc_status == Some(rpc::Status::Success);
        let Some(procedure) =
            transaction.procedure.filter(|called| called.program == rpc::program::NFS && completed)
        else {
            return Ok(());
        };
        if is_sealed(transaction) {
            self.left_out.sealed += 1;
            return Ok(());
        }
        let Some(server) = server(transaction) else { return Ok(()) };
        if procedure.version == 4 {
            self.take_compound(transaction, server)
        } else {
            self.take_procedure(transaction, server)
        }
    }

    /// Takes a call of NFS version 2 or 3, which has one operation with its own file handle.
    fn take_procedure(&mut self, transaction: &Transaction, server: Address) -> io::Result<()> {
        let Some(operation) = transaction.details.operations.first() else { return Ok(()) };
        if operation.status != Some(0) {
            return Ok(());
        }
        // Only operations such as LOOKUP and CREATE have both a name and a file handle in their
        // results.
        if let (Some(name), Some(handle)) = (operation.file_name, operation.result_file_handle) {
            self.bind(transaction, server, name, handle);
        }
        let sized = match operation.kind {
            OperationKind::Nfs2(Nfs2::Setattr) | OperationKind::Nfs3(Nfs3::Setattr) => operation.file_handle,
            // A CREATE of version 2, and an UNCHECKED one of version 3, may find an existing file.
            OperationKind::Nfs2(Nfs2::Create) | OperationKind::Nfs3(Nfs3::Create) => {
                operation.result_file_handle
            }
            _ => None,
        };
        if let (Some(handle), Some(size)) = (sized, operation.size) {
            self.take_size(transaction, server, handle, size);
        }
        self.take_operation(transaction, server, operation, operation.file_handle)
    }

    /// Takes a COMPOUND of NFS version 4, whose operations use the current file handle (RFC 8881,
    /// section 16.2.3.1.1).
    fn take_compound(&mut self, transaction: &Transaction, server: Address) -> io::Result<()> {
        // The file handle, if known, and the name that led to it.
        let (mut current, mut saved) = ((None, None), (None, None));
        // Whether the OPEN that set the current file also truncated it. Its handle follows in
        // GETFH.
        let mut cuts = false;
        for operation in &transaction.details.operations {
            if operation.status != Some(0) {
                break;
            }
            let OperationKind::Nfs4(kind) = operation.kind else { continue };
            let before = current;
            match kind {
                Nfs4::Putfh => current = (operation.file_handle, None),
                Nfs4::Putrootfh | Nfs4::Putpubfh | Nfs4::Lookupp | Nfs4::Openattr => current = (None, None),
                Nfs4::Lookup | Nfs4::Create => current = (None, operation.file_name),
                // An OPEN by file handle leaves the current file handle unchanged.
                Nfs4::Open if operation.file_name.is_some() => {
                    current = (None, operation.file_name);
                    // For an existing file, OPEN ignores any other size (RFC 8881, section
                    // 18.16.3).
                    cuts = operation.size == Some(0);
                    continue;
                }
                Nfs4::Savefh => saved = current,
                Nfs4::Restorefh => current = saved,
                Nfs4::Getfh => {
                    if let (Some(name), Some(handle)) = (current.1, operation.result_file_handle) {
                        self.bind(transaction, server, name, handle);
                    }
                    current.0 = operation.result_file_handle;
                    if let (true, Some(handle)) = (cuts, current.0) {
                        self.take_size(transaction, server, handle, 0);
                    }
                    cuts = false;
                }
                Nfs4::Setattr => {
                    if let (Some(handle), Some(size)) = (current.0, operation.size) {
                        self.take_size(transaction, server, handle, size);
                    }
                }
                Nfs4::ReadPlus => self.left_out.read_plus += 1,
                Nfs4::Deallocate => self.take_hole(transaction, server, operation, current.0),
                _ => self.take_operation(transaction, server, operation, current.0)?,
            }
            // The current file changed.
            cuts &= current == before;
        }
        Ok(())
    }

    /// Stores the name of a file handle.
    fn bind(&mut self, transaction: &Transaction, server: Address, name: Text, handle: Text) {
        let [name, handle] = [name, handle].map(|text| transaction.details.bytes(text).to_vec());
        let key = Key { server, handle };
        if self.names.len() < MOST_NAMES || self.names.contains_key(&key) {
            self.names.insert(key, name);
        }
    }

    /// Takes the data of a successful READ or WRITE.
    fn take_operation(
        &mut self,
        transaction: &Transaction,
        server: Address,
        operation: &Operation,
        handle: Option<Text>,
    ) -> io::Result<()> {
        let (of_reply, item) = match operation.kind {
            kind if kind.is_read() => (true, operation.result_item),
            kind if kind.is_write() => (false, operation.argument_item),
            _ => return Ok(()),
        };
        // In NFS version 2, a successful WRITE has written all its data.
        let is_version_2 = transaction.procedure.is_some_and(|procedure| procedure.version == 2);
        let all = item.filter(|_| is_version_2).map(|item| u64::from(item.length));
        let handle = handle.map(|handle| transaction.details.bytes(handle));
        let handle = handle.filter(|handle| (1..=LONGEST_HANDLE).contains(&handle.len()));
        let (Some(handle), Some(item), Some(offset), Some(count)) =
            (handle, item, operation.offset, operation.result_count.or(all))
        else {
            self.left_out.unclear += 1;
            return Ok(());
        };
        let key = Key { server, handle: handle.to_vec() };
        let count = count.min(item.length.into());
        if self.stretches >= MOST_STRETCHES {
            self.left_out.scattered += 1;
            return Ok(());
        }
        let (length, limits) = (count.min(self.limits.file_size.saturating_sub(offset)), self.limits);
        let Some(found) = self.find(key, limits.files) else {
            self.left_out.of_further_files += 1;
            return Ok(());
        };
        let nothing = || Piece { length, ..Piece::default() };
        let piece = transaction.item(of_reply, &item).unwrap_or_else(nothing);
        let found = &mut self.found[found];
        let before = found.contents.stretches();
        found.transactions += 1;
        found.left_out += count - length;
        self.left_out.bytes_beyond_size += count - length;
        if length == 0 {
            // All bytes are beyond the size limit, or none were moved.
        } else if of_reply {
            // A READ that overlaps a change may return the file's contents from before or after it.
            let called = transaction.call.as_ref().map_or(0, |call| call.first.frame);
            let later = called > found.changed;
            // Beyond a size that was set after the READ, the READ returns older contents.
            let known = found.contents.given().filter(|_| !later).map(|_| found.contents.size());
            let length = known.map_or(length, |size| length.min(size.saturating_sub(offset)));
            if length > 0 {
                let same = found.contents.read(offset, length, &piece, later, &mut self.log)?;
                found.conflicts += u64::from(!same);
            }
        } else {
            found.contents.write(offset, length, &piece, &mut self.log)?;
            found.changed = found.changed.max(answered_in(transaction));
        }
        *if of_reply { &mut found.bytes_read } else { &mut found.bytes_written } += count;
        self.stretches = self.stretches - before + found.contents.stretches();
        Ok(())
    }

    /// Takes the hole that a DEALLOCATE punched in a known file. It reads as zeros (RFC 7862,
    /// section 15.4.3).
    fn take_hole(
        &mut self,
        transaction: &Transaction,
        server: Address,
        operation: &Operation,
        handle: Option<Text>,
    ) {
        let (Some(handle), Some(offset), Some(count)) = (handle, operation.offset, operation.count) else {
            return;
        };
        let key = Key { server, handle: transaction.details.bytes(handle).to_vec() };
        let Some(index) = self.by_key.get(&key).copied().filter(|_| self.stretches < MOST_STRETCHES) else {
            return;
        };
        let found = &mut self.found[index];
        let before = found.contents.stretches();
        found.contents.punch(offset, count);
        found.changed = found.changed.max(answered_in(transaction));
        self.stretches = self.stretches - before + found.contents.stretches();
    }

    /// Takes the new size of a known file. Bytes beyond it are cut off.
    fn take_size(&mut self, transaction: &Transaction, server: Address, handle: Text, size: u64) {
        let key = Key { server, handle: transaction.details.bytes(handle).to_vec() };
        let Some(index) = self.by_key.get(&key).copied() else { return };
        let found = &mut self.found[index];
        let before = found.contents.stretches();
        // A file may grow beyond the size limit; that cuts nothing.
        if size <= self.limits.file_size {
            found.contents.resize(size);
        }
        found.changed = found.changed.max(answered_in(transaction));
        self.stretches = self.stretches - before + found.contents.stretches();
    }

    /// The index of the file with this handle; a new file is added if there are fewer than `most`.
    fn find(&mut self, key: Key, most: usize) -> Option<usize> {
        if let Some(index) = self.by_key.get(&key) {
            return Some(*index);
        }
        if self.found.len() >= most {
            return None;
        }
        let index = self.found.len();
        self.by_key.insert(key.clone(), index);
        self.found.push(Found {
            key,
            contents: Contents::default(),
            transactions: 0,
            bytes_written: 0,
            bytes_read: 0,
            conflicts: 0,
            changed: 0,
            left_out: 0,
        });
        Some(index)
    }
}

/// The frame that completed the reply.
fn answered_in(transaction: &Transaction) -> u64 {
    transaction.reply.as_ref().map_or(0, |reply| reply.seen.frame)
}

/// The address of the server.
fn server(transaction: &Transaction) -> Option<Address> {
    let [caller, other] = transaction.exchange.as_deref()?.flows;
    caller.map(|flow| flow.destination).or(other.map(|flow| flow.source))
}
