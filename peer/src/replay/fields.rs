//! The fields of an RPC message of NFS version 3 or 4, NFSACL version 3 or NFSv4 callbacks.
//!
//! Each field has a kind, which decides whether two implementations must agree on it. Bytes after
//! the described part of a message form one last field, which is not understood. So every byte
//! except padding is in a field, in the count before one, or in a mask of attributes.

mod kinds;

use alloc::vec::Vec;
use core::ops::Range;
pub(super) use kinds::is_required;
use rdmascope_wire::Layer;
use rdmascope_wire::rpc::{self, flavor, program};
use rdmascope_wire::xdr::Reader;
use rdmascope_xdr::language::{Form, Language, Procedure, Type};
use rdmascope_xdr::visit::{Extent, Leaf, Rest, Role, Stopped, Value, Visitor, Walk, Walked};
use rdmascope_xdr::{CALLBACK, NFS3, NFS4};

/// The boolean before a directory entry.
pub(super) const ENTRY: &str = "entry";
/// Whether the directory or the file ends here.
pub(super) const END: &str = "eof";
/// The header of a call, including credential and verifier.
pub(super) const HEADER: &str = "RPC header";
/// The bitmap that selects attributes. It is no field: servers that return different attributes are
/// compared by those that both have.
const MASK: &str = "attrmask";
/// The most fields of one message; the rest of the message is one more.
const MOST_FIELDS: usize = 65_536;

/// Whether two replies to the same call must agree on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// It must be equal.
    Equal,
    /// The Responder grants or chooses it, and another one may choose otherwise: slots, limits,
    /// delegations.
    Granted,
    /// It is the Responder's own: a time, a file ID, free space. No later call names it.
    Own,
    /// A file handle; later calls name it.
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
    /// The ctime that guards an NFSv3 SETATTR.
    ChangeTime,
}

impl Kind {
    /// Whether later calls name it, so that the target's value replaces the recorded one.
    pub const fn is_mapped(self) -> bool {
        !matches!(self, Kind::Equal | Kind::Granted | Kind::Own)
    }
}

/// The location of a field's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the Payload stream.
    Stream(Range<usize>),
    /// In the Write chunk of this index: at most this many bytes.
    Item(usize, usize),
}

/// The encoding of a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// Fixed length.
    Plain,
    /// A count before it and padding after it.
    Counted,
    /// A `bitmap4`: a count of words, then the words.
    Bits,
    /// A `bitmap4` whose bits are attribute numbers.
    Attributes,
}

/// The part of a message that a field belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The message itself: no other Responder may leave this out.
    Message,
    /// The value of the attribute of this number.
    Attribute(u32),
    /// A grant such as a delegation: another Responder may grant something else.
    Grant,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    /// Its operation of the COMPOUND, counted from 0, with its name.
    pub(super) operation: Option<(usize, &'static str)>,
    /// Its name in the XDR description.
    pub(super) name: &'static str,
    /// Whether it must be equal.
    pub(super) kind: Kind,
    /// The location of its bytes.
    pub(super) place: Place,
    /// The encoding of its bytes.
    pub(super) coding: Coding,
    /// The part of the message that it belongs to.
    pub(super) part: Part,
    /// The index of its directory entry.
    pub(super) entry: Option<usize>,
}

impl Field {
    /// Its bytes in a message whose Write chunks hold `items`.
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
    /// In wire order.
    pub(super) list: Vec<Field>,
    /// Whether the whole message was understood. If not, the last field is the rest of the message,
    /// or a field is the rest of some attributes.
    pub(super) understood: bool,
}

/// Program, version and procedure.
pub type Called = (u32, u32, u32);

/// The description of a procedure. `None` if the program is not described or has no such procedure.
fn described((program, version, procedure): Called) -> Option<(&'static Language, &'static Procedure)> {
    let (language, program, version): (&'static Language, _, _) = match (program, version) {
        (program::NFS | program::NFSACL, 3) => (&NFS3, program, version),
        (program::NFS, 4) => (&NFS4, program, version),
        _ if program::is_callback(program) => (&NFS4, CALLBACK, 1),
        _ => return None,
    };
    Some((language, language.procedure(program, version, procedure)?))
}

