//! Comparison of the walks over arguments and results with the XDR descriptions: random values of
//! every procedure and operation, with each arm of each union.
//!
//! `rdmascope-xdr` has the descriptions. The walks are written by hand, because they run on every
//! message. Here they read values generated from the descriptions, inline and reduced. They must
//! stop exactly after the last byte, and find the DDP-eligible items where the descriptions have
//! them.

mod maker;

use maker::{Leaf, Made, Maker, OPERATIONS, arms};
use rdmascope_dissector::ulb::{self, Chunks, DdpEligible, Details, Operation, Payload, Place, Procedure};
use rdmascope_wire::rpc::program;
use rdmascope_wire::{Layer, Stop};
use rdmascope_xdr::language::{Form, Language, Type};
use rdmascope_xdr::{CALLBACK, NFS2, NFS3, NFS4};
use std::collections::BTreeSet;

/// The number of values generated for each message.
const ROUNDS: u64 = 2000;

/// The DDP-eligible members: RFC 8267, section 4 for version 3 and section 6.1 for version 4.
const ELIGIBLE: [(&str, &str); 8] = [
    ("WRITE3args", "data"),
    ("READ3resok", "data"),
    ("READLINK3resok", "data"),
    ("symlinkdata3", "symlink_data"),
    ("WRITE4args", "data"),
    ("READ4resok", "data"),
    ("READLINK4resok", "link"),
    ("createtype4", "linkdata"),
];

/// The arguments or the results of a procedure.
struct Message {
    language: &'static Language,
    procedure: Procedure,
    of_reply: bool,
    of: &'static Type,
}

impl Message {
    /// The messages of all procedures with a description.
    fn all() -> Vec<Message> {
        let mut found = Vec::new();
        let programs = [
            (&*NFS2, program::NFSACL, 2),
            (&NFS3, program::NFS, 3),
            (&NFS3, program::NFSACL, 3),
            (&NFS4, program::NFS, 4),
            (&NFS4, CALLBACK, 1),
        ];
        for (language, program, version) in programs {
            for number in 0..32 {
                let Some(described) = language.procedure(program, version, number) else { continue };
                let procedure = Procedure { program, version, number };
                for (of_reply, of) in [(false, &described.arguments), (true, &described.results)] {
                    found.push(Message { language, procedure, of_reply, of });
                }
            }
        }
        // NULL to GETXATTRDIR of NFSACL version 2, NULL to COMMIT, NULL to GETXATTRDIR of version 3,
        // and NULL and COMPOUND twice.
        assert_eq!(found.len(), 2 * (6 + 22 + 4 + 2 + 2));
        found
    }

    fn name(&self) -> String {
        let name = ulb::procedure_name(self.procedure).expect("the procedure has a row");
        format!(
            "{}.{} {name} {}",
            self.procedure.program,
            self.procedure.version,
            if self.of_reply { "results" } else { "arguments" }
        )
    }

    fn read(&self, payload: &mut Payload<'_>) -> (ulb::Outcome, Details) {
        let mut details = Details::default();
        let outcome = match self.of_reply {
            false => ulb::call(self.procedure, payload, &mut details),
            true => ulb::reply(self.procedure, payload, &mut details).map(|_| ()),
        };
        (outcome, details)
    }
}

#[test]
fn walks_parse_described_values_completely() {
    let mut eligible = BTreeSet::new();
    for message in Message::all() {
        let mut maker = Maker::new(message.language, 1);
        for round in 0..ROUNDS {
            let made = maker.value(message.of);
            let place = || format!("{} round {round}: {:02x?}", message.name(), made.bytes);
            let items = items(&made);
            let chunks = Chunks::Read(&[]);
            let mut payload =
                Payload::new(&made.bytes, if message.of_reply { Chunks::Write(&[]) } else { chunks });
            let (outcome, details) = message.read(&mut payload);
            assert_eq!((outcome, payload.reader().rest().len()), (Ok(()), 0), "{}", place());
            // The counts of READ and WRITE repeat the length of the data, which chance does not.
            let repeats = message.procedure.version == 3 && matches!(message.procedure.number, 6 | 7);
            assert!(repeats || payload.disallowed().is_none(), "{}: {:?}", place(), payload.disallowed());
            compare(&message, &made, &items, &details, &place);
            for (operation, item) in details.operations.iter().zip(&items) {
                let found = found(operation, message.of_reply);
                let expected = item.as_ref().map(|(at, _)| Place::Inline(*at));
                assert_eq!(found.map(|item| item.place), expected, "{} {}", operation.name(), place());
                eligible.extend(item.is_some().then(|| format!("{:?}", operation.kind)));
            }
            reduced(&message, &made, &items, &place);
        }
        let (expected, arms) = (arms(message.language, message.of), maker.arms());
        assert_eq!(
            expected.difference(&arms).collect::<Vec<_>>(),
            Vec::<&maker::Arm>::new(),
            "{}",
            message.name()
        );
    }
    assert_eq!(eligible.len(), 8, "{eligible:?}");
}

