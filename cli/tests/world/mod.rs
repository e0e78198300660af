//! A handmade session, packet by packet, and the results of `extract` on it.

#![allow(dead_code)] // Each test file uses a part of it.

use crate::binary::run;
pub(crate) use rdmascope_testkit::messages::opaque;
use rdmascope_testkit::messages::{call_with, message, msg, reply_with};
use rdmascope_testkit::world::ethernet_frame;
use rdmascope_tests::pcap::{self, Capture, Packet};
use rdmascope_wire::bth::{Bth, Extensions, Opcode};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Qpn, compose};
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Output;

/// A client and a server that use NFS version 3 without chunks, captured from the middle of their
/// connection.
pub(crate) struct World {
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) psns: [u32; 2],
    pub(crate) xid: u32,
    /// The last byte of the server's address.
    pub(crate) server: u8,
}

impl World {
    pub(crate) fn new() -> World {
        World { frames: Vec::new(), psns: [100, 9000], xid: 1, server: 1 }
    }

    /// A call with these arguments, and a reply with these results.
    pub(crate) fn call(&mut self, procedure: u32, arguments: &[u8], results: &[u8]) {
        let [call, reply] = self.exchange(3, procedure, arguments, results);
        self.send(0, &call);
        self.send(1, &reply);
    }

    /// The two messages of a call of this version.
    pub(crate) fn exchange(
        &mut self,
        version: u32,
        procedure: u32,
        arguments: &[u8],
        results: &[u8],
    ) -> [Vec<u8>; 2] {
        self.exchange_of([100_003, version, procedure], arguments, results)
    }

    /// The two messages of a call of this program, version and procedure.
    pub(crate) fn exchange_of(&mut self, called: [u32; 3], arguments: &[u8], results: &[u8]) -> [Vec<u8>; 2] {
        let xid = self.xid;
        self.xid += 1;
        let call = call_with(xid, called, arguments);
        [message(&msg(xid), &call), message(&msg(xid), &reply_with(xid, results))]
    }

    /// PUTFH and DEALLOCATE (RFC 7862, section 15.4), in a COMPOUND without a tag.
    pub(crate) fn punch(&mut self, handle: &[u8], offset: u64, length: u64) {
        let range = [offset.to_be_bytes(), length.to_be_bytes()].concat();
        let operations = [word(22), opaque(handle), word(62), vec![0; 16], range].concat();
        let arguments = [word(0), word(2), word(2), operations].concat();
        let results = [0, 0, 2, 22, 0, 62, 0].map(word).concat();
        let [call, reply] = self.exchange(4, 1, &arguments, &results);
        self.send(0, &call);
        self.send(1, &reply);
    }

    /// SETATTR of NFSv4 (RFC 8881, section 18.30): a stateid of zeros, and the attributes size and,
    /// optionally, mode.
    pub(crate) fn resize_4(&mut self, handle: &[u8], size: u64, and_mode: bool) {
        let mask =
            if and_mode { vec![word(2), word(1 << 4), word(1 << 1)] } else { vec![word(1), word(1 << 4)] };
        let mut values = size.to_be_bytes().to_vec();
        if and_mode {
            values.extend(word(0o644));
        }
        let set = [vec![0; 16], mask.concat(), opaque(&values)].concat();
        let arguments = [word(0), word(2), word(2), word(22), opaque(handle), word(34), set].concat();
        let results = [0, 0, 2, 22, 0, 34, 0, 1, 1 << 4].map(word).concat();
        let [call, reply] = self.exchange(4, 1, &arguments, &results);
        self.send(0, &call);
        self.send(1, &reply);
    }

    /// SETATTR of NFSv3 (RFC 1813, section 3.3.2): a size, unchanged times, no guard. `status` is
    /// the server's answer.
    pub(crate) fn resize_3(&mut self, handle: &[u8], size: Option<u64>, status: usize) {
        let set = match size {
            Some(size) => [word(1), size.to_be_bytes().to_vec()].concat(),
            None => word(0),
        };
        let arguments = [opaque(handle), word(0), word(0), word(0), set, word(0), word(0), word(0)].concat();
        self.call(2, &arguments, &[status, 0, 0].map(word).concat());
    }

    /// LOOKUP of `name`, which returns `handle`.
    pub(crate) fn named(&mut self, name: &[u8], handle: &[u8]) {
        let arguments = [opaque(b"directory"), opaque(name)].concat();
        self.call(3, &arguments, &[word(0), opaque(handle), word(0), word(0)].concat());
    }

    pub(crate) fn write(&mut self, handle: &[u8], offset: u64, data: &[u8]) {
        self.write_some(handle, offset, data, data.len());
    }

    /// A WRITE of which the server accepted `count` bytes.
    pub(crate) fn write_some(&mut self, handle: &[u8], offset: u64, data: &[u8], count: usize) {
        let arguments =
            [opaque(handle), offset.to_be_bytes().to_vec(), word(data.len()), word(2), opaque(data)].concat();
        let results = [word(0), word(0), word(0), word(count), word(2), vec![0; 8]].concat();
        self.call(7, &arguments, &results);
    }

    pub(crate) fn read(&mut self, handle: &[u8], offset: u64, data: &[u8]) {
        let arguments = [opaque(handle), offset.to_be_bytes().to_vec(), word(data.len())].concat();
        let results = [word(0), word(0), word(data.len()), word(1), opaque(data)].concat();
        self.call(6, &arguments, &results);
    }

    /// SEND Only in its own frame.
    pub(crate) fn send(&mut self, from: usize, message: &[u8]) {
        let ends = [[192, 0, 2, 200], [192, 0, 2, self.server]].map(Ipv4Addr::from);
        let ip = compose::Ipv4::new(ends[from], ends[1 - from]);
        let bth = Bth {
            opcode: Opcode::RC_SEND_ONLY,
            migration_request: true,
            partition_key: 0xffff,
            destination_qp: Qpn(if from == 0 { 0x11 } else { 0x22 }),
            psn: Psn::new(self.psns[from]),
            ..Bth::default()
        };
        self.psns[from] += 1;
        self.frames.push(ethernet_frame(ip, bth, Extensions::default(), message));
    }

    pub(crate) fn capture(&self) -> Vec<u8> {
        let packet = |(number, frame): (u64, &Vec<u8>)| Packet {
            number,
            time: 1_700_000_000_000_000_000 + number as i64 * 1_000,
            original_length: frame.len() as u32,
            data: frame.clone(),
        };
        pcap::write(&Capture { link: 1, packets: (1..).zip(&self.frames).map(packet).collect() })
    }

    pub(crate) fn extract(&self, to: &Path, further: &[&str]) -> Output {
        let capture = to.with_extension("pcap");
        fs::write(&capture, self.capture()).expect("the folder for temporary files can be written to");
        let output = extract_files(capture.to_str().expect("the path is UTF-8"), to, further);
        fs::remove_file(capture).expect("it was made");
        output
    }
}

pub(crate) fn word(value: usize) -> Vec<u8> {
    (value as u32).to_be_bytes().to_vec()
}

pub(crate) fn extract_files(capture: &str, to: &Path, further: &[&str]) -> Output {
    let to = to.to_str().expect("the path is UTF-8");
    run(&[&["extract", capture, "--files", to, "--format", "jsonl"], further].concat())
}
