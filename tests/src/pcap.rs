//! A reader and a writer of classic pcap files, independent of those in rdmascope.

/// A captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The frame number of other tools, from 1. Removing packets does not change it.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub time: i64,
    /// The length on the wire, in bytes.
    pub original_length: u32,
    /// The captured bytes.
    pub data: Vec<u8>,
}

/// LINKTYPE_RAW: packets begin with the IP header.
pub const RAW: u16 = 101;

/// A capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The LINKTYPE of all packets.
    pub link: u16,
    /// The packets in file order.
    pub packets: Vec<Packet>,
}

impl Capture {
    /// Numbers the packets from 1 in their order.
    pub fn renumber(&mut self) {
        (1..).zip(&mut self.packets).for_each(|(number, packet)| packet.number = number);
    }
}

/// Reads a little-endian pcap file with time stamps in microseconds, the form in which tcpdump
/// wrote every sample.
pub fn read(bytes: &[u8]) -> Result<Capture, String> {
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)) };
    if word(0) != Some(0xa1b2_c3d4) {
        return Err("not a little-endian microsecond pcap file".into());
    }
    let link = word(20).ok_or("file header cut")? as u16;
    let mut packets = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let field = |index: usize| word(at + 4 * index).ok_or(format!("record header cut at byte {at}"));
        let (seconds, micros, captured, original_length) =
            (field(0)?, field(1)?, field(2)? as usize, field(3)?);
        let data = bytes.get(at + 16..at + 16 + captured).ok_or(format!("record cut at byte {at}"))?.to_vec();
        let time = i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1_000;
        packets.push(Packet { number: packets.len() as u64 + 1, time, original_length, data });
        at += 16 + captured;
    }
    Ok(Capture { link, packets })
}

/// Writes a file of the same form.
pub fn write(capture: &Capture) -> Vec<u8> {
    let mut out = Vec::new();
    let word = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    for value in [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 262_144, u32::from(capture.link)] {
        word(&mut out, value);
    }
    for packet in &capture.packets {
        let seconds = packet.time.div_euclid(1_000_000_000);
        let micros = packet.time.rem_euclid(1_000_000_000) / 1_000;
        for value in [seconds as u32, micros as u32, packet.data.len() as u32, packet.original_length] {
            word(&mut out, value);
        }
        out.extend_from_slice(&packet.data);
    }
    out
}
