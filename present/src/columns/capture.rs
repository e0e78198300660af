//! `capture`: totals of the packets that were read, and the files and interfaces of a capture.

use crate::column::Read::{Frame, Object, Objects, Shown, Text, Time, U16, U32, U64};
use crate::column::{Column, Columns, Role, Subject, Within, lend};
use rdmascope_analysis::ending::{Chosen, Cut, Ending, FileEnding};
use rdmascope_capture_agent::Interface;
use rdmascope_dissector::protocol::Traffic;

impl Subject for Ending {
    type Of<'a> = &'a Ending;
}

/// A protocol other than RDMA, with its packet count.
struct Named;

impl Subject for Named {
    type Of<'a> = (Traffic, u64);
}

static TRAFFIC: Columns<Named> = {
    type C = Column<Named>;
    Columns {
        name: "traffic",
        role: Role::Inner,
        columns: &[
            C::new("protocol", Shown(|(traffic, _), see| see(&traffic)), "The name of the protocol."),
            C::new("packets", U64(|(_, count)| Some(count)), "The number of packets."),
        ],
    }
};

/// The totals of a capture.
pub static CAPTURE: Columns<Ending> = {
    type C = Column<Ending>;
    type O<U> = Within<Ending, U>;
    Columns {
        name: "capture",
        role: Role::Line,
        columns: &[
            C::new("records", U64(|it| Some(it.totals.records)), "Packets in the files."),
            C::new("bytes", U64(|it| Some(it.totals.bytes)), "Bytes of these packets on the wire."),
            C::new(
                "first",
                Time(|it| it.totals.span.map(|(first, _)| first)),
                "The time of the first packet.",
            )
            .or_null(),
            C::new(
                "last",
                Time(|it| it.totals.span.map(|(_, last)| last)),
                "The latest time of all packets.",
            )
            .or_null(),
            C::new("packets", U64(|it| Some(it.totals.packets)), "InfiniBand transport packets."),
            C::new(
                "copies",
                U64(|it| Some(it.totals.copies)),
                "Packets among these that were captured a second time. The analysis ignores them.",
            ),
            C::new(
                "apart",
                Shown(|it, see| lend(it.apart().as_ref(), |apart| see(apart))),
                "Why the files may not belong to one capture: they share no connection, or the time between them is longer than the time they cover.",
            )
            .optional(),
            C::new(
                "chosen",
                Object(&O { columns: &CHOSEN, lend: |it, see| lend(it.chosen.as_ref(), see) }),
                "The selected transactions, if a filter is in effect. The lines after this one describe only these; the other counts of this line cover the whole capture.",
            )
            .optional(),
            C::new(
                "iwarp_segments",
                U64(|it| Some(it.totals.segments).filter(|segments| *segments > 0)),
                "TCP segments of iWARP connections.",
            )
            .optional(),
            C::new("others", U64(|it| Some(it.totals.others)), "Packets of other protocols."),
            C::new(
                "traffic",
                Objects(&O {
                    columns: &TRAFFIC,
                    lend: |it, see| it.totals.traffic.iter().for_each(see),
                }),
                "The packets in `others` by protocol, in the order of their first packets, at most 48 protocols. iWARP is listed here if its connection could not be followed.",
            )
            .optional(),
            C::new(
                "unknown_link",
                U64(|it| Some(it.totals.unknown_link)),
                "Packets with an unsupported link type.",
            ),
            C::new("fragments", U64(|it| Some(it.totals.fragments)), "Fragments of IP packets."),
            C::new(
                "unreadable",
                U64(|it| Some(it.totals.stops)),
                "Packets whose headers are truncated or malformed.",
            ),
            C::snapped(|it| Some(it.totals.cut_records)),
            C::new(
                "without_payload",
                U64(|it| Some(it.totals.records_without_payload)),
                "RDMA Writes and RDMA Read responses that are complete except for their payload, which `--cut-bulk` omits.",
            ),
            C::new(
                "icrc",
                Object(&O { columns: &ICRC, lend: |it, see| see(it.totals.icrc) }),
                "Packets by ICRC verdict.",
            ),
            C::new(
                "congestion_notifications",
                U64(|it| Some(it.totals.congestion_notifications)),
                "Congestion notification packets (CNPs).",
            ),
            C::new(
                "other_transports",
                U64(|it| Some(it.totals.other_transports)),
                "Packets of transports other than RC.",
            ),
            C::new("cm_messages", U64(|it| Some(it.totals.cm_messages)), "CM messages."),
            C::new("connections", U64(|it| Some(it.totals.connections)), "Connections in the capture."),
            C::new(
                "known_connections",
                U64(|it| Some(it.totals.known_connections).filter(|count| *count > 0)),
                "Connections that the kernel of a host reported during the capture, with or without packets in the capture.",
            )
            .optional(),
            C::new(
                "contradicted_connections",
                U64(|it| Some(it.totals.contradicted_connections).filter(|_| it.totals.known_connections > 0)),
                "Reported connections that packets contradict, because the queue pairs were reused. These reports are ignored.",
            )
            .optional(),
            C::new(
                "first_contradiction_frame",
                Frame(|it| it.totals.first_contradiction),
                "The first packet that contradicts a report.",
            )
            .optional(),
            C::new(
                "transactions",
                Object(&O { columns: &OUTCOMES, lend: |it, see| see(it.totals.transactions) }),
                "Transactions by outcome.",
            ),
            C::evictions(|it| Some(it.totals.evictions)),
            C::new(
                "files",
                Objects(&O { columns: &FILE, lend: |it, see| it.files.iter().for_each(see) }),
                "The files of the capture, in the order given.",
            ),
        ],
    }
};

