//! Writes the initial corpora, cut out of the samples and out of the packets of the scenarios:
//! `seeds SAMPLES CORPORA`.

mod scenarios;

use rdmascope_dissector::frame::{self, Config};
use rdmascope_dissector::record::Record;
use rdmascope_fuzz_targets::records;
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::rpcrdma::Header;
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Qpn, rpc};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let (Some(samples), Some(corpora)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: seeds SAMPLES CORPORA"));
    };
    let mut seeds = BTreeSet::new();
    for entry in fs::read_dir(samples)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pcap") {
            let file = fs::read(path)?;
            seeds.insert(("capture_engine", capture(&file, 40, 2048)));
            seeds.insert(("capture_engine", capture(&file, 150, 160)));
            records(&file).take(600).for_each(|record| of_record(&record, &mut seeds));
        }
    }
    seeds.extend(scenarios::seeds().map(|seed| ("peer", seed)));
    // The choices of the engine's target have no readable form, so some pseudorandom ones are used.
    let mut state = 1u32;
    for length in [60, 200, 600, 1500] {
        let dice = (0..length).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let dice: Vec<u8> = dice.collect();
        seeds.insert(("places", dice.repeat(2)));
        seeds.insert(("engine", dice));
    }
    for (number, (target, seed)) in seeds.into_iter().enumerate() {
        write(&corpora.join(target), number, &seed)?;
    }
    Ok(())
}

fn write(folder: &Path, number: usize, seed: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(format!("seed-{number:04}")), seed)
}

/// The first records of a little-endian capture, each truncated to `snap` bytes.
fn capture(file: &[u8], most: usize, snap: usize) -> Vec<u8> {
    let mut out = file[..24].to_vec();
    for record in records(file).take(most) {
        let kept = &record.data[..record.data.len().min(snap)];
        for word in [
            (record.time.0 / 1_000_000_000) as u32,
            (record.time.0 % 1_000_000_000 / 1000) as u32,
            kept.len() as u32,
            record.original_length,
        ] {
            out.extend(word.to_le_bytes());
        }
        out.extend(kept);
    }
    out
}

fn of_record(record: &Record<'_>, seeds: &mut BTreeSet<(&'static str, Vec<u8>)>) {
    let mut add = |target, prefix: &[u8], bytes: &[u8]| {
        if bytes.len() <= 600 {
            seeds.insert((target, [prefix, bytes].concat()));
        }
    };
    let Ok(frame) = frame::dissect(record, &Config::default()) else { return };
    add("frame", &[0, 0, 0], record.data);
    add("headers", &[0], frame.transport);
    let Ok(bth) = Bth::parse(frame.transport) else { return };
    let rest = &frame.transport[Bth::LENGTH..];
    let Ok((_, length)) = Extensions::parse(bth.opcode, rest) else { return };
    let payload = &rest[length..];
    if bth.destination_qp == Qpn(1) {
        add("headers", &[2], payload);
        add("peer", &[2], payload);
        return add("headers", &[3], payload);
    }
    if !bth.opcode.operation().is_some_and(|operation| operation.is_send()) {
        return;
    }
    add("headers", &[5], payload);
    // A message for a replay.
    add("peer", &[3, (payload.len() / 4).min(255) as u8], payload);
    let Ok(header) = Header::parse(payload) else { return };
    let stream = &payload[header.length..];
    let mut reader = Reader::new(stream, Layer::Rpc);
    if let Ok(call) = rpc::Call::parse(&mut reader) {
        add("headers", &[6], stream);
        let which = match (call.program, call.version) {
            (100_003, 4) => 0,
            (100_003, 3) => 1,
            (100_227, 3) => 3,
            _ => 5,
        };
        let length = (reader.rest().len() as u16).to_be_bytes();
        add("upper_layer", &[which, call.procedure as u8, 0, length[0], length[1]], reader.rest());
    } else if rpc::Reply::parse(&mut reader).is_ok() {
        add("headers", &[7], stream);
        add("upper_layer", &[0, 1, 0x80, 0, 0], reader.rest());
        add("upper_layer", &[1, 6, 0x80, 0, 0], reader.rest());
    }
}
