use super::language::{Form, Language};
use super::{VERSION_3, VERSION_4, Whole, fields, walk};
use crate::fields::Field;
use crate::names;
use proptest::prelude::*;
use rdmascope_capture_agent::Capture;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::interval::Intervals;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_tests::samples;

fn whole(bytes: &[u8]) -> Intervals {
    let mut captured = Intervals::default();
    captured.insert(0, bytes.len() as u64);
    captured
}

pub(super) fn of(language: &'static Language, name: &str, bytes: &[u8]) -> Vec<Field> {
    let captured = whole(bytes);
    let of = language.named(name).expect("it is there");
    walk(language, of, Whole { bytes, length: bytes.len() as u64, captured: &captured }, 0)
}

/// Each field as a line: what it is in, its name, its value, its bytes.
pub(super) fn lines(fields: &[Field]) -> Vec<String> {
    fn put(fields: &[Field], indent: usize, lines: &mut Vec<String>) {
        for field in fields {
            let range = field
                .range
                .clone()
                .map_or(String::new(), |range| format!(" [{}..{}]", range.start, range.end));
            let value = if field.shown().is_empty() { String::new() } else { format!(": {}", field.shown()) };
            lines.push(format!("{}{}{value}{range}", "  ".repeat(indent), field.name));
            put(&field.children, indent + 1, lines);
        }
    }
    let mut all = Vec::new();
    put(fields, 0, &mut all);
    all
}

fn has_stop(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.stop.is_some() || field.name == "rest" || has_stop(&field.children))
}

fn leaves(fields: &[Field]) -> usize {
    fields.iter().map(|field| if field.children.is_empty() { 1 } else { leaves(&field.children) }).sum()
}

/// The first byte behind the RPC header: behind XID, type, version, program, version, procedure, credential and verifier of a call; behind XID, type, status,
/// verifier and status of a reply (RFC 5531, section 9).
fn behind_header(bytes: &[u8], of_reply: bool) -> usize {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let auth = |at: usize| at + 8 + word(at + 4).next_multiple_of(4);
    if of_reply { auth(12) + 4 } else { auth(auth(24)) }
}

fn transactions(name: &str, mut take: impl FnMut(&Transaction)) {
    let mut capture =
        Capture::open(&samples::folder().join(format!("{name}.pcap"))).expect("the sample is there");
    let keep = Keep { steps: false, contents: true };
    let mut engine = Engine::new(Config { keep, ..Config::default() });
    let mut each = |event: Event<'_>| {
        if let Event::Transaction(transaction) = event {
            take(transaction);
        }
    };
    while let Some(record) = capture.next().expect("it can be read") {
        engine.handle(&record, &mut each);
    }
    engine.finish(&mut each);
}

/// Every message of every sample is read to its last byte, and no further: none has a byte too few or too many for its type.
#[test]
fn samples_are_read_to_their_last_byte() {
    let (mut messages, mut made) = (0, 0);
    for name in samples::ALL {
        transactions(name, |transaction| {
            for of_reply in [false, true] {
                let message = transaction.message(of_reply).expect("the sample has all of it");
                let whole =
                    Whole { bytes: &message.bytes, length: message.length, captured: &message.captured };
                let at = behind_header(&message.bytes, of_reply);
                let found = fields(transaction, of_reply, whole, at).expect("it is NFS");
                assert!(!has_stop(&found), "{name} {}: {:#?}", transaction.number, lines(&found));
                if let (Some(first), Some(last)) = (found.first(), found.last()) {
                    let ends = [first.range.as_ref().unwrap().start, last.range.as_ref().unwrap().end];
                    assert_eq!(ends, [at, message.length as usize], "{name} {}", transaction.number);
                } else {
                    assert_eq!(at as u64, message.length, "{name} {}: nothing", transaction.number);
                }
                messages += 1;
                made += leaves(&found);
            }
        });
    }
    assert_eq!(messages, 1720);
    assert!(made > 30_000, "{made}");
}

