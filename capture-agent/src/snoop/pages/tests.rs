use super::*;

fn page(time: u64, flags: usize, events: &[u8], trailer: &[u8]) -> Vec<u8> {
    let mut page = time.to_ne_bytes().to_vec();
    page.extend((events.len() | flags).to_ne_bytes());
    page.extend_from_slice(events);
    page.extend_from_slice(trailer);
    page
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn read(page: &[u8]) -> (u64, Vec<(u64, Vec<u8>)>) {
    let mut seen = Vec::new();
    let (_, lost) = events(page, |time, data| seen.push((time, data.to_vec())));
    (lost, seen)
}

/// A small event, a long one, padding, a long pause, an absolute time, and the end of the page.
fn example() -> Vec<u8> {
    let mut events = words(&[2 | 5 << 5, 11, 12]);
    events.extend(words(&[7 << 5, 4 + 8, 21, 22]));
    events.extend(words(&[29 | 1 << 5, 8, 0]));
    events.extend(words(&[30 | 3 << 5, 1, 1 | 1 << 5, 31]));
    events.extend(words(&[31 | 9 << 5, 2, 1, 41]));
    events.extend(words(&[29, 0, 1, 51]));
    events
}

#[test]
fn events_have_times_and_data() {
    let (lost, seen) = read(&page(1000, 0, &example(), &[]));
    let extended = 1012 + (1 << 27) + 3 + 1;
    let absolute = (2 << 27) + 9;
    let expected = [
        (1005, words(&[11, 12])),
        (1012, words(&[21, 22])),
        (extended, words(&[31])),
        (absolute, words(&[41])),
    ];
    assert_eq!((lost, seen.as_slice()), (0, expected.as_slice()));
}

#[test]
fn lost_events_are_counted() {
    let count = 77usize.to_ne_bytes();
    assert_eq!(read(&page(0, MISSED | MISSED_STORED, &example(), &count)).0, 77);
    assert_eq!(read(&page(0, MISSED, &example(), &count)).0, 1);
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    let bytes = page(1000, MISSED | MISSED_STORED, &example(), &[]);
    for length in 0..bytes.len() {
        read(&bytes[..length]);
        for value in [0, 0xff] {
            let mut changed = bytes.clone();
            changed[length] = value;
            read(&changed);
        }
    }
}

#[test]
fn fields_are_at_their_offsets() {
    let format = "name: client_send0\nID: 1862\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:u32 length;\toffset:2;\tsize:4;\tsigned:0;\n\
        \tfield:u64 b0[];\toffset:6;\tsize:16;\tsigned:0;\n\
        \tfield:u64 key;\toffset:22;\tsize:8;\tsigned:0;\n\nprint fmt: \"(%lx) key=0x%Lx\", REC->key\n";
    let (id, layout) = Layout::parse(format).unwrap();
    let mut data = vec![0, 0];
    data.extend(7u32.to_ne_bytes());
    data.extend(1..=16u8);
    data.extend(9u64.to_ne_bytes());
    assert_eq!((id, layout.number("length", &data), layout.number("key", &data)), (1862, 7, 9));
    assert_eq!(layout.bytes("b0", &data), (1..=16).collect::<Vec<u8>>());
    assert_eq!((layout.bytes("b1", &data), layout.number("key", &data[..25])), (&[][..], 0));
    assert!(Layout::parse("name: none\n").is_none());
}
