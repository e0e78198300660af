//! A walk over one operation. It moves the cursor over the fields, and stores those that explain
//! the operation.

use super::state::Facts;
use super::{
    Backchannel, Details, Entry, Operation, Outcome, Payload, Sequence, Sequenced, Session, Text, keep,
};
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use rdmascope_wire::Stop;

/// The cursor, the current operation, the memory for names, and the backchannel and session fields
/// so far.
pub(super) struct Walk<'w, 'a> {
    pub(super) payload: &'w mut Payload<'a>,
    pub(super) operation: &'w mut Operation,
    pub(super) arena: &'w mut Vec<u8>,
    backchannel: &'w mut Option<Backchannel>,
    pub(super) session: &'w mut Session,
    entries: &'w mut Vec<Entry>,
    pub(super) facts: Facts<'w>,
}

impl<'w, 'a> Walk<'w, 'a> {
    #[inline]
    pub(super) fn new(
        payload: &'w mut Payload<'a>,
        operation: &'w mut Operation,
        arena: &'w mut Vec<u8>,
        backchannel: &'w mut Option<Backchannel>,
        session: &'w mut Session,
        entries: &'w mut Vec<Entry>,
        facts: Facts<'w>,
    ) -> Walk<'w, 'a> {
        Walk { payload, operation, arena, backchannel, session, entries, facts }
    }

    /// The backchannel fields so far, for adding to.
    pub(super) fn backchannel(&mut self) -> &mut Backchannel {
        self.backchannel.get_or_insert_default()
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Result<u32, Stop> {
        self.payload.u32()
    }

    #[inline]
    pub(super) fn bool(&mut self) -> Result<bool, Stop> {
        self.payload.bool()
    }

    /// Reads a `sessionid4` or a `stateid4`.
    #[inline]
    pub(super) fn sixteen(&mut self) -> Result<[u8; 16], Stop> {
        let bytes = self.payload.fixed(16)?;
        Ok(*bytes.first_chunk().expect("fixed() returns this many bytes"))
    }

    /// Walks the arguments that SEQUENCE and CB_SEQUENCE share. Only the first of a COMPOUND
    /// counts.
    #[inline]
    pub(super) fn sequence(&mut self) -> Outcome {
        let session = self.sixteen()?;
        let (number, slot) = (self.u32()?, self.u32()?);
        self.session.sequence.get_or_insert(Sequence { session, number, slot });
        // The highest slot in use, and whether the reply is to be cached.
        self.skip(4)?;
        self.flag().map(|_| ())
    }

    /// Walks the results that SEQUENCE and CB_SEQUENCE share, and the flags of SEQUENCE.
    #[inline]
    pub(super) fn sequenced(&mut self, has_flags: bool) -> Outcome {
        let session = self.sixteen()?;
        let (number, slot) = (self.u32()?, self.u32()?);
        let of = Sequence { session, number, slot };
        let (highest, target) = (self.u32()?, self.u32()?);
        let flags = if has_flags { self.u32()? } else { 0 };
        self.session.sequenced.get_or_insert(Sequenced { of, highest, target, flags });
        Ok(())
    }

    /// Reads a word and notes whether it is a constant of an enumeration, which are consecutive.
    #[inline]
    pub(super) fn constant(&mut self, constants: RangeInclusive<u32>) -> Result<u32, Stop> {
        let value = self.u32()?;
        self.payload.allow(constants.contains(&value));
        Ok(value)
    }

    /// Reads a boolean that is no discriminant, and notes whether it is one (RFC 4506, section
    /// 4.4).
    #[inline]
    pub(super) fn flag(&mut self) -> Result<bool, Stop> {
        Ok(self.constant(0..=1)? != 0)
    }

    /// Reads opaque data or a string, and notes whether it is longer than `most` bytes.
    #[inline]
    pub(super) fn limited(&mut self, most: usize) -> Result<&'a [u8], Stop> {
        let at = self.payload.reader().position();
        let bytes = self.payload.opaque()?;
        self.payload.allow_at(at, bytes.len() <= most);
        Ok(bytes)
    }