/// The name of a procedure. `None` if no description has it.
pub fn procedure_name(called: Called) -> Option<&'static str> {
    let (_, procedure) = described(called)?;
    Some(match (called.2, procedure.name) {
        (0, _) => "NULL",
        (_, name) if name.starts_with("CB_") => name,
        (_, name) => name.split_once('_').map_or(name, |(_, name)| name),
    })
}

/// The fields of a whole call after its XID, and its procedure.
pub(super) fn of_call(message: &[u8]) -> (Fields, Option<Called>) {
    let mut reader = Reader::new(message, Layer::UpperLayer);
    let mut reading = Reading::new(&[]);
    let Ok(call) = rpc::Call::parse(&mut reader) else {
        return (reading.end(message, reader.position(), false), None);
    };
    let called = (call.program, call.version, call.procedure);
    let start = reader.position();
    reading.add(HEADER, Kind::Equal, 4..start, Coding::Plain);
    // A message that RPCSEC_GSS protects can be neither parsed nor changed.
    let described = described(called).filter(|_| call.credential.flavor != flavor::RPCSEC_GSS);
    let fields = match described {
        Some((language, procedure)) => reading.walk(language, &procedure.arguments, called, message, start),
        None => reading.end(message, start, false),
    };
    (fields, Some(called))
}

/// The fields after the XID of a reply to a call of this procedure. `items` are the contents of its
/// Write chunks.
pub(super) fn of_reply(called: Option<Called>, stream: &[u8], items: &[Vec<u8>]) -> Fields {
    let mut reader = Reader::new(stream, Layer::UpperLayer);
    let mut reading = Reading::new(items);
    let accepted = reading.accepted(&mut reader);
    match called.and_then(|called| Some((called, described(called)?))) {
        Some((called, (language, procedure))) if accepted.is_some() => {
            reading.walk(language, &procedure.results, called, stream, reader.position())
        }
        _ => reading.end(stream, reader.position(), false),
    }
}

/// The fields that a walk over a message has found.
struct Reading<'m> {
    items: &'m [Vec<u8>],
    /// The number of Write chunks already considered.
    used: usize,
    around: Vec<Around>,
    /// The operation, entry and part of the next field.
    operation: Option<(usize, &'static str)>,
    entry: Option<usize>,
    part: Part,
    /// The number of operations and of entries so far.
    operations: usize,
    entries: usize,
    /// How many of the values in `around` are a single field.
    singles: usize,
    /// The first byte of a value that has begun and is not a field yet.
    begun: Option<usize>,
    /// The last attribute that has begun.
    attribute: u32,
    /// Whether some attributes have no description of their values.
    lacking: bool,
    fields: Vec<Field>,
}

/// A value that the walk has entered.
struct Around {
    /// The entry and part that apply outside of it.
    entry: Option<usize>,
    part: Part,
    /// Its field, if the whole value is one.
    single: Option<Single>,
    /// Whether it is the array of operations of a COMPOUND.
    is_compound: bool,
}

/// The field that a whole value forms.
#[derive(Clone, Copy)]
struct Single {
    name: &'static str,
    kind: Kind,
    coding: Coding,
    /// Its first byte, including the count.
    start: usize,
}

impl Single {
    fn of(value: &Value<'_>, start: usize) -> Single {
        let kind = kinds::of(value).unwrap_or(Kind::Equal);
        let name = match kind {
            Kind::Handle => "file handle",
            Kind::Stateid if value.place.name == "other" => "stateid",
            Kind::Session => "session ID",
            Kind::Client => "client ID",
            _ => value.place.name,
        };
        let coding = match value.type_name() {
            "bitmap4" if name.contains("attr") => Coding::Attributes,
            "bitmap4" => Coding::Bits,
            _ => Coding::Plain,
        };
        Single { name, kind, coding, start }
    }
}

