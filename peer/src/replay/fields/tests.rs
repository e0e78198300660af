//! Tests on messages written by hand from the specifications.

use super::super::compare::{self, Difference};
use super::super::directory::Listing;
use super::super::substitute::Names;
use super::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A call with AUTH_NONE.
fn call(called: Called, arguments: &[u8]) -> Vec<u8> {
    [&words(&[7, 0, 2, called.0, called.1, called.2, 0, 0, 0, 0]), arguments].concat()
}

/// An accepted reply.
fn reply(results: &[u8]) -> Vec<u8> {
    [&words(&[7, 1, 0, 0, 0, 0]), results].concat()
}

const LOOKUP: Called = (100_003, 3, 3);
const WRITE: Called = (100_003, 3, 7);
const READ: Called = (100_003, 3, 6);
const COMPOUND: Called = (100_003, 4, 1);

/// LOOKUP3resok: a handle of 8 bytes, attributes, no directory attributes.
fn looked_up(handle: u32, size: u32, mtime: u32) -> Vec<u8> {
    let attributes = [1, 1, 0o644, 1, 0, 0, 0, size, 0, 0, 0, 0, 0, 5, 0, 77, 0, 0, mtime, 0, 0, 0];
    reply(&[&words(&[0, 8, handle, handle])[..], &words(&attributes), &words(&[0])].concat())
}

fn compared(called: Called, recorded: &[u8], live: &[u8]) -> compare::Comparison {
    compare::replies(
        Some(called),
        (recorded, &[]),
        (live, &[]),
        (None, false),
        &mut Listing::default(),
        |_, _, _| {},
    )
}

#[test]
fn handles_and_times_may_differ_but_sizes_must_not() {
    let recorded = looked_up(1, 100, 3);
    assert_eq!(recorded.len(), 24 + 4 + 12 + 4 + 84 + 4);
    let mut learned = Vec::new();
    let live = looked_up(2, 100, 4);
    let found = compare::replies(
        Some(LOOKUP),
        (&recorded, &[]),
        (&live, &[]),
        (None, false),
        &mut Listing::default(),
        |kind, a, b| {
            learned.push((kind, a.to_vec(), b.to_vec()));
        },
    );
    assert_eq!((found.differences, found.own, found.understood), (Vec::new(), 2, true));
    assert_eq!(learned[0], (Kind::Handle, words(&[1, 1]), words(&[2, 2])));
    let found = compared(LOOKUP, &recorded, &looked_up(1, 101, 3));
    let [Difference { operation, field, recorded: was, live }] = &found.differences[..] else {
        panic!("{found:?}")
    };
    assert_eq!((*operation, *field, &was[..], &live[..]), (Some((0, "LOOKUP")), "size", "100", "101"));
    // Another status selects another form. That is one difference, not one for each field.
    let refused = reply(&words(&[70, 0]));
    let found = compared(LOOKUP, &recorded, &refused);
    assert_eq!(found.differences.len(), 2, "{found:?}");
    assert_eq!((found.differences[0].field, &found.differences[0].live[..]), ("status", "70"));
}

#[test]
fn truncated_messages_are_compared_as_bytes() {
    let full = looked_up(1, 100, 3);
    for length in 4..full.len() {
        let cut = &full[..length];
        let fields = of_reply(Some(LOOKUP), cut, &[]);
        assert!(!fields.understood, "{length}");
        // Every byte after the XID is in a field, except counts and padding.
        let covered: usize = fields.list.iter().map(|field| field.bytes(cut, &[]).len()).sum();
        let counts = 4 * fields.list.iter().filter(|field| field.coding != Coding::Plain).count();
        assert_eq!(4 + covered + counts, length);
        assert!(compared(LOOKUP, cut, cut).differences.is_empty());
        assert!(!compared(LOOKUP, &full, cut).differences.is_empty(), "{length}");
    }
    // A procedure without a description is compared byte by byte.
    let unknown = (100_021, 4, 2);
    let (one, other) = (reply(&words(&[1, 2, 3])), reply(&words(&[1, 2, 4])));
    assert_eq!(compared(unknown, &one, &other).differences.len(), 1);
    assert!(!compared(unknown, &one, &one).understood);
}