    #[inline]
    pub(super) fn no_such_arm(&self) -> Stop {
        self.payload.no_such_arm()
    }

    /// Skips `bytes` of fields of fixed size, a multiple of four.
    #[inline]
    pub(super) fn skip(&mut self, bytes: u32) -> Outcome {
        self.payload.skip(bytes)
    }

    /// Skips opaque data or a string and returns its length.
    #[inline]
    pub(super) fn opaque(&mut self) -> Result<u32, Stop> {
        self.payload.opaque().map(|bytes| bytes.len() as u32)
    }

    /// Skips a counted array of elements of `each` bytes.
    #[inline]
    pub(super) fn array(&mut self, each: u32) -> Outcome {
        self.payload.array(each).map(|_| ())
    }

    /// Walks a counted array of elements of variable size. Each has at least one word, so the
    /// stream bounds the loop.
    #[inline]
    pub(super) fn each(&mut self, mut element: impl FnMut(&mut Self) -> Outcome) -> Outcome {
        for _ in 0..self.u32()? {
            element(self)?;
        }
        Ok(())
    }

    /// Walks a list with a boolean before each entry (RFC 4506, section 4.19).
    #[inline]
    pub(super) fn list(&mut self, mut entry: impl FnMut(&mut Self) -> Outcome) -> Outcome {
        while self.bool()? {
            entry(self)?;
        }
        Ok(())
    }

    /// Walks directory entries. `entry` returns name and file handle; entries with both are stored.
    #[inline]
    pub(super) fn entries(
        &mut self,
        mut entry: impl FnMut(&mut Self) -> Result<(&'a [u8], &'a [u8]), Stop>,
    ) -> Outcome {
        let is_first = self.entries.is_empty();
        self.list(|walk| {
            let (name, file_handle) = entry(walk)?;
            let room = Details::LARGEST_ARENA - Details::RESERVED;
            let fits = walk.arena.len() + name.len() + file_handle.len() <= room
                && name.len().max(file_handle.len()) <= Text::LONGEST;
            if is_first && fits && !name.is_empty() && !file_handle.is_empty() {
                let [name, file_handle] = [name, file_handle].map(|bytes| keep(walk.arena, bytes));
                walk.entries.push(Entry { name, file_handle });
            }
            Ok(())
        })
    }

    /// Reads a boolean, and skips `bytes` if it is true.
    #[inline]
    pub(super) fn optional(&mut self, bytes: u32) -> Outcome {
        if self.bool()? { self.skip(bytes) } else { Ok(()) }
    }

    #[inline]
    fn text(&mut self) -> Result<Text, Stop> {
        let bytes = self.payload.opaque()?;
        Ok(keep(self.arena, bytes))
    }

    /// Walks a file handle of the arguments, the first or the second, of at most `most` bytes.
    #[inline]
    pub(super) fn file_handle(&mut self, most: usize) -> Outcome {
        let bytes = self.limited(most)?;
        let handle = keep(self.arena, bytes);
        self.note_file_handle(handle);
        Ok(())
    }

    #[inline]
    fn note_file_handle(&mut self, handle: Text) {
        match self.operation.file_handle {
            None => self.operation.file_handle = Some(handle),
            Some(_) => self.operation.other_file_handle = Some(handle),
        }
    }

    /// Walks a file handle of NFS version 2, which has a fixed length (RFC 1094, section 2.3.3).
    #[inline]
    pub(super) fn file_handle_2(&mut self) -> Outcome {
        let bytes = self.payload.fixed(32)?;
        let handle = keep(self.arena, bytes);
        self.note_file_handle(handle);
        Ok(())
    }

    #[inline]
    pub(super) fn result_file_handle(&mut self, most: usize) -> Outcome {
        let bytes = self.limited(most)?;
        self.operation.result_file_handle = Some(keep(self.arena, bytes));
        Ok(())
    }

    #[inline]
    pub(super) fn result_file_handle_2(&mut self) -> Outcome {
        let bytes = self.payload.fixed(32)?;
        self.operation.result_file_handle = Some(keep(self.arena, bytes));
        Ok(())
    }