impl<'m> Reading<'m> {
    fn new(items: &'m [Vec<u8>]) -> Reading<'m> {
        Reading {
            items,
            used: 0,
            around: Vec::new(),
            operation: None,
            entry: None,
            part: Part::Message,
            operations: 0,
            entries: 0,
            singles: 0,
            begun: None,
            attribute: 0,
            lacking: false,
            fields: Vec::new(),
        }
    }

    /// Walks over arguments or results that begin at byte `at`.
    fn walk(
        mut self,
        language: &'static Language,
        of: &'static Type,
        called: Called,
        message: &[u8],
        at: usize,
    ) -> Fields {
        let procedure = procedure_name(called).filter(|name| !name.ends_with("COMPOUND"));
        self.operation = procedure.map(|name| (0, name));
        let mut walk = Walk::new(language, message, message.len(), at, self);
        let walked = walk.root(of);
        let at = walk.visitor.begun.take().unwrap_or(walk.at);
        walk.visitor.end(message, at, walked.is_ok())
    }

    /// Adds the bytes from `at` on as a field, and each chunk without an item.
    fn end(mut self, message: &[u8], at: usize, walked: bool) -> Fields {
        let understood = walked && at == message.len() && !self.lacking;
        (self.part, self.entry) = (Part::Message, None);
        if at < message.len() {
            let name = if walked { "bytes after the results" } else { "bytes not understood" };
            self.fields.push(self.field(name, Kind::Equal, Place::Stream(at..message.len()), Coding::Plain));
        }
        self.operation = None;
        for chunk in self.used..self.items.len() {
            let place = Place::Item(chunk, usize::MAX);
            self.fields.push(self.field("bytes of a Write chunk", Kind::Equal, place, Coding::Plain));
        }
        Fields { list: self.fields, understood }
    }

    /// Parses the header of a reply. `None` if the call was not accepted or the results are
    /// encrypted.
    fn accepted(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        reader.skip(4).ok()?;
        self.word(reader, "msg_type")?;
        (self.word(reader, "reply_stat")? == 0).then_some(())?;
        let flavor = self.word(reader, "flavor of the verifier")?;
        let kind = if flavor == flavor::RPCSEC_GSS { Kind::Own } else { Kind::Equal };
        let start = reader.position() + 4;
        let length = reader.opaque().ok()?.len();
        self.add("verifier", kind, start..start + length, Coding::Counted);
        (self.word(reader, "accept_stat")? == 0 && kind == Kind::Equal).then_some(())
    }

    fn word(&mut self, reader: &mut Reader<'_>, name: &'static str) -> Option<u32> {
        let start = reader.position();
        let word = reader.u32().ok()?;
        self.add(name, Kind::Equal, start..start + 4, Coding::Plain);
        Some(word)
    }

    fn field(&self, name: &'static str, kind: Kind, place: Place, coding: Coding) -> Field {
        let Reading { operation, part, entry, .. } = *self;
        Field { operation, name, kind, place, coding, part, entry }
    }

    fn add(&mut self, name: &'static str, kind: Kind, range: Range<usize>, coding: Coding) {
        self.fields.push(self.field(name, kind, Place::Stream(range), coding));
    }

    /// Adds a field unless the limit is reached.
    fn take(&mut self, field: Single, range: Range<usize>) -> Walked {
        if self.fields.len() >= MOST_FIELDS {
            self.begun = Some(field.start);
            return Err(Stopped);
        }
        self.begun = None;
        self.add(field.name, field.kind, range, field.coding);
        Ok(())
    }

    /// Whether a composite value is a single field.
    fn is_single_field(&self, value: &Value<'_>) -> bool {
        let is_single = || matches!(value.type_name(), "nfstime3" | "nfstime4" | "bitmap4");
        self.singles == 0 && (is_single() || kinds::of(value).is_some())
    }

    /// Begins the operation of a COMPOUND that a discriminant selects.
    fn select(&mut self, value: &Value<'_>, number: u32) {
        if !matches!(value.place.name, "argop" | "resop") {
            return;
        }
        let Type::Named(index) = value.is else { return };
        let Form::Enumeration(values) = &NFS4.defined(*index).form else { return };
        let known = values.iter().find(|(known, _)| *known == number);
        let name = known.map_or("unknown operation", |(_, name)| name.trim_start_matches("OP_"));
        self.operation = Some((self.operations, name));
        self.operations += 1;
    }

    /// Skips the Write chunk of a failed READ, which leaves it unused (RFC 8267, section 6.4.1).
    fn pass_unused_chunk(&mut self, value: &Value<'_>, status: u32) {
        let is_unused = self.items.get(self.used).is_some_and(Vec::is_empty);
        self.used += usize::from(status != 0 && is_unused && kinds::is_status_before_item(value));
    }

    /// The part of the message that a value's fields belong to.
    fn part(&mut self, value: &Value<'_>) -> Part {
        match value.place.role {
            Role::Attribute(number) => {
                self.attribute = number;
                Part::Attribute(number)
            }
            _ if kinds::is_grant(value) => Part::Grant,
            _ => self.part,
        }
    }
}

impl Visitor for Reading<'_> {
    fn is_apart(&mut self, value: &Value<'_>, length: u32) -> bool {
        if !kinds::is_item(value) {
            return false;
        }
        let chunk = self.items.get(self.used);
        // RFC 8166, section 4.3.2.1: an item uses the next Write chunk. If that was returned empty,
        // the item is inline.
        let is_apart = chunk.is_some_and(|item| length == 0 || !item.is_empty());
        if is_apart {
            let place = Place::Item(self.used, length as usize);
            self.fields.push(self.field(value.place.name, Kind::Equal, place, Coding::Counted));
            self.begun = None;
        }
        self.used += usize::from(chunk.is_some());
        is_apart
    }