#[test]
fn item_in_a_write_chunk_equals_the_same_item_inline() {
    // READ3resok: no attributes, count, eof, and the data, which is in the chunk or in the stream.
    let chunked = reply(&words(&[0, 0, 5, 1, 5]));
    let inline = reply(&[&words(&[0, 0, 5, 1, 5])[..], b"hello\0\0\0"].concat());
    let item = [b"hello".to_vec()];
    let found = |item: &[Vec<u8>]| {
        compare::replies(
            Some(READ),
            (&chunked, item),
            (&inline, &[Vec::new()]),
            (None, false),
            &mut Listing::default(),
            |_, _, _| {},
        )
    };
    assert_eq!(found(&item).differences, []);
    let found = found(&[b"hallo".to_vec()]);
    assert_eq!(found.differences.len(), 1);
    assert_eq!(
        (&found.differences[0].recorded[..], &found.differences[0].live[..]),
        ("\"hallo\"", "\"hello\"")
    );
}

#[test]
fn substituted_handle_moves_the_fields_that_follow() {
    // WRITE3args: handle, offset, count, stable; data at byte 72 = 40 + 12 + 16 + 4.
    let head = words(&[8, 1, 1, 0, 0, 6, 2, 6]);
    let message = call(WRITE, &[&head[..], b"abcdef\0\0"].concat());
    let item = 72..78;
    assert_eq!(&message[item.clone()], b"abcdef");
    let (fields, called) = of_call(&message);
    assert_eq!((fields.understood, called), (true, Some(WRITE)));
    let mut names = Names::default();
    let put = names.substitute(&message, core::slice::from_ref(&item), &fields);
    assert_eq!((&put.message, &put.items[0]), (&message, &item));
    assert_eq!(put.unknown, [("file handle", "0x0000000100000001".into())]);
    names.learn(Kind::Handle, &words(&[1, 1]), b"thirteen byte");
    let put = names.substitute(&message, &[item], &fields);
    assert_eq!(put.unknown, []);
    assert_eq!(put.items[0], 80..86);
    assert_eq!(&put.message[80..86], b"abcdef");
    assert_eq!(&put.message[40..60], [&words(&[13])[..], b"thirteen byte\0\0\0"].concat());
    assert_eq!(put.message.len(), message.len() + 8);
}

#[test]
fn compound_fields_include_session_and_handles() {
    // SEQUENCE, PUTFH and READ. The special stateid of the READ is never replaced.
    let session = words(&[1, 2, 3, 4]);
    let sequence = [&words(&[53])[..], &session, &words(&[9, 0, 0, 1])].concat();
    let read = words(&[25, 0, 0, 0, 0, 0, 0, 100]);
    let arguments = [&words(&[0, 1, 3])[..], &sequence, &words(&[22, 4, 0xaa]), &read].concat();
    let message = call(COMPOUND, &arguments);
    let (fields, _) = of_call(&message);
    assert!(fields.understood, "{fields:?}");
    let mut names = Names::default();
    names.learn(Kind::Session, &session, &words(&[5, 6, 7, 8]));
    let put = names.substitute(&message, &[], &fields);
    assert_eq!(put.unknown, [("file handle", "0x000000aa".into())]);
    assert_eq!(&put.message[56..72], words(&[5, 6, 7, 8]));
    // The message is understood up to the first operation that is not described.
    let unknown = call(COMPOUND, &words(&[0, 1, 2, 24, 99, 1]));
    let (fields, _) = of_call(&unknown);
    assert!(!fields.understood);
    assert_eq!(fields.list.last().map(|field| field.place.clone()), Some(Place::Stream(60..64)));
}

#[test]
fn attributes_are_decoded_by_their_bitmap() {
    // GETATTR: type 1, change 3, size 4, fileid 20, and attribute 90, which is not described.
    let mask = words(&[3, 1 << 1 | 1 << 3 | 1 << 4 | 1 << 20, 0, 1 << 26]);
    let values = |change, size, fileid, last| words(&[1, 0, change, 0, size, 0, fileid, last]);
    let result = |values: &[u8]| {
        let head = words(&[0, 0, 1, 9, 0]);
        let length = words(&[values.len() as u32]);
        reply(&[&head[..], &mask, &length, values].concat())
    };
    let recorded = result(&values(1, 2, 3, 4));
    let same = compared(COMPOUND, &recorded, &result(&values(8, 2, 9, 4)));
    assert_eq!((same.differences.len(), same.own, same.understood), (0, 2, false));
    let size = compared(COMPOUND, &recorded, &result(&values(1, 3, 3, 4)));
    assert_eq!(size.differences[0].field, "size");
    let last = compared(COMPOUND, &recorded, &result(&values(1, 2, 3, 5)));
    assert_eq!(last.differences[0].field, "attributes not understood");
}

