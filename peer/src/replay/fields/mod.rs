//! What the bytes of an RPC message are: its fields, by the XDR of NFS versions 3 and 4, NFSACL version 3 and the NFSv4 callback program.
//!
//! Each field says whether two implementations must agree on it. Where the tables end, the rest of
//! the message is one field that is not understood. So every byte but padding is in a field, is the
//! count in front of one, or says which attributes follow.

pub(super) mod attributes;
mod nfs3;
mod nfs4;

use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::Layer;
use rdmascope_wire::rpc::{self, flavor, program};
use rdmascope_wire::xdr::Reader;

/// The boolean in front of an entry of a directory.
pub(super) const ENTRY: &str = "entry";
/// Whether the directory, or the file, ends there.
pub(super) const END: &str = "eof";
/// The name of the field that is the header of a call, credential and verifier included.
pub(super) const HEADER: &str = "RPC header";
/// Fields of one message; what follows is one more.
const MOST_FIELDS: usize = 65_536;

/// Whether a field must be equal in two replies to the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It must.
    Equal,
    /// The Responder grants it or chooses it, and another one may do so otherwise: slots, limits,
    /// delegations.
    Granted,
    /// It is the Responder's own: a time, a number of a file, free space. No later call names it.
    Own,
    /// A file handle, which later calls name.
    Handle,
    /// The `other` of a stateid.
    Stateid,
    /// A session ID.
    Session,
    /// A client ID.
    Client,
    /// The sequence ID of the next CREATE_SESSION.
    Sequence,
    /// A verifier of the Responder.
    Verifier,
    /// A cookie of a directory entry.
    Cookie,
    /// The ctime that guards a SETATTR of NFS version 3.
    ChangeTime,
}

impl Kind {
    /// Whether later calls name it, so that what the recording has stands for what the target said.
    pub const fn is_mapped(self) -> bool {
        !matches!(self, Kind::Equal | Kind::Granted | Kind::Own)
    }
}

/// Where the bytes of a field are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the Payload stream.
    Stream(Range<usize>),
    /// So many bytes at most of what the Write chunk of this index brought.
    Item(usize, usize),
}

/// How the bytes of a field are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Its length is fixed.
    Plain,
    /// A count is in front of it, and padding after it.
    Counted,
    /// A `bitmap4`: words with their number in front.
    Bits,
    /// A `bitmap4` whose bits are the numbers of attributes.
    Attributes,
}

/// The part of a message that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Nothing that another Responder may leave out.
    Whole,
    /// The value of the attribute of this number.
    Attribute(u32),
    /// A grant, such as a delegation: another Responder may grant something else.
    Grant,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// The operation of a COMPOUND that it is of, from 0, with its name.
    pub(super) operation: Option<(usize, &'static str)>,
    /// Its name in the XDR.
    pub(super) name: &'static str,
    /// Whether it must be equal.
    pub(super) kind: Kind,
    /// Its bytes.
    pub(super) place: Place,
    /// How its bytes are coded.
    pub(super) coding: Coding,
    /// The part of the message that it belongs to.
    pub(super) part: Part,
    /// Which entry of a directory it is of, from 0.
    pub(super) entry: Option<usize>,
}

impl Field {
    /// Its bytes in a message whose Write chunks brought `items`.
    pub(super) fn bytes<'m>(&self, stream: &'m [u8], items: &'m [Vec<u8>]) -> &'m [u8] {
        match &self.place {
            Place::Stream(range) => stream.get(range.clone()).unwrap_or_default(),
            Place::Item(index, length) => {
                let item = items.get(*index).map_or(&[][..], Vec::as_slice);
                item.get(..*length).unwrap_or(item)
            }
        }
    }
}

/// The fields of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    /// In the order in which they are on the wire.
    pub(super) list: Vec<Field>,
    /// Whether all of it was understood. Otherwise the last field is the rest, or a field is the rest of some attributes.
    pub(super) understood: bool,
}