    fn enter(&mut self, value: &Value<'_>, at: usize) -> Walked {
        let single = Some(at).filter(|_| self.is_single_field(value)).map(|start| Single::of(value, start));
        self.singles += usize::from(single.is_some());
        let is_compound =
            matches!(value.is, Type::Array(..)) && matches!(value.place.name, "argarray" | "resarray");
        self.around.push(Around { entry: self.entry, part: self.part, single, is_compound });
        self.part = self.part(value);
        if value.place.role == Role::Entry {
            self.entry = Some(self.entries);
            self.entries += 1;
        }
        Ok(())
    }

    fn leaf(&mut self, value: &Value<'_>, leaf: Leaf, extent: &Extent) -> Walked {
        if self.singles > 0 {
            return Ok(());
        }
        let is_array = matches!(value.is, Type::Array(..));
        if matches!(leaf, Leaf::Length(_)) && !is_array {
            // Opaque data becomes a field with its bytes; attributes become one field for each
            // value.
            self.begun = Some(extent.all.start);
            return Ok(());
        }
        let mut field = Single::of(value, extent.all.start);
        if let Leaf::Flag(_) = leaf {
            field.name = ENTRY;
        }
        if extent.all.start < extent.value.start {
            field.coding = Coding::Counted;
        }
        let part = self.part(value);
        let around = core::mem::replace(&mut self.part, part);
        let taken = self.take(field, extent.value.clone());
        self.part = around;
        if let Leaf::Number(number) = leaf {
            self.select(value, number as u32);
            self.pass_unused_chunk(value, number as u32);
        }
        taken
    }

    fn leave(&mut self, at: usize, walked: Walked) -> Walked {
        let Some(around) = self.around.pop() else { return walked };
        let mut left = walked;
        if let Some(single) = around.single {
            self.singles -= 1;
            left = match walked {
                Ok(()) if single.name == MASK => Ok(()),
                Ok(()) => {
                    let count = if single.coding == Coding::Plain { 0 } else { 4 };
                    self.take(single, single.start + count..at)
                }
                Err(_) => {
                    self.begun = Some(single.start);
                    walked
                }
            };
        }
        if left.is_ok() {
            self.begun = None;
            self.operation = self.operation.filter(|_| !around.is_compound);
        }
        (self.part, self.entry) = (around.part, around.entry);
        left
    }

    fn rest(&mut self, rest: Rest, range: Range<usize>) -> Walked {
        if let Rest::Unknown(number) = rest {
            self.attribute = number;
        }
        self.lacking = true;
        let start = self.begun.take().unwrap_or(range.start);
        let around = core::mem::replace(&mut self.part, Part::Attribute(self.attribute));
        let name = "attributes not understood";
        let field = Single { name, kind: Kind::Equal, coding: Coding::Plain, start };
        let taken = self.take(field, start..range.end);
        self.part = around;
        taken
    }
}

#[cfg(test)]
mod tests;
