//! `export pcapng --anonymize`: the output gives the same results as the original, but has none of
//! its names, addresses and data.

mod binary;
mod world;

use binary::{Pcap, Temporary, json_lines, refused, run, sample, text};
use rdmascope_tests::pcap;
use rdmascope_tests::samples;
use rdmascope_tests::segments::Form;
use rdmascope_wire::icrc;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use world::{World, opaque, word};

const KEY: &[u8] = b"a key for the tests of anonymize";

/// A capture and its anonymized version.
struct Pair {
    original: Temporary,
    anonymous: Temporary,
}

impl Pair {
    fn new(name: &str, capture: &[u8], options: &[&str]) -> Pair {
        let original = Temporary::new(&format!("original-{name}.pcap"), capture);
        let anonymous = Temporary::new(&format!("anonymous-{name}.pcapng"), &[]);
        export(original.path(), anonymous.path(), KEY, options);
        Pair { original, anonymous }
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.anonymous.path()).expect("it was written")
    }
}

fn export(capture: &str, to: &str, key: &[u8], options: &[&str]) {
    let key = Temporary::new(&format!("{}.key", to.rsplit('/').next().expect("a name")), key);
    let arguments = ["export", "pcapng", capture, "--anonymize", "--key", key.path(), "--output", to];
    let output = run(&[&arguments, options].concat());
    assert!(output.status.success(), "{capture}: {}", text(&output.stderr));
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(sample(name)).expect("the sample is there")
}

/// The fields whose values are replaced.
const REPLACED: [&str; 15] = [
    "address",
    "source",
    "destination",
    "client",
    "server",
    "machine",
    "uid",
    "gid",
    "user",
    "file",
    "other_file",
    "file_name",
    "other_name",
    "owner",
    "ip",
];

/// The field with names of the files that were read and their interfaces.
const OF_FILES: &str = "files";

/// The replacements found so far. Equal values have equal replacements, and different values
/// different ones.
#[derive(Default)]
struct Replacements {
    new: BTreeMap<String, String>,
    old: BTreeMap<String, String>,
}

impl Replacements {
    fn add(&mut self, old: &str, new: &str, context: &str) {
        for (old, new) in old.split('/').zip(new.split('/')) {
            let known = self.new.entry(old.to_owned()).or_insert_with(|| new.to_owned());
            assert_eq!(known, new, "{context}: {old} is replaced by two values");
            let known = self.old.entry(new.to_owned()).or_insert_with(|| old.to_owned());
            assert_eq!(known, old, "{context}: {new} replaces two values");
        }
    }

    /// Compares two values, which must be equal except for replaced fields.
    fn compare(&mut self, old: &Value, new: &Value, field: &str, context: &str) {
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                let keys =
                    |fields: &serde_json::Map<String, Value>| fields.keys().cloned().collect::<Vec<_>>();
                assert_eq!(keys(old), keys(new), "{context}");
                for (name, value) in old.iter().filter(|(name, _)| *name != OF_FILES) {
                    self.compare(value, &new[name], name, &format!("{context}.{name}"));
                }
            }
            (Value::Array(old), Value::Array(new)) => {
                assert_eq!(old.len(), new.len(), "{context}");
                for (old, new) in old.iter().zip(new) {
                    self.compare(old, new, field, context);
                }
            }
            (Value::String(old), Value::String(new)) if REPLACED.contains(&field) => {
                self.add(old, new, context)
            }
            (Value::Number(old), Value::Number(new)) if REPLACED.contains(&field) => {
                self.add(&old.to_string(), &new.to_string(), context);
            }
            _ => assert_eq!(old, new, "{context}"),
        }
    }
}

const COMMANDS: [&str; 6] = ["transactions", "packets", "connections", "check", "events", "state"];