/// The form of a field or of several.
#[derive(Clone, Copy)]
enum Form {
    Word(&'static str, Kind),
    Hyper(&'static str, Kind),
    Fixed(u32, &'static str, Kind),
    Opaque(&'static str, Kind),
    /// A DDP-eligible item of variable length.
    Item(&'static str),
    /// A `bitmap4`.
    Bits(&'static str, Kind),
    /// A `bitmap4` of attributes.
    AttributeBits(&'static str, Kind),
    Parts(&'static [Form]),
    /// A grant of the Responder.
    Grant(&'static [Form]),
    /// A count and so many of these.
    Many(&'static str, &'static [Form]),
    /// The entries of a directory: a boolean in front of each.
    List(&'static str, &'static [Form]),
    /// A boolean, and if it is true these.
    Maybe(&'static str, &'static [Form]),
    /// A discriminant and its arms.
    Choice(&'static str, &'static [(u32, &'static [Form])]),
    /// The same, where every other discriminant has nothing behind it.
    Perhaps(&'static str, &'static [(u32, &'static [Form])]),
    /// These, if the status of the operation is that.
    IfStatus(u32, &'static [Form]),
    /// A `fattr4`.
    Attributes,
}

const fn word(name: &'static str) -> Form {
    Form::Word(name, Kind::Equal)
}

const fn hyper(name: &'static str) -> Form {
    Form::Hyper(name, Kind::Equal)
}

const fn opaque(name: &'static str) -> Form {
    Form::Opaque(name, Kind::Equal)
}

const fn bits(name: &'static str, kind: Kind) -> Form {
    Form::Bits(name, kind)
}

/// A counted array of words.
const fn words(name: &'static str) -> Form {
    Form::Many(name, &[Form::Word("word", Kind::Equal)])
}

/// A procedure, or an operation of a COMPOUND.
struct Operation {
    code: u32,
    name: &'static str,
    arguments: &'static [Form],
    /// What follows the status NFS_OK.
    success: &'static [Form],
    /// What follows any other status.
    failure: &'static [Form],
}

impl Operation {
    const fn new(
        code: u32,
        name: &'static str,
        arguments: &'static [Form],
        success: &'static [Form],
        failure: &'static [Form],
    ) -> Operation {
        Operation { code, name, arguments, success, failure }
    }

    /// Whether one of its results is DDP-eligible.
    fn has_item(&self) -> bool {
        self.success.iter().any(|form| matches!(form, Form::Item(_)))
    }
}

/// The operations of a protocol.
enum Protocol {
    /// Procedures with these arguments and results.
    Procedures(&'static [Operation]),
    /// COMPOUND or CB_COMPOUND of these operations; whether `callback_ident` is among its arguments.
    Compound(&'static [Operation], bool),
}

/// The tables of a program. `None`: there are none for this procedure.
fn protocol(program: u32, version: u32) -> Option<Protocol> {
    match (program, version) {
        (program::NFS, 3) => Some(Protocol::Procedures(&nfs3::PROCEDURES)),
        (program::NFSACL, 3) => Some(Protocol::Procedures(&nfs3::ACL_PROCEDURES)),
        (program::NFS, 4) => Some(Protocol::Compound(&nfs4::OPERATIONS, false)),
        (program, _) if program::is_callback(program) => {
            Some(Protocol::Compound(&nfs4::CALLBACK_OPERATIONS, true))
        }
        _ => None,
    }
}

/// Program, version and procedure.
pub type Called = (u32, u32, u32);

/// The name of a procedure: its number where no table has it.
pub fn procedure_name(called: Called) -> Option<&'static str> {
    let (program, version, procedure) = called;
    match (protocol(program, version)?, procedure) {
        (_, 0) => Some("NULL"),
        (Protocol::Procedures(table), _) => {
            table.iter().find(|row| row.code == procedure).map(|row| row.name)
        }
        (Protocol::Compound(_, false), 1) => Some("COMPOUND"),
        (Protocol::Compound(_, true), 1) => Some("CB_COMPOUND"),
        _ => None,
    }
}

/// The fields of a call, whole, from behind its XID on; and what it calls.
pub(super) fn of_call(message: &[u8]) -> (Fields, Option<Called>) {
    let mut walk = Walk::new(message, &[]);
    let header = rpc::Call::parse(&mut walk.reader);
    let Ok(call) = header else { return (walk.end(Err(())), None) };
    let called = (call.program, call.version, call.procedure);
    // The header: all of it is as recorded.
    let start = walk.reader.position();
    walk.fields.push(Walk::field(None, HEADER, Kind::Equal, Place::Stream(4..start), Coding::Plain));
    // What RPCSEC_GSS protects cannot be read, nor can it be changed.
    let walked = match call.credential.flavor {
        flavor::RPCSEC_GSS => Err(()),
        _ => walk.arguments(called),
    };
    (walk.end(walked), Some(called))
}

/// The fields of a reply to such a call, from behind its XID on. `items`: what its Write chunks brought.
pub(super) fn of_reply(called: Option<Called>, stream: &[u8], items: &[Vec<u8>]) -> Fields {
    let mut walk = Walk::new(stream, items);
    let walked = walk.reply(called);
    walk.end(walked)
}

/// A walk over a message. What stops it is where the tables end, whatever the reason.
struct Walk<'m> {
    reader: Reader<'m>,
    stream: &'m [u8],
    items: &'m [Vec<u8>],
    /// Write chunks that were looked at.
    used: usize,
    operation: Option<(usize, &'static str)>,
    status: u32,
    /// Entries of directories that were begun, and the one that the cursor is in.
    entries: usize,
    entry: Option<usize>,
    part: Part,
    /// Whether there were attributes that no table has.
    lacking: bool,
    fields: Vec<Field>,
}

type Walked = Result<(), ()>;

impl<'m> Walk<'m> {
    fn new(stream: &'m [u8], items: &'m [Vec<u8>]) -> Walk<'m> {
        let reader = Reader::new(stream, Layer::UpperLayer);
        Walk {
            reader,
            stream,
            items,
            used: 0,
            operation: None,
            status: 0,
            entries: 0,
            entry: None,
            part: Part::Whole,
            lacking: false,
            fields: Vec::new(),
        }
    }

    fn field(
        operation: Option<(usize, &'static str)>,
        name: &'static str,
        kind: Kind,
        place: Place,
        coding: Coding,
    ) -> Field {
        Field { operation, name, kind, place, coding, part: Part::Whole, entry: None }
    }

    /// What was found, with what is left as one field.
    fn end(mut self, walked: Walked) -> Fields {
        let at = self.reader.position();
        // Chunks that no item was found for, and bytes behind the results.
        let chunks = self.used..self.items.len();
        let understood = walked.is_ok() && at == self.stream.len() && !self.lacking;
        if at < self.stream.len() {
            let name = if walked.is_ok() { "bytes behind the results" } else { "bytes not understood" };
            self.fields.push(Walk::field(
                self.operation,
                name,
                Kind::Equal,
                Place::Stream(at..self.stream.len()),
                Coding::Plain,
            ));
        }
        for index in chunks {
            self.fields.push(Walk::field(
                None,
                "bytes of a Write chunk",
                Kind::Equal,
                Place::Item(index, usize::MAX),
                Coding::Plain,
            ));
        }
        Fields { list: self.fields, understood }
    }

    fn reply(&mut self, called: Option<Called>) -> Walked {
        self.reader.skip(4).map_err(drop)?;
        // msg_type and reply_stat.
        self.take(word("msg_type"))?;
        if self.number("reply_stat")? != 0 {
            return Err(());
        }
        let verifier = match self.number("flavor of the verifier")? {
            flavor::RPCSEC_GSS => Kind::Own,
            _ => Kind::Equal,
        };
        self.take(Form::Opaque("verifier", verifier))?;
        if self.number("accept_stat")? != 0 || verifier == Kind::Own {
            return Err(());
        }
        let (program, version, procedure) = called.ok_or(())?;
        match (protocol(program, version).ok_or(())?, procedure) {
            (_, 0) => Ok(()),
            (Protocol::Procedures(table), _) => {
                let row = table.iter().find(|row| row.code == procedure).ok_or(())?;
                self.operation = Some((0, row.name));
                self.results(row)
            }
            (Protocol::Compound(table, _), 1) => {
                self.take(word("status"))?;
                self.take(opaque("tag"))?;
                for index in 0..self.number("resarray")? as usize {
                    let code = self.number("resop")?;
                    match table.iter().find(|row| row.code == code) {
                        Some(row) => {
                            self.operation = Some((index, row.name));
                            self.results(row)?;
                        }
                        // Only its status, unless it succeeded.
                        None => {
                            self.operation = Some((index, "unknown operation"));
                            if self.number("status")? == 0 {
                                return Err(());
                            }
                        }
                    }
                }
                self.operation = None;
                Ok(())
            }
            _ => Err(()),
        }
    }

    fn arguments(&mut self, called: Called) -> Walked {
        let (program, version, procedure) = called;
        match (protocol(program, version).ok_or(())?, procedure) {
            (_, 0) => Ok(()),
            (Protocol::Procedures(table), _) => {
                let row = table.iter().find(|row| row.code == procedure).ok_or(())?;
                self.operation = Some((0, row.name));
                self.all(row.arguments)
            }
            (Protocol::Compound(table, has_identifier), 1) => {
                self.take(opaque("tag"))?;
                self.take(word("minorversion"))?;
                if has_identifier {
                    self.take(Form::Word("callback_ident", Kind::Own))?;
                }
                for index in 0..self.number("argarray")? as usize {
                    let code = self.number("argop")?;
                    let row = table.iter().find(|row| row.code == code).ok_or(())?;
                    self.operation = Some((index, row.name));
                    self.all(row.arguments)?;
                }
                self.operation = None;
                Ok(())
            }
            _ => Err(()),
        }
    }

    fn results(&mut self, row: &Operation) -> Walked {
        self.status = self.number("status")?;
        if self.status == 0 {
            return self.all(row.success);
        }
        // RFC 8267, section 6.4.1: a READ that failed leaves its Write chunk unused.
        if row.has_item() && self.items.get(self.used).is_some_and(Vec::is_empty) {
            self.used += 1;
        }
        self.all(row.failure)
    }

    fn all(&mut self, forms: &[Form]) -> Walked {
        forms.iter().try_for_each(|form| self.take(*form))
    }

    /// Adds a field that ends where the cursor is.
    fn add(&mut self, name: &'static str, kind: Kind, bytes: &[u8], padded: usize, coding: Coding) -> Walked {
        if self.fields.len() >= MOST_FIELDS {
            return Err(());
        }
        let start = self.reader.position() - padded;
        let place = Place::Stream(start..start + bytes.len());
        let field = Walk::field(self.operation, name, kind, place, coding);
        self.fields.push(Field { entry: self.entry, part: self.part, ..field });
        Ok(())
    }

    /// A word that says what follows.
    fn number(&mut self, name: &'static str) -> Result<u32, ()> {
        let before = self.reader;
        let number = self.reader.u32().map_err(drop)?;
        if self.add(name, Kind::Equal, &[0; 4], 4, Coding::Plain).is_err() {
            self.reader = before;
            return Err(());
        }
        Ok(number)
    }

    fn fixed(&mut self, length: u32, name: &'static str, kind: Kind) -> Walked {
        let before = self.reader;
        let bytes = self.reader.fixed(length).map_err(drop)?;
        self.or_back(before, |walk| {
            walk.add(name, kind, bytes, bytes.len().next_multiple_of(4), Coding::Plain)
        })
    }

    fn counted(&mut self, name: &'static str, kind: Kind) -> Walked {
        let before = self.reader;
        let bytes = self.reader.opaque().map_err(drop)?;
        self.or_back(before, |walk| {
            walk.add(name, kind, bytes, bytes.len().next_multiple_of(4), Coding::Counted)
        })
    }

    fn bitmap(&mut self, name: &'static str, kind: Kind, coding: Coding) -> Walked {
        let before = self.reader;
        let words = self.reader.u32().map_err(drop)?;
        self.or_back(before, |walk| {
            let length = words.checked_mul(4).ok_or(())?;
            let bytes = walk.reader.fixed(length).map_err(drop)?;
            walk.add(name, kind, bytes, bytes.len(), coding)
        })
    }

    fn or_back(&mut self, before: Reader<'m>, step: impl FnOnce(&mut Self) -> Walked) -> Walked {
        let done = step(self);
        if done.is_err() {
            self.reader = before;
        }
        done
    }

    /// A DDP-eligible item: in the next Write chunk, unless that came back empty (RFC 8166, section 4.3.2.1).
    fn item(&mut self, name: &'static str) -> Walked {
        let mut ahead = self.reader;
        let length = ahead.u32().map_err(drop)?;
        match self.items.get(self.used) {
            Some(item) if length == 0 || !item.is_empty() => {
                self.reader = ahead;
                let place = Place::Item(self.used, length as usize);
                self.fields.push(Walk::field(self.operation, name, Kind::Equal, place, Coding::Counted));
                self.used += 1;
                Ok(())
            }
            chunk => {
                self.used += usize::from(chunk.is_some());
                self.counted(name, Kind::Equal)
            }
        }
    }

    fn take(&mut self, form: Form) -> Walked {
        match form {
            Form::Word(name, kind) => self.fixed(4, name, kind),
            Form::Hyper(name, kind) => self.fixed(8, name, kind),
            Form::Fixed(length, name, kind) => self.fixed(length, name, kind),
            Form::Opaque(name, kind) => self.counted(name, kind),
            Form::Item(name) => self.item(name),
            Form::Bits(name, kind) => self.bitmap(name, kind, Coding::Bits),
            Form::AttributeBits(name, kind) => self.bitmap(name, kind, Coding::Attributes),
            Form::Parts(forms) => self.all(forms),
            Form::Grant(forms) => {
                self.part = Part::Grant;
                self.all(forms)?;
                self.part = Part::Whole;
                Ok(())
            }
            Form::Many(name, forms) => {
                // Each takes a word at least, so the stream bounds the loop.
                for _ in 0..self.number(name)? {
                    self.all(forms)?;
                }
                Ok(())
            }
            Form::List(name, forms) => {
                while self.flag(name)? {
                    self.entry = Some(self.entries);
                    self.entries += 1;
                    self.all(forms)?;
                    self.entry = None;
                }
                Ok(())
            }
            Form::Maybe(name, forms) => match self.flag(name)? {
                true => self.all(forms),
                false => Ok(()),
            },
            Form::Choice(name, arms) | Form::Perhaps(name, arms) => {
                let number = self.number(name)?;
                match arms.iter().find(|(arm, _)| *arm == number) {
                    Some((_, forms)) => self.all(forms),
                    None if matches!(form, Form::Perhaps(..)) => Ok(()),
                    None => Err(()),
                }
            }
            Form::IfStatus(status, forms) if self.status == status => self.all(forms),
            Form::IfStatus(..) => Ok(()),
            Form::Attributes => self.attributes(),
        }
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, ()> {
        match self.number(name)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests;
