use super::*;
use crate::Capture;
use rdmascope_dissector::record::Time;

fn record(data: &[u8], link: LinkType, time: i64) -> Record<'_> {
    Record {
        number: 1,
        time: Time(time),
        link,
        original_length: data.len() as u32 + 100,
        dropped: 0,
        tap: Default::default(),
        data,
    }
}

fn written(write: impl FnOnce(&mut PcapngWriter<Vec<u8>>)) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), "rdmascope").unwrap();
    write(&mut writer);
    writer.finish().unwrap()
}

/// draft-ietf-opsawg-pcapng, sections 4.1 to 4.3, byte by byte.
#[test]
fn blocks_match_the_pcapng_draft() {
    let bytes = written(|writer| {
        let record = record(&[0xaa; 5], LinkType::ETHERNET, 0x0102_0304_0506_0708);
        writer.packet(&record, "NAK").unwrap();
    });
    let expected: &[&[u8]] = &[
        // Section header: byte-order magic, version 1.0, unspecified length, shb_userappl,
        // opt_endofopt.
        &[0x0a, 0x0d, 0x0d, 0x0a, 48, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0],
        &[0xff; 8],
        b"\x04\0\x09\0rdmascope\0\0\0\0\0\0\0",
        &[48, 0, 0, 0],
        // Interface description: LINKTYPE_ETHERNET, no snap length, if_tsresol 9, opt_endofopt.
        &[1, 0, 0, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0],
        // Enhanced packet: interface 0, timestamp, lengths.
        &[6, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5, 5, 0, 0, 0, 105, 0, 0, 0],
        &[0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0, 0, 0],
        // opt_comment, opt_endofopt.
        &[1, 0, 3, 0, b'N', b'A', b'K', 0, 0, 0, 0, 0, 52, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn written_packets_are_read_back() {
    let data: Vec<u8> = (0..=255).collect();
    let links = [LinkType::ETHERNET, LinkType::INFINIBAND, LinkType::ETHERNET];
    let records: Vec<Record<'_>> = (0..9usize)
        .map(|length| Record {
            number: length as u64 + 1,
            ..record(&data[..length], links[length % 3], 1_763_717_400_000_000_001 + length as i64)
        })
        .collect();
    let bytes = written(|writer| {
        for record in &records {
            writer.packet(record, &"x".repeat(record.data.len())).unwrap();
        }
    });
    let mut capture = Capture::from_reader("written", std::io::Cursor::new(bytes)).unwrap();
    for record in &records {
        let read = capture.next().unwrap().expect("every written packet is read");
        assert_eq!((read.number, read.time, read.link), (record.number, record.time, record.link));
        assert_eq!((read.original_length, read.data), (record.original_length, record.data));
    }
    assert!(capture.next().unwrap().is_none());
    assert_eq!(capture.end(), None);
}

#[test]
fn long_comments_and_times_before_1970_are_clamped() {
    // Three bytes per character: the limit of 65,535 falls on a boundary, but not after one more
    // byte.
    for (comment, kept) in
        [("\u{20ac}".repeat(30_000), 65_535), (format!("a{}", "\u{20ac}".repeat(30_000)), 65_533)]
    {
        let bytes = written(|writer| writer.packet(&record(&[1], LinkType::RAW, -1), &comment).unwrap());
        let packet = &bytes[48 + 32..];
        assert_eq!(packet[12..20], [0; 8], "a time before 1970");
        assert_eq!(packet[34..36], (kept as u16).to_le_bytes());
        assert!(core::str::from_utf8(&packet[36..36 + kept]).is_ok());
    }
}

#[test]
fn capture_without_packets_is_valid() {
    let mut capture = Capture::from_reader("empty", std::io::Cursor::new(written(|_| {}))).unwrap();
    assert!(capture.next().unwrap().is_none());
}

#[test]
fn section_options_are_written() {
    let comments = ["one".to_owned(), String::new(), "two".to_owned()];
    let section = Section { application: "rdmascope", system: "Linux 6.12", comments: &comments };
    let bytes = PcapngWriter::begin_section(Vec::new(), &section).unwrap().finish().unwrap();
    let expected: &[&[u8]] = &[
        b"\x01\0\x03\0one\0",
        b"\x01\0\x03\0two\0",
        b"\x03\0\x0a\0Linux 6.12\0\0",
        b"\x04\0\x09\0rdmascope\0\0\0",
        &[0; 4],
    ];
    assert_eq!(bytes[24..bytes.len() - 4], expected.concat());
}

/// Takes this number of bytes and then fails.
struct Full(usize, Vec<u8>);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(self.0 - self.1.len());
        self.1.extend(&bytes[..length]);
        if length == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(length) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn handed_on_bytes_are_complete_blocks() {
    let mut writer = PcapngWriter::new(Full(600_000, Vec::new()), "rdmascope").unwrap();
    let data = [7; 1001];
    let mut packets = 0;
    while writer.packet(&record(&data, LinkType::ETHERNET, 1), "").is_ok() {
        packets += 1;
    }
    let handed_on = writer.handed_on() as usize;
    assert_eq!(writer.get_ref().1.len(), 600_000, "everything that fit was written");
    let bytes = writer.get_ref().1[..handed_on].to_vec();
    let mut capture = Capture::from_reader("written", std::io::Cursor::new(bytes)).unwrap();
    let mut read = 0;
    while capture.next().unwrap().is_some() {
        read += 1;
    }
    assert!(read > packets / 2 && capture.end().is_none(), "{read} of {packets}, {:?}", capture.end());
}

/// A disk with `left` bytes of free space.
struct Disk {
    left: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.left);
        self.left -= taken;
        if taken == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn packets_lost_to_a_full_disk_are_not_counted() {
    let packet = record(&[0; 1000], LinkType::ETHERNET, 0);
    let mut writer = PcapngWriter::new(Disk { left: 100_000 }, "test").unwrap();
    for _ in 0..50 {
        writer.packet(&packet, "").unwrap();
    }
    assert_eq!(writer.packets_handed_on(), 0, "all are buffered");
    writer.flush().unwrap();
    assert_eq!(writer.packets_handed_on(), 50);
    let kept = writer.handed_on();
    for _ in 0..50 {
        writer.packet(&packet, "").unwrap();
    }
    assert!(writer.flush().is_err(), "they are more than 100,000 bytes");
    assert_eq!((writer.packets_handed_on(), writer.handed_on()), (50, kept));
}