/// Asserts that all commands have the same output for both captures, except for replacements.
fn same(name: &str, original: &str, anonymous: &str) -> Replacements {
    let mut replacements = Replacements::default();
    for command in COMMANDS {
        let lines = |path: &str| {
            let output = run(&[command, path, "--format", "jsonl"]);
            (json_lines(text(&output.stdout)), output.status.code())
        };
        let (old, new) = (lines(original), lines(anonymous));
        assert_eq!((old.0.len(), old.1), (new.0.len(), new.1), "{name}: {command}");
        for (number, (old, new)) in old.0.iter().zip(&new.0).enumerate() {
            // A damaged segment contains the original data. The inference about a segment that
            // arrived early uses its bytes, which are zeros in an FPDU with a wrong CRC.
            let has_wrong_crc = |line: &Value| {
                let fpdus = line["tcp"]["fpdus"].as_array().map_or(&[][..], Vec::as_slice);
                fpdus.iter().any(|fpdu| fpdu["crc"] == "bad" && fpdu["inferred"] == true)
            };
            let is_left_out = old["tcp"]["checksum"] == "bad" || has_wrong_crc(old) || has_wrong_crc(new);
            let [old, new] = [old, new].map(|line| {
                let mut line = line.clone();
                if is_left_out {
                    line["tcp"]["fpdus"].take();
                    // These come from the FPDUs.
                    let fields = line.as_object_mut().expect("a line is an object");
                    for field in ["opcode", "rpcrdma"] {
                        fields.remove(field);
                    }
                }
                line
            });
            let (old, new) = (&old, &new);
            replacements.compare(old, new, "", &format!("{name}: {command}, line {number}: "));
        }
    }
    replacements
}

/// Asserts that the replaced values are not in the file. Short values are ignored, because they may
/// occur by chance.
fn absent(name: &str, replacements: &Replacements, file: &[u8]) {
    let bytes = after_section_header(file);
    let names: BTreeSet<&str> = replacements
        .new
        .iter()
        .filter(|(old, new)| old != new && old.len() > 3)
        .map(|(old, _)| old.as_str())
        .collect();
    for old in names {
        assert!(!holds(bytes, old.as_bytes()), "{name}: {old} is in the file");
        if let Ok(address) = old.parse::<std::net::Ipv4Addr>() {
            assert!(!holds(bytes, &address.octets()), "{name}: {old} is in the file");
        }
        if let Ok(address) = old.parse::<std::net::Ipv6Addr>() {
            let octets = address.octets();
            // An interface identifier with few nonzero bytes may occur by chance.
            let identifier = &octets[8..];
            let is_distinctive = identifier.iter().filter(|byte| **byte != 0).count() > 2;
            let part = if is_distinctive { identifier } else { &octets[..] };
            assert!(!holds(bytes, part), "{name}: {old} is in the file");
        }
    }
}