impl Subject for Chosen {
    type Of<'a> = &'a Chosen;
}

static CHOSEN: Columns<Chosen> = {
    type C = Column<Chosen>;
    Columns {
        name: "chosen",
        role: Role::Inner,
        columns: &[
            C::new("transactions", U64(|it| Some(it.transactions)), "The number of transactions."),
            C::new(
                "connections",
                U64(|it| Some(it.connections)),
                "The number of connections that carried them.",
            ),
        ],
    }
};

/// Packets by ICRC verdict: good, bad, unverifiable.
struct Icrc;

impl Subject for Icrc {
    type Of<'a> = [u64; 3];
}

static ICRC: Columns<Icrc> = {
    type C = Column<Icrc>;
    Columns {
        name: "icrc",
        role: Role::Inner,
        columns: &[
            C::new("good", U64(|[good, ..]| Some(good)), "The ICRC is right."),
            C::new("bad", U64(|[_, bad, _]| Some(bad)), "The ICRC is wrong."),
            C::new(
                "unverifiable",
                U64(|[.., unverifiable]| Some(unverifiable)),
                "The ICRC cannot be verified.",
            ),
        ],
    }
};

/// Transactions by outcome.
struct Outcomes;

impl Subject for Outcomes {
    type Of<'a> = [u64; 5];
}

static OUTCOMES: Columns<Outcomes> = {
    type C = Column<Outcomes>;
    Columns {
        name: "transactions",
        role: Role::Inner,
        columns: &[
            C::new("completed", U64(|counts| Some(counts[0])), "Transactions with the outcome `completed`."),
            C::new("no_reply", U64(|counts| Some(counts[1])), "Transactions with the outcome `no-reply`."),
            C::new("no_call", U64(|counts| Some(counts[2])), "Transactions with the outcome `no-call`."),
            C::new(
                "transport_error",
                U64(|counts| Some(counts[3])),
                "Transactions with the outcome `transport-error`.",
            ),
            C::new("cut_off", U64(|counts| Some(counts[4])), "Transactions with the outcome `cut-off`."),
        ],
    }
};

impl Subject for FileEnding {
    type Of<'a> = &'a FileEnding;
}