/// A page of READDIR3resok: no attributes, a verifier, entries (file ID, name of four bytes,
/// cookie), eof.
fn page(names: &[(&str, u32)], eof: u32) -> Vec<u8> {
    let mut results = words(&[0, 0, 9, 9]);
    for (name, number) in names {
        results.extend(words(&[1, 0, *number, 4]));
        results.extend(name.as_bytes());
        results.extend(words(&[0, number + 100]));
    }
    results.extend(words(&[0, eof]));
    reply(&results)
}

#[test]
fn directory_entries_are_compared_by_name() {
    let mut listing = Listing::default();
    let mut learned = Vec::new();
    let mut compare = |recorded: &[u8], live: &[u8]| {
        let called = Some((100_003, 3, 16));
        compare::replies(called, (recorded, &[]), (live, &[]), (None, false), &mut listing, |kind, a, b| {
            if kind == Kind::Cookie {
                learned.push((a[7], b[7]));
            }
        })
    };
    // Two pages on each side in another order: "cccc" is on the other page.
    let first = compare(&page(&[("aaaa", 1), ("bbbb", 2)], 0), &page(&[("cccc", 5), ("aaaa", 6)], 0));
    assert_eq!((first.differences, first.understood), (Vec::new(), true));
    let last = compare(&page(&[("cccc", 3), ("dddd", 4)], 1), &page(&[("bbbb", 7)], 1));
    assert_eq!(last.differences.len(), 1, "{last:?}");
    let difference = &last.differences[0];
    assert_eq!(
        (difference.field, &difference.recorded[..], &difference.live[..]),
        ("entry", "\"dddd\"", "not there")
    );
    // Entries in the same order give no note.
    let same = page(&[("aaaa", 1), ("bbbb", 2)], 1);
    let same = compare(&same, &same);
    assert_eq!((same.differences, same.own), (Vec::new(), 0));
    // The client continues after the last entry.
    assert_eq!(learned[..3], [(101, 105), (102, 106), (102, 106)]);
    assert_eq!(learned[3..5], [(103, 107), (104, 107)]);
}

#[test]
fn operations_after_one_of_another_form_are_compared() {
    // OPEN with and without a read delegation, followed by GETFH.
    let open = words(&[18, 0, 1, 7, 7, 7, 0, 0, 1, 0, 2, 0, 0]);
    let delegation = words(&[1, 1, 8, 8, 8, 0, 0, 0, 0, 0]);
    let getfh = |handle: u32| words(&[10, 0, 4, handle]);
    let head = words(&[0, 0, 2]);
    let recorded = reply(&[&head[..], &open, &delegation, &getfh(1)].concat());
    let live = reply(&[&head[..], &open, &words(&[0]), &getfh(2)].concat());
    let mut learned = Vec::new();
    let compared = compare::replies(
        Some(COMPOUND),
        (&recorded, &[]),
        (&live, &[]),
        (None, false),
        &mut Listing::default(),
        |kind, a, b| learned.push((kind, a.to_vec(), b.to_vec())),
    );
    let granted: Vec<&str> = compared.granted.iter().map(|difference| difference.field).collect();
    assert!(compared.understood, "{compared:?}");
    assert_eq!((compared.differences, granted), (Vec::new(), vec!["delegation_type"]));
    assert_eq!(learned.last(), Some(&(Kind::Handle, words(&[1]), words(&[2]))));
    // LAYOUTRETURN with and without a stateid, which is no grant: the form is a difference.
    let returned =
        |rest: &[u32], handle| reply(&[&head[..], &words(&[51, 0]), &words(rest), &getfh(handle)].concat());
    let compared = compared_compounds(&returned(&[1, 8, 8, 8, 8], 1), &returned(&[0], 2));
    let fields: Vec<&str> = compared.differences.iter().map(|difference| difference.field).collect();
    assert_eq!((fields, compared.own), (vec!["lrs_present", "seqid"], 1));
}

fn compared_compounds(recorded: &[u8], live: &[u8]) -> compare::Comparison {
    compared(COMPOUND, recorded, live)
}

/// A reply to GETATTR with these attributes and the words of their values.
fn attributes(of: &[(u32, &[u32])]) -> Vec<u8> {
    let mut masks = [0; 3];
    of.iter().for_each(|(number, _)| masks[*number as usize / 32] |= 1 << (number % 32));
    let values: Vec<u8> = of.iter().flat_map(|(_, value)| words(value)).collect();
    let head = words(&[0, 0, 1, 9, 0, 3]);
    reply(&[&head[..], &words(&masks), &words(&[values.len() as u32]), &values].concat())
}

