mod naming;

use super::{MOUNT, NFS2, NFS3, NFS4, PORT_MAPPER, Protection, Unreduced, encrypted, fields, walk};
use crate::fields::Field;
use naming::{bytes, shown};
use proptest::prelude::*;
use rdmascope_analysis::names;
use rdmascope_capture_agent::Capture;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::interval::Intervals;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_tests::samples;
use rdmascope_xdr::language::{Form, Language, Type};

fn all_captured(bytes: &[u8]) -> Intervals {
    let mut captured = Intervals::default();
    captured.insert(0, bytes.len() as u64);
    captured
}

pub(super) fn of(language: &'static Language, name: &str, bytes: &[u8]) -> Vec<Field> {
    let captured = all_captured(bytes);
    let of = language.named(name).expect("the type exists");
    let body = Unreduced { bytes, length: bytes.len() as u64, captured: &captured };
    walk(language, of, Protection::None, body, 0)
}

/// Each field as a line: indentation, name, value, bytes.
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

/// The first byte after the RPC header. A call has XID, type, version, program, version, procedure,
/// credential and verifier; a reply has XID, type, status, verifier and status (RFC 5531, section
/// 9).
fn after_header(bytes: &[u8], of_reply: bool) -> usize {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let auth = |at: usize| at + 8 + word(at + 4).next_multiple_of(4);
    if of_reply { auth(12) + 4 } else { auth(auth(24)) }
}