/// A file of a capture.
pub static FILE: Columns<FileEnding> = {
    type C = Column<FileEnding>;
    type O<U> = Within<FileEnding, U>;
    Columns {
        name: "files",
        role: Role::Shared,
        columns: &[
            C::new(
                "name",
                Text(|file, see| see(&file.name)),
                "The name of the file as given. `-` is standard input.",
            ),
            C::new(
                "cut_short",
                Object(&O { columns: &CUT, lend: |file, see| lend(file.cut, see) }),
                "Where the file ends within a packet or block.",
            )
            .or_null(),
            C::new(
                "trouble",
                Shown(|file, see| lend(file.trouble.as_ref(), |trouble| see(trouble))),
                "Why reading the file stopped early. The other files were read completely.",
            )
            .or_null(),
            C::new(
                "interfaces",
                Objects(&O { columns: &INTERFACE, lend: |file, see| file.interfaces.iter().for_each(see) }),
                "The interfaces that a pcapng file describes. Other file formats describe none.",
            )
            .optional(),
        ],
    }
};

impl Subject for Interface {
    type Of<'a> = &'a Interface;
}

/// An interface that a pcapng file describes.
pub static INTERFACE: Columns<Interface> = {
    type C = Column<Interface>;
    Columns {
        name: "interfaces",
        role: Role::Shared,
        columns: &[
            C::new(
                "section",
                U64(|it| Some(it.section)),
                "The section of the file that describes the interface, from 1.",
            ),
            C::new("number", U32(|it| Some(it.number)), "The number of the interface in the section, from 0."),
            C::new("name", Text(|it, see| lend(it.name.as_deref(), see)), "if_name: at most 256 bytes.").or_null(),
            C::new(
                "description",
                Text(|it, see| lend(it.description.as_deref(), see)),
                "if_description: at most 256 bytes.",
            )
            .or_null(),
            C::new(
                "filter",
                Text(|it, see| lend(it.filter.as_deref(), see)),
                "if_filter as text: at most 256 bytes.",
            )
            .or_null(),
            C::new(
                "operating_system",
                Text(|it, see| lend(it.operating_system.as_deref(), see)),
                "The operating system of the capturing host (if_os, or shb_os of the section): at most 256 bytes.",
            )
            .optional(),
            C::new(
                "link_type",
                U16(|it| Some(it.link.0)),
                "The link type from the tcpdump.org registry. 1 is Ethernet.",
            ),
            C::new("start", Time(|it| it.statistics.start), "When the capture began (isb_starttime).").or_null(),
            C::new("end", Time(|it| it.statistics.end), "When the capture ended (isb_endtime).").or_null(),
            C::new(
                "received",
                U64(|it| it.statistics.received),
                "Packets that the interface received (isb_ifrecv).",
            )
            .or_null(),
            C::new(
                "accepted",
                U64(|it| it.statistics.accepted),
                "Packets that the filter accepted (isb_filteraccept).",
            )
            .or_null(),
            C::new(
                "delivered",
                U64(|it| it.statistics.delivered),
                "Packets delivered to the capturing program (isb_usrdeliv).",
            )
            .or_null(),
            C::new(
                "dropped_by_interface",
                U64(|it| it.statistics.dropped_by_interface),
                "Packets that the interface dropped for lack of resources (isb_ifdrop). dumpcap counts packets dropped by the kernel here.",
            )
            .or_null(),
            C::new(
                "dropped_by_system",
                U64(|it| it.statistics.dropped_by_system),
                "Packets that the operating system dropped for lack of resources (isb_osdrop).",
            )
            .or_null(),
            C::new(
                "dropped_before_packets",
                U64(|it| Some(it.dropped_before_packets)),
                "Packets dropped directly before a captured packet, summed up (epb_dropcount, and the drops count of obsolete packet blocks).",
            ),
            C::new(
                "dropped",
                U64(|it| Some(it.dropped())),
                "Packets dropped: the sum of `dropped_by_interface` and `dropped_by_system`, or `dropped_before_packets` if that is greater.",
            ),
        ],
    }
};

impl Subject for Cut {
    type Of<'a> = Cut;
}

static CUT: Columns<Cut> = {
    type C = Column<Cut>;
    Columns {
        name: "cut_short",
        role: Role::Inner,
        columns: &[
            C::new("offset", U64(|cut| Some(cut.offset)), "The byte offset in the file."),
            C::new("needed", U64(|cut| Some(cut.needed)), "Bytes needed at that offset."),
            C::new("available", U64(|cut| Some(cut.available)), "Bytes available at that offset."),
        ],
    }
};