/// Reads the same value with its items in chunks.
fn reduced(message: &Message, made: &Made, items: &[Option<(u32, u32)>], place: &impl Fn() -> String) {
    let (mut stream, mut copied) = (Vec::new(), 0);
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut places = Vec::new();
    for item in items {
        // A Read chunk without bytes is never sent.
        let Some((at, length)) = item.filter(|(_, length)| message.of_reply || *length > 0) else {
            places.push(None);
            continue;
        };
        stream.extend(&made.bytes[copied..at as usize]);
        copied = (at + length).next_multiple_of(4) as usize;
        places.push(Some(if message.of_reply {
            Place::WriteChunk(writes.len() as u16)
        } else {
            Place::ReadChunk(reads.len() as u16)
        }));
        reads.push((at, u64::from(length), reads.len() as u16));
        writes.push(u64::from(length));
    }
    stream.extend(&made.bytes[copied..]);
    let chunks = if message.of_reply { Chunks::Write(&writes) } else { Chunks::Read(&reads) };
    let mut payload = Payload::new(&stream, chunks);
    let (outcome, details) = message.read(&mut payload);
    assert_eq!((outcome, payload.reader().rest().len()), (Ok(()), 0), "reduced {}", place());
    assert_eq!(payload.position(), made.bytes.len() as u64, "reduced {}", place());
    compare(message, made, items, &details, place);
    for (operation, place) in details.operations.iter().zip(places) {
        let found = found(operation, message.of_reply).map(|item| item.place);
        assert!(place.is_none() || found == place, "{}: {found:?}, {place:?}", operation.name());
    }
}

/// Checks that the operations have the generated numbers, and the items the generated positions and
/// lengths.
fn compare(
    message: &Message,
    made: &Made,
    items: &[Option<(u32, u32)>],
    details: &Details,
    place: &impl Fn() -> String,
) {
    let is_compound = message.procedure.is_compound();
    let codes = made.operations.iter().map(|at| match is_compound {
        true => u32::from_be_bytes(made.bytes[*at..*at + 4].try_into().expect("four bytes")),
        false => message.procedure.number,
    });
    let read: Vec<u32> = details.operations.iter().map(Operation::code).collect();
    assert_eq!(read, codes.collect::<Vec<_>>(), "{}", place());
    for (operation, item) in details.operations.iter().zip(items) {
        let found = found(operation, message.of_reply).map(|item| (item.position, item.length));
        assert_eq!(found, *item, "{} {}", operation.name(), place());
        let side = if message.of_reply { DdpEligible::Result } else { DdpEligible::Argument };
        assert!(item.is_none() || operation.kind.ddp_eligible() == side, "{}", operation.name());
    }
    if message.of_reply
        && details.operations.iter().filter(|operation| operation.kind.is_readdir()).count() == 1
    {
        let kept =
            details.entries.iter().map(|entry| (details.bytes(entry.name), details.bytes(entry.file_handle)));
        assert_eq!(kept.collect::<Vec<_>>(), entries(made), "{}", place());
    }
}

fn found(operation: &Operation, of_reply: bool) -> Option<ulb::Item> {
    let (here, other) = match of_reply {
        true => (operation.result_item, operation.argument_item),
        false => (operation.argument_item, operation.result_item),
    };
    assert_eq!(other, None, "{}", operation.name());
    here
}

/// The first byte and the length of the DDP-eligible item of each operation.
fn items(made: &Made) -> Vec<Option<(u32, u32)>> {
    let ends = made.operations.iter().skip(1).copied().chain([made.bytes.len() + 1]);
    let of = |(start, end): (&usize, usize)| {
        // An item without bytes begins at the end of its operation, after its count.
        let eligible =
            made.leaves.iter().filter(|leaf| ELIGIBLE.contains(&leaf.member)).map(|leaf| &leaf.range);
        let mut items = eligible.filter(|range| (*start..end).contains(&(range.start - 4)));
        let item = items.next().map(|range| (range.start as u32, range.len() as u32));
        assert_eq!(items.next(), None, "an operation has at most one item");
        item
    };
    made.operations.iter().zip(ends).map(of).collect()
}