fn transactions(name: &str, mut take: impl FnMut(&Transaction)) {
    let mut capture =
        Capture::open(&samples::folder().join(format!("{name}.pcap"))).expect("the sample exists");
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

/// Every message of every sample is parsed exactly to its last byte.
#[test]
fn samples_are_parsed_to_the_last_byte() {
    let (mut messages, mut made) = (0, 0);
    // RELIABLE_REPLY is excluded: it has replies that the requester did not pull.
    for name in samples::MOUNTS {
        transactions(name, |transaction| {
            for of_reply in [false, true] {
                let message = transaction.message(of_reply).expect("the sample has all of it");
                let body =
                    Unreduced { bytes: &message.bytes, length: message.length, captured: &message.captured };
                let at = after_header(&message.bytes, of_reply);
                let found = fields(transaction, of_reply, body, at).expect("it is NFS");
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
fn a_failed_nfsv3_lookup() {
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
    assert_eq!(lines(&of(&NFS3, "LOOKUP3res", &bytes)).join("\n"), expected);
}

/// Written by hand from RFC 8881, sections 16.2 and 18.7, and RFC 7863: type and size, and an
/// unknown attribute.
#[test]
fn nfsv4_attributes() {
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
        attribute 95: unknown: 8 bytes from here on [52..60]
rest: 4 bytes after the last field [60..64]";
    assert_eq!(lines(&of(&NFS4, "COMPOUND4res", &bytes)).join("\n"), expected);
}

/// A directory with two entries, the second of which is truncated.
#[test]
fn truncation_ends_the_fields() {
    let words: [u32; 14] = [0, 0, 1, 2, 1, 0, 7, 3, 0x6162_6300, 0, 9, 1, 0, 8];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    let found = lines(&of(&NFS3, "READDIR3res", &bytes)).join("\n");
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
    // Words in a hole of the capture cannot be parsed, but opaque data can.
    let words: [u32; 8] = [0, 0, 4, 1, 4, 0, 0, 5];
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    let mut captured = Intervals::default();
    captured.insert(0, 20);
    captured.insert(24, 32);
    let read = NFS3.named("READ3res").unwrap();
    let found =
        walk(&NFS3, read, Protection::None, Unreduced { bytes: &bytes, length: 32, captured: &captured }, 0);
    let expected = "\
status: NFS3_OK (0) [0..4]
file_attributes [4..8]
  attributes_follow: no [4..8]
count: 4 [8..12]
eof: yes [12..16]
data: 4 bytes, 4 of them missing from the capture [16..24]
rest: 8 bytes after the last field [24..32]";
    assert_eq!(lines(&found).join("\n"), expected);
}

/// Each operation and each attribute of version 4 has its types: RFC 7863 and RFC 8276 have
/// operations 3 to 75, and these with RFC 8275 and RFC 9754 attributes 0 to 86.
#[test]
fn all_nfsv4_operations_and_attributes_have_types() {
    // The parser ensures that each has a type.
    let missing: Vec<u32> = (0..=86).filter(|number| NFS4.attribute(*number).is_none()).collect();
    assert_eq!(missing, Vec::<u32>::new());
    assert!(NFS4.attribute(87).is_none());
    let index = |name: &str| match NFS4.named(name) {
        Some(Type::Named(index)) => *index,
        other => panic!("{name}: {other:?}"),
    };
    for name in ["nfs_argop4", "nfs_resop4"] {
        let Form::Union { arms, .. } = &NFS4.defined(index(name)).form else { panic!("{name}") };
        let mut found: Vec<u32> = arms.iter().flat_map(|(values, _)| values.clone()).collect();
        found.sort_unstable();
        let expected: Vec<u32> = (3..=75).chain([10044]).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// Statuses have the same names as in lists and filters of transactions.
#[test]
fn status_names_match_the_analysis() {
    for (language, version, name, least) in
        [(&NFS2, 2, "stat", 18), (&NFS3, 3, "nfsstat3", 29), (&NFS4, 4, "nfsstat4", 100)]
    {
        let Some(Type::Named(index)) = language.named(name) else { panic!("{name}") };
        let Form::Enumeration(values) = &language.defined(*index).form else { panic!("{name}") };
        assert!(values.len() >= least, "{name}: {}", values.len());
        for (value, name) in values {
            assert_eq!(names::status_name(100_003, version, *value), Some(*name));
        }
    }
}

/// Written by hand from RFC 1813, appendix I, section 5.2.1: MNT of a path, and a handle of four
/// bytes with two flavors.
#[test]
fn mount() {
    let path = [4, 0x2f65_7870];
    assert_eq!(lines(&of(&MOUNT, "dirpath", &bytes(&path))), ["dirpath: \"/exp\" [0..8]"]);
    let mounted = [0, 4, 0x0102_0304, 2, 1, 390_004];
    let expected = "\
fhs_status: MNT3_OK (0) [0..4]
fhandle: 0x01020304 [4..12]
auth_flavors: 2 entries [12..24]
  0: 1 (AUTH_SYS) [16..20]
  1: 390004 (RPCSEC_GSS_KRB5I) [20..24]";
    assert_eq!(lines(&of(&MOUNT, "mountres3", &bytes(&mounted))).join("\n"), expected);
    assert_eq!(shown(&MOUNT, "mountres3", &[13]), "fhs_status: MNT3ERR_ACCES (13)");
    // EXPORT: one directory for two groups. DUMP: no mounts.
    let exported = [1, 1, 0x2f00_0000, 1, 1, 0x6100_0000, 1, 1, 0x6200_0000, 0, 0];
    let expected = "\
exports: 1 entry
  0
    ex_dir: \"/\"
    ex_groups: 2 entries
      0
        gr_name: \"a\"
      1
        gr_name: \"b\"";
    assert_eq!(shown(&MOUNT, "exports", &exported), expected);
    assert_eq!(shown(&MOUNT, "mountlist", &[0]), "mountlist: 0 entries");
    // Version 1 has a status of UNIX and handles of 32 bytes.
    let mounted = [0, 1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(lines(&of(&MOUNT, "fhstatus", &bytes(&mounted)))[1].split(": ").next(), Some("directory"));
    assert_eq!(lines(&of(&MOUNT, "fhstatus", &bytes(&[2]))), ["status: 2 [0..4]"]);
}

/// Written by hand from RFC 1833, sections 3.2 and 2.2.1: where NFS listens on RDMA.
#[test]
fn port_mapper() {
    let mapping = [100_003, 3, 6, 0];
    assert_eq!(shown(&PORT_MAPPER, "mapping", &mapping), "prog: 100003\nvers: 3\nprot: 6 (TCP)\nport: 0");
    assert_eq!(shown(&PORT_MAPPER, "port", &[20_049]), "port: 20049");
    let rpcb = [100_003, 3, 4, 0x7264_6d61, 0, 0];
    assert_eq!(
        shown(&PORT_MAPPER, "rpcb", &rpcb),
        "r_prog: 100003\nr_vers: 3\nr_netid: \"rdma\"\nr_addr: \"\"\nr_owner: \"\""
    );
}

/// Written by hand from RFC 1094, sections 2.2.5 and 2.3.5: a directory of mode 040755, with times
/// in microseconds.
#[test]
fn an_nfsv2_lookup() {
    let mut words = vec![0];
    words.extend([7; 8]);
    words.extend([2, 0o040_755, 3, 0, 0, 4096, 4096, 0, 8, 5, 77, 10, 1, 20, 2, 30, 3]);
    let found = shown(&NFS2, "diropres", &words);
    let expected = "\
attributes
  type: NFDIR (2)
  mode: 040755 (drwxr-xr-x)
  nlink: 3
  uid: 0
  gid: 0
  size: 4096
  blocksize: 4096
  rdev: 0
  blocks: 8
  fsid: 5
  fileid: 77
  atime: 10.000001 s (1970-01-01T00:00:10.000001000Z)
    seconds: 10
    useconds: 1";
    assert!(found.starts_with("status: NFS_OK (0)\nfile: 0x0000000700000007"), "{found}");
    assert!(found.contains(expected), "{found}");
    // SETATTR uses -1 for attributes that it does not set.
    assert!(shown(&NFS2, "sattr", &[u32::MAX; 8]).starts_with("mode: 037777777777 (not to be set)\n"));
    // The XDR description has all procedures that the analysis knows.
    for number in 0..18 {
        assert!(NFS2.procedure(100_003, 2, number).is_some(), "{number}");
    }
}

/// Written by hand from RFC 2203, section 5.3.2.2, around a GETATTR of RFC 1813: the body has a
/// length and begins with the sequence number; a checksum follows it.
#[test]
fn arguments_with_integrity() {
    let words = [16, 9, 5, 0x0102_0304, 0x0500_0000, 5, 0x1112_1314, 0x1500_0000];
    let of = |name: &str, bytes: &[u8]| {
        let captured = all_captured(bytes);
        let body = Unreduced { bytes, length: bytes.len() as u64, captured: &captured };
        let of = NFS3.named(name).expect("the type exists");
        lines(&walk(&NFS3, of, Protection::Integrity, body, 0)).join("\n")
    };
    let expected = "\
databody_integ: 16 bytes [0..20]
  length: 16 [0..4]
  seq_num: 9 [4..8]
  object: 0x0102030405 [8..20]
    data: 0x0102030405 [8..20]
checksum: 0x1112131415 [20..32]";
    assert_eq!(of("GETATTR3args", &bytes(&words)), expected);
    // A body longer than the arguments, and one shorter. Bytes after the arguments are not part of
    // them.
    let mut longer = words.to_vec();
    longer[0] = 20;
    longer.insert(5, 0);
    let found = of("GETATTR3args", &bytes(&longer));
    assert!(
        found.contains("\n  rest: 4 bytes after the last field [20..24]\nchecksum: 0x1112131415"),
        "{found}"
    );
    let mut shorter = words.to_vec();
    shorter[0] = 8;
    let found = of("GETATTR3args", &bytes(&shorter));
    assert!(found.contains("  stop: ") && !found.contains("checksum"), "{found}");
    // A length beyond the message.
    let found = of("GETATTR3args", &bytes(&[u32::MAX, 9]));
    assert!(found.contains("  stop: ") && !found.contains("seq_num"), "{found}");
}

/// RFC 2203, section 5.3.2.3: only the length can be read.
#[test]
fn arguments_with_privacy() {
    let bytes = bytes(&[5, 0x1112_1314, 0x1500_0000]);
    let captured = all_captured(&bytes);
    let body = Unreduced { bytes: &bytes, length: bytes.len() as u64, captured: &captured };
    assert_eq!(lines(&encrypted(body, 0)), ["databody_priv: 5 bytes, encrypted by RPCSEC_GSS [0..12]"]);
}

proptest! {
    /// With any bytes, of which any subset was captured, the walk ends, and every field is within
    /// the message.
    #[test]
    fn fields_of_any_bytes_are_within_the_message(
        bytes in proptest::collection::vec(prop_oneof![3 => 0u8..4, 1 => any::<u8>()], 0..400),
        from in 0u64..400, length in 0u64..100, more in 0u64..100, which in 0usize..10, is_protected in any::<bool>(),
    ) {
        let mut captured = Intervals::default();
        captured.insert(0, from.min(bytes.len() as u64));
        captured.insert((from + length).min(bytes.len() as u64), bytes.len() as u64);
        let (language, name) = [
            (&NFS4, "COMPOUND4args"), (&NFS4, "COMPOUND4res"), (&NFS4, "CB_COMPOUND4args"),
            (&NFS3, "READDIRPLUS3res"), (&NFS3, "CREATE3args"), (&NFS3, "GETACL3res"),
            (&NFS2, "readdirres"), (&MOUNT, "exports"), (&MOUNT, "mountres3"), (&PORT_MAPPER, "rpcblist"),
        ][which];
        let protection = if is_protected { Protection::Integrity } else { Protection::None };
        let body = Unreduced { bytes: &bytes, length: bytes.len() as u64 + more, captured: &captured };
        let found = walk(language, language.named(name).unwrap(), protection, body, 0);
        fn within(fields: &[Field], end: usize) -> bool {
            fields.iter().all(|field| {
                field.range.as_ref().is_none_or(|range| range.start <= range.end && range.end <= end)
                    && within(&field.children, end)
            })
        }
        prop_assert!(within(&found, bytes.len() + more as usize), "{:#?}", lines(&found));
    }
}