/// Written by hand from RFC 1813, sections 3.3.3 and 2.5.
#[test]
fn a_lookup_that_fails() {
    let bytes: Vec<u8> =
        [2u32, 1, 2, 0o755, 3, 0, 0, 0, 4096, 0, 4096, 0, 0, 0, 5, 0, 7, 10, 1, 20, 2, 30, 3]
            .into_iter()
            .flat_map(u32::to_be_bytes)
            .collect();
    let expected = "\
status: NFS3ERR_NOENT (2) [0..4]
dir_attributes [4..92]
  attributes_follow: yes [4..8]
  type: NF3DIR (2) [8..12]
  mode: 0755 (rwxr-xr-x) [12..16]
  nlink: 3 [16..20]
  uid: 0 [20..24]
  gid: 0 [24..28]
  size: 4096 [28..36]
  used: 4096 [36..44]
  rdev [44..52]
    specdata1: 0 [44..48]
    specdata2: 0 [48..52]
  fsid: 5 [52..60]
  fileid: 7 [60..68]
  atime: 10.000000001 s (1970-01-01T00:00:10.000000001Z) [68..76]
    seconds: 10 [68..72]
    nseconds: 1 [72..76]
  mtime: 20.000000002 s (1970-01-01T00:00:20.000000002Z) [76..84]
    seconds: 20 [76..80]
    nseconds: 2 [80..84]
  ctime: 30.000000003 s (1970-01-01T00:00:30.000000003Z) [84..92]
    seconds: 30 [84..88]
    nseconds: 3 [88..92]";
    assert_eq!(lines(&of(&VERSION_3, "LOOKUP3res", &bytes)).join("\n"), expected);
}

/// Written by hand from RFC 8881, sections 16.2 and 18.7, and RFC 7863: type and size, and an attribute that is not known.
#[test]
fn attributes_of_version_4() {
    let words: [u32; 16] = [
        0,
        0,
        1, // status, no tag, one result
        9,
        0, // GETATTR, NFS4_OK
        3,
        1 << 1 | 1 << 4,
        0,
        1 << 31, // a bitmap of three words: type, size, 95
        20,
        1,
        0,
        77,
        5,
        6, // attributes: a file, of 77 bytes, and two words
        0xffff_ffff,
    ];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    let expected = "\
status: NFS4_OK (0) [0..4]
tag: \"\" [4..8]
resarray: 1 entry [8..60]
  GETATTR [12..60]
    resop: OP_GETATTR (9) [12..16]
    status: NFS4_OK (0) [16..20]
    obj_attributes [20..60]
      attrmask: type size 95 [20..36]
      attr_vals: 20 bytes [36..60]
        type: NF4REG (1) [40..44]
        size: 77 [44..52]
        attribute 95: not known: 8 bytes from here on [52..60]
rest: 4 bytes behind the last field [60..64]";
    assert_eq!(lines(&of(&VERSION_4, "COMPOUND4res", &bytes)).join("\n"), expected);
}

/// A directory of two entries, of which the second is cut off.
#[test]
fn what_is_cut_off_ends_the_fields() {
    let words: [u32; 14] = [0, 0, 1, 2, 1, 0, 7, 3, 0x6162_6300, 0, 9, 1, 0, 8];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    let found = lines(&of(&VERSION_3, "READDIR3res", &bytes)).join("\n");
    let expected = "\
status: NFS3_OK (0) [0..4]
dir_attributes [4..8]
  attributes_follow: no [4..8]
cookieverf: 0x0000000100000002 [8..16]
reply [16..56]
  entries [16..56]
    0: \"abc\" [20..44]
      fileid: 7 [20..28]
      name: \"abc\" [28..36]
      cookie: 9 [36..44]
    1 [48..56]
      fileid: 8 [48..56]
      stop: upper layer";
    assert!(found.starts_with(expected), "{found}");
    // Where the capture has a hole, words cannot be read, and opaque data can.
    let words: [u32; 8] = [0, 0, 4, 1, 4, 0, 0, 5];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    let mut captured = Intervals::default();
    captured.insert(0, 20);
    captured.insert(24, 32);
    let read = VERSION_3.named("READ3res").unwrap();
    let found = walk(&VERSION_3, read, Whole { bytes: &bytes, length: 32, captured: &captured }, 0);
    let expected = "\
status: NFS3_OK (0) [0..4]
file_attributes [4..8]
  attributes_follow: no [4..8]
count: 4 [8..12]
eof: yes [12..16]
data: 4 bytes, of which the capture lacks 4 [16..24]
rest: 8 bytes behind the last field [24..32]";
    assert_eq!(lines(&found).join("\n"), expected);
}

