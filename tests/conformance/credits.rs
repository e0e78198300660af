//! Credits.

use crate::Trigger;
use rdmascope_tests::mutate::{self, CLIENT, SERVER};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "credit-limit",
        alteration: "every reply grants one credit",
        control: large,
        alter: |capture| {
            mutate::each(capture, |packet| {
                if packet.source() == SERVER {
                    set_credits(packet, 1)
                }
            })
        },
        also: &[],
    },
    Trigger {
        rule: "credit-first-reply",
        alteration: "the first reply comes after the second call",
        control: basic,
        alter: swap_first_reply,
        also: &[],
    },
    Trigger {
        rule: "credit-grant-zero",
        alteration: "the third reply grants no credits",
        control: basic,
        alter: |capture| set_credits_of_nth(capture, SERVER, 2, 0),
        also: &["credit-limit"],
    },
    Trigger {
        rule: "credit-request-zero",
        alteration: "the third call asks for no credits",
        control: basic,
        alter: |capture| set_credits_of_nth(capture, CLIENT, 2, 0),
        also: &[],
    },
    Trigger {
        rule: "credit-beyond-request",
        alteration: "every call asks for one credit",
        control: large,
        alter: |capture| {
            mutate::each(capture, |packet| {
                if packet.source() == CLIENT {
                    set_credits(packet, 1)
                }
            })
        },
        also: &[],
    },
    Trigger {
        rule: "credit-grant-lowered",
        alteration: "the third reply grants half of what the second one did",
        control: basic,
        alter: |capture| set_credits_of_nth(capture, SERVER, 2, 32),
        also: &[],
    },
    Trigger {
        rule: "credit-starvation",
        alteration: "every reply grants one credit",
        control: basic,
        alter: |capture| {
            mutate::each(capture, |packet| {
                if packet.source() == SERVER {
                    set_credits(packet, 1)
                }
            })
        },
        also: &[],
    },
];

fn basic() -> Capture {
    samples::capture("nfs4.1-basic")
}

fn large() -> Capture {
    samples::capture("nfs4.2-mtu4096-large-io")
}

/// Sets rdma_credit of a Send, and leaves other packets alone.
fn set_credits(packet: &mut Packet, credits: u32) {
    if packet.starts_message() {
        let start = packet.payload().start;
        packet.set_u32(start + 8, credits);
        packet.seal();
    }
}

fn set_credits_of_nth(capture: &mut Capture, sender: core::net::Ipv4Addr, nth: usize, credits: u32) {
    let packet = nth_message(capture, sender, nth);
    set_credits(&mut capture.packets[packet], credits);
}

/// The index of the packet that begins the nth Send of a host.
fn nth_message(capture: &Capture, sender: core::net::Ipv4Addr, nth: usize) -> usize {
    let mut messages = capture
        .packets
        .iter()
        .enumerate()
        .filter(|(_, packet)| packet.starts_message() && packet.source() == sender);
    messages.nth(nth).expect("the session has as many").0
}

/// Moves the first reply behind the second call.
fn swap_first_reply(capture: &mut Capture) {
    let (reply, call) = (nth_message(capture, SERVER, 0), nth_message(capture, CLIENT, 1));
    mutate::reorder(capture, reply, call);
}
