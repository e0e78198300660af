use super::*;

/// A joiner that knows the events of all points. An event's ID is ten times the point's index plus
/// the part.
fn joiner() -> Joiner {
    let mut joiner = Joiner::default();
    for (index, point) in Point::ALL.into_iter().enumerate() {
        for part in 0..3 {
            let id = (10 * index + part) as u16;
            let mut format = format!("ID: {id}\n");
            for (name, offset, size) in fields(point, part) {
                format += &format!("\tfield:u64 {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
            }
            joiner.add_layout(id, point, part, Layout::parse(&format).unwrap().1);
        }
    }
    joiner
}

/// Name, offset and size of each field: numbers first, then arrays.
fn fields(point: Point, part: usize) -> Vec<(String, usize, usize)> {
    let mut fields = Vec::new();
    let mut end = 2;
    let mut add = |name: String, size| {
        fields.push((name, end, size));
        end += size;
    };
    for name in ["key", point.length(), "qp", "number", "device", "status", "flags", "opcode", "rkey", "sges"]
    {
        add(name.to_owned(), 8);
    }
    for name in ["head", "tail", "tail_length"] {
        add(name.to_owned(), 8);
    }
    add("sge".to_owned(), 16 * SGES);
    for array in PARTS[part] / ARRAY..PARTS[part + 1] / ARRAY {
        add(format!("b{array}"), ARRAY);
    }
    for name in ["h0", "h1", "t0"] {
        add(name.to_owned(), ARRAY);
    }
    fields
}

/// An event with these values. Arrays contain the bytes of [`filling`].
fn event(point: Point, part: usize, values: &[(&str, u64)], sges: &[(u64, u64)]) -> Vec<u8> {
    let index = Point::ALL.iter().position(|one| *one == point).unwrap();
    let mut data = ((10 * index + part) as u16).to_ne_bytes().to_vec();
    for (name, _, size) in fields(point, part) {
        match values.iter().find(|(own, _)| *own == name) {
            Some((_, value)) => data.extend(value.to_ne_bytes()),
            None if name == "sge" => {
                let mut list: Vec<u8> = sges
                    .iter()
                    .flat_map(|(at, length)| [at.to_ne_bytes(), length.to_ne_bytes()].concat())
                    .collect();
                list.resize(size, 0);
                data.extend(list);
            }
            None if size == 8 => data.extend([0; 8]),
            None => data.extend(filling(&name)),
        }
    }
    data
}

fn filling(name: &str) -> Vec<u8> {
    let seed = name.bytes().fold(0, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(byte));
    (0..ARRAY).map(|index| seed.wrapping_add(index as u8)).collect()
}

fn arrays(names: &[&str]) -> Vec<u8> {
    names.iter().flat_map(|name| filling(name)).collect()
}

/// The kernel runs the latest of several probes first, so the first part comes last. An earlier
/// message with the same buffer does not take its parts.
#[test]
fn parts_are_joined() {
    let mut joiner = joiner();
    let point = Point::ClientReceive;
    let key = ("key", 5);
    joiner.take(0, 900, &event(point, 0, &[key, ("length", 100)], &[]));
    joiner.take(0, 1000, &event(point, 2, &[key, ("length", 3700)], &[]));
    joiner.take(0, 1001, &event(point, 1, &[key, ("length", 3700)], &[]));
    joiner.take(
        0,
        1002,
        &event(point, 0, &[key, ("length", 3700), ("number", 18), ("flags", 4), ("rkey", 77)], &[]),
    );
    // Another processor, whose other parts are lost.
    joiner.take(1, 950, &event(point, 0, &[("key", 6), ("length", 3000)], &[]));
    assert_eq!(joiner.settle(900), []);
    let found = joiner.settle(2000);
    let lengths: Vec<_> = found.iter().map(|one| (one.time, one.length, one.bytes.len())).collect();
    assert_eq!(lengths, [(900, 100, 100), (950, 3000, 1024), (1002, 3700, 3700)]);
    assert_eq!(found[2].bytes, arrays(&["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"])[..3700]);
    assert_eq!((found[2].number, found[2].invalidated, found[0].invalidated), (18, Some(77), None));
    assert!(!found[2].is_sent);
}

/// The earlier part belongs to another message in the same buffer, so this message is truncated
/// after its first part.
#[test]
fn stale_parts_are_not_used() {
    let mut joiner = joiner();
    let (point, values) = (Point::ClientReceive, [("key", 5), ("length", 2000)]);
    joiner.take(0, 1000, &event(point, 1, &values, &[]));
    joiner.take(0, 1000 + CLOSE, &event(point, 0, &values, &[]));
    let found = joiner.settle(2 * CLOSE);
    assert_eq!((found[0].length, found[0].bytes.len(), found.len()), (2000, 1024, 1));
}

#[test]
fn failed_receives_and_unknown_events_are_ignored() {
    let mut joiner = joiner();
    joiner.take(0, 1, &event(Point::ServerReceive, 0, &[("key", 1), ("status", 5)], &[]));
    joiner.take(0, 1, &[255, 255, 1, 2]);
    joiner.take(0, 1, &[7]);
    assert_eq!(joiner.settle(10), []);
}

/// A Send of three buffers: header, head, and the tail without its pad of two bytes.
#[test]
fn buffers_of_a_send_are_gathered() {
    let mut joiner = joiner();
    let sges = [(0x7000_0010, 28), (0x9000_0120, 40), (0x9000_0ff2, 10)];
    let values = [("key", 1), ("sges", 3), ("head", 0xff00_5120), ("tail", 0xff00_6ff0), ("tail_length", 12)];
    joiner.take(0, 1, &event(Point::ClientSend, 0, &values, &sges));
    let expected = [&filling("h0")[..28], &filling("b0")[..40], &filling("t0")[2..12]].concat();
    let found = joiner.settle(10);
    assert_eq!((found[0].length, &found[0].bytes), (78, &expected));
    assert!(found[0].is_sent);
}

/// The server's RPC message comes from the earlier map event. Pages are not fetched, so the message
/// is truncated before them.
#[test]
fn reply_with_pages_is_truncated() {
    let mut joiner = joiner();
    let mapped = [("key", 9), ("head", 0x5120), ("head_length", 40), ("tail", 0x6ff0), ("tail_length", 12)];
    joiner.take(1, 1, &event(Point::ServerMap, 0, &mapped, &[]));
    let sges = [(0x10, 28), (0x120, 40), (0x3000, 1000), (0xff0, 12)];
    let send = [("key", 9), ("sges", 4), ("opcode", 9), ("rkey", 3)];
    joiner.take(0, 2, &event(Point::ServerSend, 0, &send, &sges));
    // An error has a header only, and nothing was mapped for it.
    joiner.take(0, 3, &event(Point::ServerSend, 0, &[("key", 9), ("sges", 1)], &[(0x10, 28)]));
    let found = joiner.settle(10);
    let expected = [&filling("b0")[..28], &filling("b0")[..40]].concat();
    assert_eq!((found[0].length, &found[0].bytes, found[0].invalidated), (1080, &expected, Some(3)));
    assert_eq!((found[1].length, found[1].bytes.len(), found.len()), (28, 28, 2));
}

/// A buffer at another offset in its page is not the one that was sent.
#[test]
fn mismatched_buffers_are_not_used() {
    let mapped = Mapped { head: 0x5120, tail: 0, tail_length: 0, bytes: vec![1; 40], tail_bytes: Vec::new() };
    let (length, bytes) = gathered(&[(0x10, 4), (0x124, 40)], &[7; 8], Some(&mapped));
    assert_eq!((length, bytes), (44, vec![7; 4]));
}