/// Each operation and each attribute of version 4 has its types: RFC 7863 and RFC 8276 have operations 3 to 75, and these with RFC 8275 and RFC 9754 attributes 0 to 86.
#[test]
fn nothing_of_version_4_is_missing() {
    // That each has a type, the parser sees to.
    let missing: Vec<u32> = (0..=86).filter(|number| VERSION_4.attribute(*number).is_none()).collect();
    assert_eq!(missing, Vec::<u32>::new());
    assert!(VERSION_4.attribute(87).is_none());
    let index = |name: &str| match VERSION_4.named(name) {
        Some(super::language::Type::Named(index)) => *index,
        other => panic!("{name}: {other:?}"),
    };
    for name in ["nfs_argop4", "nfs_resop4"] {
        let Form::Union { arms, .. } = &VERSION_4.defined(index(name)).form else { panic!("{name}") };
        let mut found: Vec<u32> = arms.iter().flat_map(|(values, _)| values.clone()).collect();
        found.sort_unstable();
        let expected: Vec<u32> = (3..=75).chain([10044]).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// The names of statuses are those by which transactions are listed and filtered.
#[test]
fn statuses_have_the_names_of_other_lines() {
    for (language, version, name, least) in
        [(&VERSION_3, 3, "nfsstat3", 29), (&VERSION_4, 4, "nfsstat4", 100)]
    {
        let Some(super::language::Type::Named(index)) = language.named(name) else { panic!("{name}") };
        let Form::Enumeration(values) = &language.defined(*index).form else { panic!("{name}") };
        assert!(values.len() >= least, "{name}: {}", values.len());
        for (value, name) in values {
            assert_eq!(names::status_name(100_003, version, *value), Some(*name));
        }
    }
}

proptest! {
    /// Whatever the bytes are, and whichever of them are there, the walk ends, and every field lies in the message.
    #[test]
    fn any_bytes(
        bytes in proptest::collection::vec(prop_oneof![3 => 0u8..4, 1 => any::<u8>()], 0..400),
        from in 0u64..400, length in 0u64..100, more in 0u64..100, which in 0usize..6,
    ) {
        let mut captured = Intervals::default();
        captured.insert(0, from.min(bytes.len() as u64));
        captured.insert((from + length).min(bytes.len() as u64), bytes.len() as u64);
        let (language, name) = [
            (&VERSION_4, "COMPOUND4args"), (&VERSION_4, "COMPOUND4res"), (&VERSION_4, "CB_COMPOUND4args"),
            (&VERSION_3, "READDIRPLUS3res"), (&VERSION_3, "CREATE3args"), (&VERSION_3, "GETACL3res"),
        ][which];
        let whole = Whole { bytes: &bytes, length: bytes.len() as u64 + more, captured: &captured };
        let found = walk(language, language.named(name).unwrap(), whole, 0);
        fn within(fields: &[Field], end: usize) -> bool {
            fields.iter().all(|field| {
                field.range.as_ref().is_none_or(|range| range.start <= range.end && range.end <= end)
                    && within(&field.children, end)
            })
        }
        prop_assert!(within(&found, bytes.len() + more as usize), "{:#?}", lines(&found));
    }
}