/// A pcapng file without its first block, which names the program that wrote it. One of the samples
/// has this name in its credentials.
fn after_section_header(file: &[u8]) -> &[u8] {
    let length = file[4..8].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    &file[length.expect("four bytes") as usize..]
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn pass(name: &str, capture: &[u8]) -> (Pair, Replacements) {
    let pair = Pair::new(name, capture, &[]);
    let replacements = same(name, pair.original.path(), pair.anonymous.path());
    absent(name, &replacements, &pair.bytes());
    (pair, replacements)
}

#[test]
fn anonymized_samples_give_the_same_results() {
    for name in samples::ALL {
        let (pair, replacements) = pass(name, &file(&format!("{name}.pcap")));
        let bytes = pair.bytes();
        // The addresses of the samples in any form, and the names that the clients use.
        for part in
            [&[10, 77, 0, 1][..], &[10, 77, 0, 2], b"10.77.0.", b"Linux", b"client", b"server", b"export"]
        {
            assert!(!holds(&bytes, part), "{name}: {part:?}");
        }
        let server = if name == samples::RELIABLE_REPLY { "192.0.2.2" } else { "10.77.0.1" };
        assert!(replacements.new.get(server).is_some_and(|new| new != server), "{name}");
    }
}

/// Every eighth word of the data of READs and WRITEs, except those that may occur by chance.
fn words_of_data(capture: &str) -> BTreeSet<Vec<u8>> {
    const WORD: usize = 8;
    let folder = Temporary::new("data-of-iwarp", &[]);
    std::fs::remove_file(folder.path()).expect("it was made");
    let output = run(&["extract", capture, "--files", folder.path()]);
    assert!(output.status.success(), "{capture}: {}", text(&output.stderr));
    let mut words = BTreeSet::new();
    for entry in std::fs::read_dir(folder.path()).expect("it was made") {
        let path = entry.expect("it is there").path();
        if path.ends_with("index.jsonl") {
            continue;
        }
        let bytes = std::fs::read(path).expect("it is a file");
        let chosen = bytes.chunks_exact(WORD).step_by(8);
        let is_random = |word: &&[u8]| word.iter().collect::<BTreeSet<_>>().len() == WORD;
        words.extend(chosen.filter(is_random).map(<[u8]>::to_vec));
    }
    std::fs::remove_dir_all(folder.path()).expect("it can be removed");
    words
}

/// Whether a file contains one of these words of eight bytes.
fn holds_one(bytes: &[u8], words: &BTreeSet<Vec<u8>>) -> bool {
    bytes.windows(8).any(|window| words.contains(window))
}

#[test]
fn anonymized_iwarp_samples_give_the_same_results() {
    let mut words = 0;
    for name in samples::IWARP {
        let (pair, _) = pass(name, &file(&format!("{name}.pcap")));
        let bytes = pair.bytes();
        for part in [&[10, 77, 0, 1][..], &[10, 77, 0, 2], b"10.77.0.", b"Linux", b"export"] {
            assert!(!holds(&bytes, part), "{name}: {part:?}");
        }
        let of_data = words_of_data(pair.original.path());
        assert!(!holds_one(&bytes, &of_data), "{name}: data is in the file");
        words += of_data.len();
    }
    assert!(words > 5_000, "{words}");
}

/// The results are the same for any encapsulation of the segments, and with repeated, early or
/// missing segments.
#[test]
fn anonymized_segment_variants_give_the_same_results() {
    for form in [Form::Wrapped, Form::Sealed, Form::OtherIp, Form::Sll2, Form::OtherPort, Form::Markers] {
        for name in ["iwarp-crc-lossy", "iwarp-recall"] {
            let capture = form.apply(&samples::capture(name));
            pass(&format!("{form:?}-{name}"), &pcap::write(&capture));
        }
    }
}

#[test]
fn anonymized_encapsulations_give_the_same_results() {
    for name in ["native.erf", "tunnels.pcap"] {
        let path = binary::root().join("tests/encapsulations").join(name);
        pass(name, &std::fs::read(path).expect("it is there"));
    }
}

/// A sample with other headers around each transport packet. `carry` receives the IPv4 header, the
/// UDP header, and the transport packet without its ICRC.
fn carried(name: &str, link: u32, carry: impl Fn(&[u8], &[u8; 8], &[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut pcap = Pcap::read(&format!("{name}.pcap"));
    pcap.header[20..24].copy_from_slice(&link.to_le_bytes());
    for record in &mut pcap.records {
        let frame = &record[16..];
        let (ip, udp, transport) =
            (&frame[14..34], frame[34..42].first_chunk().expect("8 bytes"), &frame[42..frame.len() - 4]);
        let new = carry(ip, udp, transport);
        let length = (new.len() as u32).to_le_bytes();
        let head = [&record[..8], &length, &length].concat();
        *record = [head, new].concat();
    }
    pcap.with(&pcap.records)
}

fn sealed(mut bytes: Vec<u8>, icrc: Option<u32>) -> Vec<u8> {
    bytes.extend(icrc.expect("the headers are complete").to_le_bytes());
    bytes
}

/// An IPv6 address for the host with this IPv4 address.
fn ipv6(prefix: u16, ip: &[u8]) -> Vec<u8> {
    [&prefix.to_be_bytes()[..], &[0; 6], &[2, 0x0c, 0xc9, 0xff, 0xfe, 0x12, 0x34], &ip[3..]].concat()
}

#[test]
fn anonymized_ipv6_gives_the_same_results() {
    for name in ["nfs3-lossy", "nfs4.1-backchannel-recall"] {
        let capture = carried(name, 1, |ip, udp, transport| {
            let length = (8 + transport.len() as u16 + 4).to_be_bytes();
            let header = [
                &[0x60, 0, 0, 0][..],
                &length,
                &[17, 64],
                &ipv6(0xfd00, &ip[12..16]),
                &ipv6(0xfd00, &ip[16..20]),
            ]
            .concat();
            let icrc = icrc::roce_v2(&header, udp, transport);
            sealed([&[2; 6][..], &[6; 6], &[0x86, 0xdd], &header, udp, transport].concat(), icrc)
        });
        pass(&format!("ipv6-{name}"), &capture);
    }
}

#[test]
fn anonymized_infiniband_gives_the_same_results() {
    const INFINIBAND: u32 = 247;
    let capture = carried("nfs4.1-backchannel-recall", INFINIBAND, |ip, _, transport| {
        let words = ((8 + 40 + transport.len() + 4) / 4) as u16;
        let lrh = [&[0, 3, 0, ip[19]][..], &words.to_be_bytes(), &[0, ip[15]]].concat();
        let length = (transport.len() as u16 + 4).to_be_bytes();
        let grh = [
            &[0x60, 0, 0, 0][..],
            &length,
            &[0x1b, 64],
            &ipv6(0xfe80, &ip[12..16]),
            &ipv6(0xfe80, &ip[16..20]),
        ]
        .concat();
        let icrc = icrc::grh(grh.first_chunk().expect("40 bytes"), transport);
        sealed([lrh, grh, transport.to_vec()].concat(), icrc)
    });
    pass("native", &capture);
}

/// Kerberos with authentication only and with integrity, an NFSv4.0 client that sends its name and
/// address, AUTH_SYS with uids.
#[test]
fn names_in_messages_are_replaced() {
    let mut world = World::new();
    let secret = b"secret bytes that nobody is to see";
    world.named(b"quarterly-figures.xlsx", b"handle-1");
    world.write(b"handle-1", 0, secret);
    world.read(b"handle-1", 0, secret);
    let verifier = vec![0x5a; 8];
    let netaddr = [opaque(b"tcp"), opaque(b"192.0.2.200.195.80")].concat();
    let client = [verifier.clone(), opaque(b"Linux NFSv4.0 workstation.example.com/192.0.2.1")].concat();
    let operation = [word(35), client, word(0x4000_0000), netaddr, word(1)].concat();
    let arguments = [opaque(b"a tag of the client"), word(0), word(1), operation].concat();
    let results =
        [word(0), opaque(b"a tag of the client"), word(1), word(35), word(0), vec![7; 8], verifier].concat();
    let [call, reply] = world.exchange(4, 1, &arguments, &results);
    world.send(0, &call);
    world.send(1, &reply);
    let sys =
        [word(77), opaque(b"workstation"), word(41_234), word(51_234), word(2), word(61_234), word(71_234)]
            .concat();
    let gss = |service| [1, 0, 3, service].map(word).concat();
    let mechanism = [gss(1), opaque(b"context1")].concat();
    let integrity = [gss(2), opaque(b"context1")].concat();
    let lookup = [opaque(b"directory"), opaque(b"personnel-file")].concat();
    let found = [word(0), opaque(b"handle-2"), word(0), word(0)].concat();
    let sealed =
        |body: &[u8]| [opaque(&[word(3), body.to_vec()].concat()), opaque(b"a checksum of it")].concat();
    for (flavor, credential, arguments, results) in [
        (1, sys, lookup.clone(), found.clone()),
        (6, mechanism, lookup.clone(), found.clone()),
        (6, integrity, sealed(&lookup), sealed(&found)),
    ] {
        let [call, reply] = world.exchange(3, 3, &arguments, &results);
        // AUTH_NONE as credential and verifier is four words at the end of the header.
        let at = call.len() - arguments.len() - 16;
        let verifier = [word(flavor), opaque(b"a verifier of it")].concat();
        let verifier = if flavor == 6 { verifier } else { vec![0; 8] };
        let call = [&call[..at], &word(flavor), &opaque(&credential), &verifier, &arguments].concat();
        world.send(0, &call);
        world.send(1, &reply);
    }
    let (pair, replacements) = pass("by-hand", &world.capture());
    let bytes = pair.bytes();
    let all: [&[u8]; 13] = [
        secret,
        b"quarterly",
        b"figures",
        b"workstation",
        b"example.com",
        b"192.0.2",
        b"a tag",
        b"personnel",
        b"a checksum",
        b"a verifier",
        &[192, 0, 2, 200],
        &word(41_234),
        &word(61_234),
    ];
    for part in all {
        assert!(!holds(&bytes, part), "{:?}", String::from_utf8_lossy(part));
    }
    for part in [&b"handle-1"[..], b"handle-2", b"context1", b"tcp"] {
        assert!(holds(&bytes, part), "{:?}", String::from_utf8_lossy(part));
    }
    assert!(replacements.new.contains_key("personnel-file"), "{:?}", replacements.new);
    // A packet that is not an RPC-over-RDMA message.
    world.send(0, b"another protocol, of which nothing is known");
    let bytes = Pair::new("no-message", &world.capture(), &[]).bytes();
    assert!(!holds(&bytes, b"other") && !holds(&bytes, b"protocol") && !holds(&bytes, b"nothing"));
}

/// All procedures of NFSACL version 2, and an error.
#[test]
fn acls_of_version_2_are_replaced() {
    let mut world = World::new();
    let handle = [0x48; 32].to_vec();
    let attributes = |uid| [1, 0o100_644, 1, uid, 100, 4096, 4096, 0, 8, 1, 2, 0, 0, 0, 0, 0, 0].map(word);
    let attributes = attributes(41_234).concat();
    let entries = [word(1), word(1), [2, 51_234, 7].map(word).concat()].concat();
    let acls = [word(15), entries, word(0), word(0)].concat();
    let found = [word(0), attributes.clone(), acls.clone()].concat();
    let changed = [word(0), attributes.clone()].concat();
    let with_word = [handle.clone(), word(1)].concat();
    for (procedure, arguments, results) in [
        (1, with_word.clone(), found),
        (1, with_word.clone(), word(70)),
        (2, [handle.clone(), acls].concat(), changed.clone()),
        (3, handle.clone(), changed),
        (4, with_word.clone(), [word(0), attributes.clone(), word(0x3f)].concat()),
        (5, with_word, [word(0), handle.clone(), attributes].concat()),
    ] {
        let [call, reply] = world.exchange_of([100_227, 2, procedure], &arguments, &results);
        world.send(0, &call);
        world.send(1, &reply);
    }
    let (pair, _) = pass("acl-2", &world.capture());
    assert!(holds(&pair.bytes(), &handle));
    for user in [41_234, 51_234] {
        assert!(!holds(&pair.bytes(), &word(user)), "{user}");
    }
}

#[test]
fn key_determines_the_replacements() {
    let capture = sample("nfs4.1-backchannel-recall.pcap");
    let written = |name: &str, key: &[u8]| {
        let to = Temporary::new(name, &[]);
        export(&capture, to.path(), key, &[]);
        std::fs::read(to.path()).expect("it was written")
    };
    let one = written("one.pcapng", KEY);
    assert!(
        one == written("same.pcapng", KEY) && one != written("other.pcapng", b"another key that is as long")
    );
    let random = || {
        let output = run(&["export", "pcapng", &capture, "--anonymize", "--output", "-"]);
        assert!(output.status.success());
        output.stdout
    };
    assert_ne!(random(), random());
}

/// A slice, several files, and --cut-bulk.
#[test]
fn anonymize_combines_with_other_options() {
    for (name, options) in [
        ("cut", &["--cut-bulk"][..]),
        ("slice", &["--operation", "READ,WRITE,LOOKUP"]),
        ("where", &["--where", "latency > 3ms", "--cut-bulk"]),
    ] {
        let capture = file("nfs3-basic.pcap");
        let pair = Pair::new(name, &capture, options);
        let plain = Temporary::new(&format!("plain-{name}.pcapng"), &[]);
        let output = run(&[
            &["export", "pcapng", pair.original.path(), "--no-comments", "--output", plain.path()],
            options,
        ]
        .concat());
        assert!(output.status.success());
        let replacements = same(name, plain.path(), pair.anonymous.path());
        absent(name, &replacements, &pair.bytes());
        assert!(
            !holds(&pair.bytes(), format!("original-{name}").as_bytes()),
            "{name}: the output has the name of the file"
        );
    }
}

#[test]
fn invalid_keys_are_refused() {
    let short = Temporary::new("short.key", b"0123456789abcde");
    let capture = sample("connect-rejected.pcap");
    let base = ["export", "pcapng", &capture, "--output", "-"];
    let with = |options: &[&str]| run(&[&base[..], options].concat());
    refused(&with(&["--anonymize", "--key", short.path()]), &["at least 16 bytes", "short.key"]);
    refused(&with(&["--anonymize", "--key", "/nowhere/key"]), &["/nowhere/key", "cannot be read"]);
    let output = with(&["--key", short.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--anonymize"), "{}", text(&output.stderr));
}
