//! Triggers and tests of chunks.

pub(crate) mod binding;
mod controls;
mod honesty;
pub(crate) mod memory;
pub(crate) mod read;
pub(crate) mod reply;
pub(crate) mod write;

use core::net::Ipv4Addr;
use rdmascope_conformance::{Finding, Verdict};
use rdmascope_tests::judged::{findings, rule};
use rdmascope_tests::mutate::{self, CLIENT, Message, SERVER, Segment, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

/// RDMA_MSG, RDMA_NOMSG.
const MSG: u32 = 0;
const NOMSG: u32 = 1;

/// An NFSv4.2 session at a path MTU of 4096, and some of its transactions by XID.
pub(crate) fn large() -> Capture {
    samples::capture("nfs4.2-mtu4096-large-io")
}

/// EXCHANGE_ID with a Reply chunk of 4240 bytes; the reply uses 100 of them.
pub(crate) const EXCHANGE_ID: u32 = 0xdd8a_5ddc;
/// WRITE of four read segments of 131072 bytes at Position 176, with 16 bytes (GETATTR) after the
/// data.
pub(crate) const WRITE: u32 = 0xee8a_5ddc;
/// READ of 65536 bytes with a Write chunk of one segment.
const READ: u32 = 0xf88a_5ddc;
/// READ of 262144 bytes with a Write chunk of two segments of 131072.
const READ_OF_TWO: u32 = 0xfa8a_5ddc;

/// An NFSv4.1 session at a path MTU of 1024.
fn basic() -> Capture {
    samples::capture("nfs4.1-basic")
}

/// READ with a Write chunk of 4096 bytes; the reply uses 6 of them.
pub(crate) const READ_OF_SIX: u32 = 0xd4fc_0516;

/// An NFSv3 session at a path MTU of 1024.
pub(crate) fn version_3() -> Capture {
    samples::capture("nfs3-basic")
}

/// The index of the Send of a host with this XID.
pub(crate) fn send_of(capture: &Capture, sender: Ipv4Addr, xid: u32) -> usize {
    let is_wanted = |packet: &Packet| packet.source() == sender && packet.xid() == Some(xid);
    capture.packets.iter().position(is_wanted).expect("the sample has it")
}

pub(crate) fn change(capture: &mut Capture, sender: Ipv4Addr, xid: u32, change: impl FnOnce(&mut Message)) {
    let index = send_of(capture, sender, xid);
    mutate::change_message(&mut capture.packets[index], change);
}

pub(crate) fn change_call(capture: &mut Capture, xid: u32, how: impl FnOnce(&mut Message)) {
    change(capture, CLIENT, xid, how);
}

pub(crate) fn change_reply(capture: &mut Capture, xid: u32, how: impl FnOnce(&mut Message)) {
    change(capture, SERVER, xid, how);
}

fn call_of(capture: &Capture, xid: u32) -> Message {
    Message::of(&capture.packets[send_of(capture, CLIENT, xid)])
}

/// The index of the RDMA WRITE Only to this handle.
pub(crate) fn write_to(capture: &Capture, handle: u32) -> usize {
    let is_wanted = |packet: &Packet| {
        packet.is_rc()
            && packet.opcode() == opcode::WRITE_ONLY
            && packet.reth().is_some_and(|(_, rkey, _)| rkey == handle)
    };
    capture.packets.iter().position(is_wanted).expect("the sample has it")
}

/// Replaces the payload of an RDMA WRITE Only.
fn set_written(packet: &mut Packet, bytes: &[u8]) {
    let (address, rkey, _) = packet.reth().expect("a RETH");
    let reth = [
        address.to_be_bytes().to_vec(),
        rkey.to_be_bytes().to_vec(),
        (bytes.len() as u32).to_be_bytes().to_vec(),
    ];
    packet.set_after_bth(&[reth.concat(), bytes.to_vec()].concat());
}

/// Sends the reply of a call with a Reply chunk as an RDMA_MSG; the RDMA WRITE stays.
fn send_reply_inline(capture: &mut Capture, xid: u32) {
    let chunk = call_of(capture, xid).reply.expect("a Reply chunk");
    let written = &capture.packets[write_to(capture, chunk[0].handle)];
    let stream = written.data[written.payload()].to_vec();
    change_reply(capture, xid, |reply| {
        reply.procedure = MSG;
        reply.payload = stream;
        reply.reply.iter_mut().flatten().for_each(|segment| segment.length = 0);
    });
}

/// Puts the six bytes of [`READ_OF_SIX`] into the reply and returns its Write chunk unused; the
/// RDMA WRITE stays.
fn send_six_inline(capture: &mut Capture) {
    change_reply(capture, READ_OF_SIX, |reply| {
        reply.writes[0][0].length = 0;
        reply.payload.extend([1, 2, 3, 4, 5, 6, 0, 0]);
    });
}

/// The XIDs of calls of this RPC procedure without chunks, in one packet each.
pub(crate) fn plain_calls(capture: &Capture, procedure: u32) -> Vec<u32> {
    let calls = capture.packets.iter().filter(|packet| {
        packet.starts_message() && packet.opcode() == opcode::SEND_ONLY && packet.source() == CLIENT
    });
    let messages = calls
        .map(Message::of)
        .filter(|message| message.reads.is_empty() && message.writes.is_empty() && message.reply.is_none());
    messages.filter(|message| message.word(20) == procedure).map(|message| message.xid).collect()
}

/// The XID of a COMPOUND without chunks in the middle of the large session.
fn plain(capture: &Capture) -> u32 {
    plain_calls(capture, 1)[4]
}

/// The offset of the arguments of a call, after credential and verifier.
pub(crate) fn arguments_at(call: &Message) -> usize {
    let verifier = 32 + call.word(28).next_multiple_of(4) as usize;
    verifier + 8 + call.word(verifier + 4).next_multiple_of(4) as usize
}

/// The offset of the results of a reply, after verifier and accept_stat.
pub(crate) fn results_at(reply: &Message) -> usize {
    24 + reply.word(16).next_multiple_of(4) as usize
}

/// Changes the program of a call to one without a known binding.
fn make_unknown(call: &mut Message) {
    call.set_word(12, 300_000);
}

/// A segment that no call in the samples has.
const FOREIGN: Segment = Segment { handle: 0x7777_0001, length: 65_536, offset: 0x7000_0000_0000 };

/// The findings of one rule in an altered session.
fn found(control: fn() -> Capture, alter: impl FnOnce(&mut Capture), id: &str) -> Vec<Finding> {
    let mut capture = control();
    alter(&mut capture);
    findings(&capture).into_iter().filter(|finding| rule(finding).id == id).collect()
}

fn is_conclusive(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.verdict == Verdict::Certain)
}
