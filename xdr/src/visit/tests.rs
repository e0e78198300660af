use super::*;
use crate::{NFS3, NFS4};

/// Records a walk: values entered and left, leaves with their ranges, and the stop.
#[derive(Default)]
struct Trace {
    lines: Vec<String>,
    open: usize,
    stop: Option<Stop>,
}

impl Visitor for Trace {
    fn enter(&mut self, value: &Value<'_>, at: usize) -> Walked {
        self.open += 1;
        self.lines.push(format!("{}.{} {{ {at}", value.place.of, value.place.name));
        Ok(())
    }

    fn leaf(&mut self, value: &Value<'_>, leaf: Leaf, extent: &Extent) -> Walked {
        let Extent { all, value: range } = extent;
        self.lines.push(format!("{}.{} {leaf:?} {all:?} {range:?}", value.place.of, value.place.name));
        Ok(())
    }

    fn leave(&mut self, at: usize, walked: Walked) -> Walked {
        self.open -= 1;
        self.lines.push(format!("}} {at}"));
        walked
    }

    fn stop(&mut self, stop: Stop) {
        assert_eq!(self.stop.replace(stop), None, "a walk stops once");
    }
}

fn walk(language: &'static Language, name: &str, bytes: &[u8]) -> (Trace, usize, Walked) {
    let of = language.named(name).expect("the type is described");
    let mut walk = Walk::new(language, bytes, bytes.len(), 0, Trace::default());
    let walked = walk.root(of);
    (walk.visitor, walk.at, walked)
}

/// The results of READ, written by hand (RFC 1813, section 3.3.6): NFS3_OK, no attributes, count 5,
/// end of file, the data with padding.
const READ: [u8; 28] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 5, b'h', b'e', b'l', b'l', b'o', 0, 0, 0];

#[test]
fn walk_reports_the_place_and_bytes_of_each_value() {
    let (trace, at, walked) = walk(&NFS3, "READ3res", &READ);
    let expected = [
        ". { 0",
        "READ3res.status Number(0) 0..4 0..4",
        "READ3res.resok { 4",
        "READ3resok.file_attributes { 4",
        "post_op_attr.attributes_follow Number(0) 4..8 4..8",
        "} 8",
        "READ3resok.count Number(5) 8..12 8..12",
        "READ3resok.eof Number(1) 12..16 12..16",
        "READ3resok.data Length(5) 16..20 16..20",
        "READ3resok.data Bytes 16..28 20..25",
        "} 28",
        "} 28",
    ];
    assert_eq!(trace.lines, expected);
    assert_eq!((at, walked, trace.stop), (28, Ok(()), None));
}

#[test]
fn truncated_message_stops_at_the_missing_item() {
    for length in 0..READ.len() {
        let (trace, _, walked) = walk(&NFS3, "READ3res", &READ[..length]);
        assert_eq!(trace.open, 0, "{length}: each entered value is left");
        // The padding of the last item may be missing (RFC 8166, section 3.4.5.2).
        if length >= 25 {
            assert_eq!((walked, trace.stop), (Ok(()), None), "{length}");
            continue;
        }
        let (at, needed) = if length < 20 { (length / 4 * 4, 4) } else { (20, 5) };
        let stop = Stop::Short { at, needed, end: length };
        assert_eq!((walked, trace.stop), (Err(Stopped), Some(stop)), "{length}");
    }
}

#[test]
fn invalid_values_stop_the_walk() {
    let mut eof = READ;
    eof[15] = 2;
    assert_eq!(walk(&NFS3, "READ3res", &eof).0.stop, Some(Stop::Malformed { at: 12 }));
    // A file handle of more than 64 bytes (RFC 1813, section 2.4).
    let handle = [[0, 0, 0, 65].as_slice(), &[0; 68]].concat();
    assert_eq!(walk(&NFS3, "nfs_fh3", &handle).0.stop, Some(Stop::Malformed { at: 0 }));
    // The maximum count of elements, without bytes for them.
    let (trace, _, walked) = walk(&NFS4, "bitmap4", &[0xff; 4]);
    assert_eq!((walked, trace.stop), (Err(Stopped), Some(Stop::Short { at: 4, needed: 4, end: 4 })));
}

/// Two entries of READDIR (RFC 1813, section 3.3.16) follow each other and are not nested.
#[test]
fn entries_of_a_list_do_not_nest() {
    // Flag, file ID, name, cookie.
    let entry =
        |id: u8| [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, id, 0, 0, 0, 1, b'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let bytes = [&entry(7)[..], &entry(8), &[0; 4], &[0, 0, 0, 1]].concat();
    let (trace, at, walked) = walk(&NFS3, "dirlist3", &bytes);
    assert_eq!((at, walked, trace.stop), (64, Ok(()), None));
    let entries: Vec<&str> =
        trace.lines.iter().map(String::as_str).filter(|line| line.starts_with("entry3.fileid")).collect();
    assert_eq!(entries, ["entry3.fileid Number(7) 4..12 4..12", "entry3.fileid Number(8) 32..40 32..40"]);
    assert_eq!(trace.lines.iter().filter(|line| line.contains('{')).count(), 4, "{:#?}", trace.lines);
}