fn shown(differences: &[Difference]) -> Vec<(&str, &str, &str)> {
    differences.iter().map(|one| (one.field, &one.recorded[..], &one.live[..])).collect()
}

#[test]
fn attributes_are_paired_by_their_numbers() {
    // The live server lacks clone_blksize (77) and adds xattr_support (82). Type, size and mode are
    // compared.
    let recorded = attributes(&[(1, &[1]), (4, &[0, 5]), (33, &[0o644]), (77, &[4096])]);
    let live = attributes(&[(1, &[1]), (4, &[0, 6]), (33, &[0o644]), (82, &[1])]);
    let found = compared_compounds(&recorded, &live);
    assert_eq!(shown(&found.differences), [("size", "5", "6")]);
    let others = [("clone_blksize", "4096", "not there"), ("xattr_support", "not there", "1")];
    assert_eq!(shown(&found.granted), others);
    assert!(found.understood);
    // A server must support size (RFC 8881, section 5.6).
    let found = compared_compounds(&recorded, &attributes(&[(1, &[1]), (33, &[0o644]), (77, &[4096])]));
    assert_eq!((shown(&found.differences), found.granted.len()), (vec![("size", "5", "not there")], 0));
    // The Responder grants the lease time.
    let found = compared_compounds(&attributes(&[(10, &[90])]), &attributes(&[(10, &[10])]));
    assert_eq!((found.differences.len(), shown(&found.granted)), (0, vec![("lease_time", "90", "10")]));
}

#[test]
fn bitmaps_are_compared_by_their_bits() {
    let supported = |masks: &[u32]| attributes(&[(0, &[&[masks.len() as u32], masks].concat())]);
    let found = compared_compounds(&supported(&[3, 2]), &supported(&[3, 2, 0]));
    assert_eq!((found.differences.len(), found.granted.len()), (0, 0), "trailing zero words are ignored");
    let found = compared_compounds(&supported(&[3, 2]), &supported(&[3, 0, 1 << 13]));
    assert_eq!(shown(&found.granted), [("supported_attrs", "with mode", "with clone_blksize")]);
    assert_eq!(found.differences, []);
    // The attributes that SETATTR has set are not the Responder's choice.
    let set =
        |masks: &[u32]| reply(&[&words(&[0, 0, 1, 34, 0, masks.len() as u32])[..], &words(masks)].concat());
    let found = compared_compounds(&set(&[0, 2, 0]), &set(&[0, 2]));
    assert_eq!((found.differences.len(), found.understood), (0, true));
    let found = compared_compounds(&set(&[16, 2, 0]), &set(&[0, 2]));
    assert_eq!(shown(&found.differences), [("attrsset", "with size", "without")]);
}

#[test]
fn session_grants_are_not_differences() {
    // CREATE_SESSION: session ID, sequence ID, flags, and two channels.
    let created = |slots: u32, size: u32| {
        let channel = [0, size, size, 4096, 50, slots, 0];
        let result = [&[43, 0, 1, 2, 3, 4, 1, 3][..], &channel, &channel].concat();
        reply(&[&words(&[0, 0, 1])[..], &words(&result)].concat())
    };
    let found = compared_compounds(&created(64, 1 << 20), &created(16, 1 << 20));
    assert_eq!(found.differences, []);
    assert_eq!(shown(&found.granted), [("ca_maxrequests", "64", "16"); 2]);
    // SEQUENCE: session ID, sequence ID, slot ID, highest slot ID, target highest slot ID, flags.
    let sequence = |slot: u32, highest: u32, flags: u32| {
        let result = [53, 0, 1, 2, 3, 4, 7, slot, highest, highest, flags];
        reply(&[&words(&[0, 0, 1])[..], &words(&result)].concat())
    };
    let found = compared_compounds(&sequence(0, 63, 0), &sequence(0, 31, 0));
    assert_eq!((found.differences.len(), found.granted.len()), (0, 2));
    let found = compared_compounds(&sequence(0, 63, 0), &sequence(1, 63, 1));
    let fields: Vec<&str> = found.differences.iter().map(|difference| difference.field).collect();
    assert_eq!(fields, ["sr_slotid", "sr_status_flags"]);
}