    #[inline]
    pub(super) fn file_name(&mut self) -> Outcome {
        self.operation.file_name = Some(self.text()?);
        Ok(())
    }

    #[inline]
    pub(super) fn other_name(&mut self) -> Outcome {
        self.operation.other_name = Some(self.text()?);
        Ok(())
    }

    #[inline]
    pub(super) fn offset(&mut self) -> Outcome {
        self.operation.offset = Some(self.payload.u64()?);
        Ok(())
    }

    /// Walks a count of 32 bits.
    #[inline]
    pub(super) fn count(&mut self) -> Outcome {
        self.operation.count = Some(self.u32()?.into());
        Ok(())
    }

    /// Walks a count of 64 bits.
    #[inline]
    pub(super) fn length(&mut self) -> Outcome {
        self.operation.count = Some(self.payload.u64()?);
        Ok(())
    }

    /// Walks an offset, and a count of 64 bits.
    #[inline]
    pub(super) fn range(&mut self) -> Outcome {
        self.offset()?;
        self.length()
    }

    #[inline]
    pub(super) fn result_count(&mut self) -> Outcome {
        self.operation.result_count = Some(self.u32()?.into());
        Ok(())
    }

    #[inline]
    pub(super) fn result_length(&mut self) -> Outcome {
        self.operation.result_count = Some(self.payload.u64()?);
        Ok(())
    }

    /// Walks a `stable_how4` or `stable_how`.
    #[inline]
    pub(super) fn stable(&mut self) -> Result<Option<u8>, Stop> {
        Ok(u8::try_from(self.constant(0..=2)?).ok().filter(|value| *value <= 2))
    }

    /// Walks the end of directory entries that began at this position.
    pub(super) fn end_of_entries(&mut self, begin: usize) -> Outcome {
        self.end_of_file()?;
        let bytes = self.payload.reader().position().saturating_sub(begin);
        self.operation.entry_bytes = u32::try_from(bytes).ok();
        Ok(())
    }

    #[inline]
    pub(super) fn end_of_file(&mut self) -> Outcome {
        self.operation.end_of_file = Some(self.flag()?);
        Ok(())
    }

    /// Pulls the DDP-eligible item of the arguments and returns its length.
    #[inline]
    pub(super) fn argument_item(&mut self) -> Result<u32, Stop> {
        let (item, _) = self.payload.pull()?;
        self.operation.argument_item = Some(item);
        Ok(item.length)
    }

    /// Pulls the DDP-eligible item of the results and returns its length.
    #[inline]
    pub(super) fn result_item(&mut self) -> Result<u32, Stop> {
        let (item, _) = self.payload.pull()?;
        self.operation.result_item = Some(item);
        Ok(item.length)
    }

    /// Pulls the text of a symbolic link from the arguments, and stores it if it is inline.
    #[inline]
    pub(super) fn argument_link(&mut self) -> Outcome {
        let (item, bytes) = self.payload.pull()?;
        self.operation.argument_item = Some(item);
        self.keep_link(item, bytes);
        Ok(())
    }

    /// Pulls the text of a symbolic link from the results, and stores it if it is inline.
    #[inline]
    pub(super) fn result_link(&mut self) -> Outcome {
        let (item, bytes) = self.payload.pull()?;
        self.operation.result_item = Some(item);
        self.keep_link(item, bytes);
        Ok(())
    }

    fn keep_link(&mut self, item: super::Item, bytes: &'a [u8]) {
        if let super::Place::Inline(_) = item.place {
            self.operation.other_name = Some(keep(self.arena, bytes));
        }
    }

    /// Skips the Write chunk of a result without a DDP-eligible item (RFC 8267, section 6.4.1).
    #[inline]
    pub(super) fn pass_chunk(&mut self) {
        self.payload.pass_chunk();
    }

    /// Reads the status of the result and returns whether it is success.
    #[inline]
    pub(super) fn status(&mut self) -> Result<bool, Stop> {
        let status = self.u32()?;
        self.operation.status = Some(status);
        Ok(status == 0)
    }
}
