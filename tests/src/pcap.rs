//! A reader and a writer of classic pcap files, independent of the ones that rdmascope ships.

/// A captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The number that other tools give it, from 1; kept when packets around it are taken away.
    pub number: u64,
    /// Nanoseconds since 1970.
    pub time: i64,
    /// Bytes that it had on the wire.
    pub original_length: u32,
    /// The bytes captured.
    pub data: Vec<u8>,
}

/// A capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// The LINKTYPE of all packets.
    pub link: u16,
    /// The packets in the order of the file.
    pub packets: Vec<Packet>,
}

impl Capture {
    /// Numbers the packets from 1 in the order in which they stand.
    pub fn renumber(&mut self) {
        (1..).zip(&mut self.packets).for_each(|(number, packet)| packet.number = number);
    }
}

/// Reads a little-endian pcap file with time stamps in microseconds: what tcpdump wrote for every sample.
pub fn read(bytes: &[u8]) -> Result<Capture, String> {
    let word =
        |at: usize| -> Option<u32> { Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)) };
    if word(0) != Some(0xa1b2_c3d4) {
        return Err("no little-endian microsecond pcap".into());
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

/// Writes such a file.
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