/// Directory entries with a name and a file handle.
fn entries(made: &Made) -> Vec<(&[u8], &[u8])> {
    let (mut entries, mut name) = (Vec::new(), &[][..]);
    for leaf in &made.leaves {
        let bytes = &made.bytes[leaf.range.clone()];
        match leaf.member {
            ("entry4" | "entryplus3", "name") => name = bytes,
            ("fattr4", "filehandle") | ("nfs_fh3", "data") if !name.is_empty() && !bytes.is_empty() => {
                entries.push((name, bytes));
                name = &[];
            }
            _ => {}
        }
    }
    entries
}

/// In a union without a default, the walk stops at a discriminant without an arm.
#[test]
fn walks_stop_at_discriminants_without_arm() {
    let (mut expected, mut stopped) = (BTreeSet::new(), BTreeSet::new());
    for message in Message::all() {
        expected.extend(closed_unions(message.language, message.of));
        let mut maker = Maker::new(message.language, 2);
        for round in 0..ROUNDS {
            let made = maker.wrong_value(message.of);
            let Some(wrong) = made.wrong else { continue };
            let chunks = if message.of_reply { Chunks::Write(&[]) } else { Chunks::Read(&[]) };
            let (outcome, _) = message.read(&mut Payload::new(&made.bytes, chunks));
            let is_discriminant = |leaf: &&Leaf| leaf.range == (wrong..wrong + 4);
            let member = made.leaves.iter().find(is_discriminant).expect("the discriminant is a leaf").member;
            let malformed = Err(Stop::malformed(Layer::UpperLayer, wrong));
            let place =
                || format!("{} round {round}: {member:?} at {wrong} of {:02x?}", message.name(), made.bytes);
            assert_eq!(outcome, malformed, "{}", place());
            stopped.insert(member.0);
        }
    }
    assert_eq!(stopped, expected);
    assert!(expected.contains("createhow4") && expected.contains("post_op_attr"), "{expected:?}");
}

/// A boolean is 0 or 1, and a constant is in its enumeration (RFC 4506, sections 4.3 and 4.4).
#[test]
fn words_outside_their_enumeration_are_noted() {
    let mut noted: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut missed: BTreeSet<(&str, &str)> = BTreeSet::new();
    // The walks of version 2 skip attributes.
    for message in Message::all().into_iter().filter(|message| message.procedure.version != 2) {
        let mut maker = Maker::new(message.language, 3);
        for round in 0..ROUNDS {
            let mut made = maker.value(message.of);
            let Some(at) = made.constants.get(round as usize % made.constants.len().max(1)).copied() else {
                continue;
            };
            made.bytes[at..at + 4].copy_from_slice(&0x7fff_fff0u32.to_be_bytes());
            let chunks = if message.of_reply { Chunks::Write(&[]) } else { Chunks::Read(&[]) };
            let mut payload = Payload::new(&made.bytes, chunks);
            let (outcome, _) = message.read(&mut payload);
            let member = made.leaves.iter().find(|leaf| leaf.range == (at..at + 4)).map(|leaf| leaf.member);
            let found = outcome.err().or(payload.disallowed()).map(|stop| stop.offset);
            let counts = message.procedure.version == 3 && matches!(message.procedure.number, 6 | 7);
            if found == Some(at) || counts { noted.extend(member) } else { missed.extend(member) }
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
    assert!(noted.contains(&("SEQUENCE4args", "sa_cachethis")), "{noted:?}");
}

/// The unions without a default, except those of operations: unknown operations are handled
/// differently.
fn closed_unions(language: &'static Language, of: &'static Type) -> BTreeSet<&'static str> {
    let is_closed = |union: &&str| match language.named(union) {
        Some(Type::Named(index)) => {
            matches!(language.defined(*index).form, Form::Union { default: None, .. })
        }
        _ => panic!("{union} is not a union"),
    };
    let unions = arms(language, of).into_iter().map(|(union, _)| union);
    unions.filter(is_closed).filter(|union| !OPERATIONS.contains(union)).collect()
}
