//! The lines of the report of `analyze`: `capture`, `operation`, `error` and `problem`; and `check`, which ends findings.

use super::finding::LEVELS;
use super::transaction::DIRECTIONS;
use crate::column::Read::{
    Boolean, Fraction, Frame, Nanoseconds, Object, Objects, Shown, Text, Time, U16, U32, U64, Word,
};
use crate::column::{Column, Columns, Role, Subject, Within, lend, word};
use crate::ending::{Cut, Ending, FileEnding};
use crate::names::{self, Failure};
use crate::report::{ErrorCount, ErrorKey, Group, Key, Latency, Problem, Stats};
use crate::tally::{LevelCount, RuleCount, Tally};
use crate::words;
use rdmascope_capture_agent::Interface;
use rdmascope_conformance::Level;

impl Subject for Ending {
    type Of<'a> = &'a Ending;
}

/// What was read of a capture.
pub static CAPTURE: Columns<Ending> = {
    type C = Column<Ending>;
    type O<U> = Within<Ending, U>;
    Columns {
        name: "capture",
        role: Role::Line,
        columns: &[
            C::new("records", U64(|it| Some(it.totals.records)), "Packets in the files.").json_only(),
            C::new("bytes", U64(|it| Some(it.totals.bytes)), "Their bytes on the wire.").json_only(),
            C::new(
                "first",
                Time(|it| it.totals.span.map(|(first, _)| first)),
                "The time of the first packet.",
            )
            .or_null()
            .json_only(),
            C::new(
                "last",
                Time(|it| it.totals.span.map(|(_, last)| last)),
                "The latest time of all packets.",
            )
            .or_null()
            .json_only(),
            C::new("packets", U64(|it| Some(it.totals.packets)), "InfiniBand transport packets.").json_only(),
            C::new("others", U64(|it| Some(it.totals.others)), "Packets of other kinds.").json_only(),
            C::new(
                "unknown_link",
                U64(|it| Some(it.totals.unknown_link)),
                "Packets of link types that are not understood.",
            )
            .json_only(),
            C::new("fragments", U64(|it| Some(it.totals.fragments)), "Fragments of IP packets.").json_only(),
            C::new(
                "unreadable",
                U64(|it| Some(it.totals.stops)),
                "Packets that end before their headers do.",
            )
            .json_only(),
            C::new("snapped", U64(|it| Some(it.totals.cut_records)), "Packets that a snap length cut.")
                .json_only(),
            C::new(
                "icrc",
                Object(&O { columns: &ICRC, lend: |it, see| see(it.totals.icrc) }),
                "Packets by the verdict on their ICRC.",
            )
            .json_only(),
            C::new(
                "congestion_notifications",
                U64(|it| Some(it.totals.congestion_notifications)),
                "Congestion notification packets (CNPs).",
            )
            .json_only(),
            C::new(
                "other_transports",
                U64(|it| Some(it.totals.other_transports)),
                "Packets of transports other than RC.",
            )
            .json_only(),
            C::new("cm_messages", U64(|it| Some(it.totals.cm_messages)), "CM messages.").json_only(),
            C::new("connections", U64(|it| Some(it.totals.connections)), "Connections that were seen.")
                .json_only(),
            C::new(
                "transactions",
                Object(&O { columns: &OUTCOMES, lend: |it, see| see(it.totals.transactions) }),
                "Transactions by outcome.",
            )
            .json_only(),
            C::new(
                "evictions",
                U64(|it| Some(it.totals.evictions)),
                "Entries that were given up because a table was full.",
            )
            .json_only(),
            C::new(
                "files",
                Objects(&O { columns: &FILE, lend: |it, see| it.files.iter().for_each(see) }),
                "The files of the capture, in the order in which they were given.",
            )
            .json_only(),
        ],
    }
};

/// Packets whose ICRC is good, bad, and cannot be verified.
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
            C::new("completed", U64(|counts| Some(counts[0])), "Of the outcome `completed`."),
            C::new("no_reply", U64(|counts| Some(counts[1])), "Of the outcome `no-reply`."),
            C::new("no_call", U64(|counts| Some(counts[2])), "Of the outcome `no-call`."),
            C::new("transport_error", U64(|counts| Some(counts[3])), "Of the outcome `transport-error`."),
            C::new("cut_off", U64(|counts| Some(counts[4])), "Of the outcome `cut-off`."),
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
                "The name of the file as it was given. `-` is standard input.",
            ),
            C::new(
                "cut_short",
                Object(&O { columns: &CUT, lend: |file, see| lend(file.cut, see) }),
                "Where the file ends in the middle of something.",
            )
            .or_null(),
            C::new(
                "trouble",
                Shown(|file, see| lend(file.trouble.as_ref(), |trouble| see(trouble))),
                "Why the file could not be read on. The others were read to their ends.",
            )
            .or_null(),
            C::new(
                "interfaces",
                Objects(&O { columns: &INTERFACE, lend: |file, see| file.interfaces.iter().for_each(see) }),
                "The interfaces at which a pcapng file was captured, as the file describes them. Other files have none.",
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
                "link_type",
                U16(|it| Some(it.link.0)),
                "The link type, of the tcpdump.org registry. 1 is Ethernet.",
            ),
            C::new("start", Time(|it| it.statistics.start), "When capturing began (isb_starttime).").or_null(),
            C::new("end", Time(|it| it.statistics.end), "When capturing ended (isb_endtime).").or_null(),
            C::new(
                "received",
                U64(|it| it.statistics.received),
                "Packets that the interface received (isb_ifrecv).",
            )
            .or_null(),
            C::new(
                "accepted",
                U64(|it| it.statistics.accepted),
                "Packets that the filter let through (isb_filteraccept).",
            )
            .or_null(),
            C::new(
                "delivered",
                U64(|it| it.statistics.delivered),
                "Packets that were handed to the program that captured (isb_usrdeliv).",
            )
            .or_null(),
            C::new(
                "dropped_by_interface",
                U64(|it| it.statistics.dropped_by_interface),
                "Packets that the interface lost for lack of room (isb_ifdrop). dumpcap counts here what the kernel dropped.",
            )
            .or_null(),
            C::new(
                "dropped_by_system",
                U64(|it| it.statistics.dropped_by_system),
                "Packets that the operating system lost for lack of room (isb_osdrop).",
            )
            .or_null(),
            C::new(
                "dropped_before_packets",
                U64(|it| Some(it.dropped_before_packets)),
                "Packets lost just before one that was captured, summed up (epb_dropcount, and the drops count of obsolete packet \
                 blocks).",
            ),
            C::new(
                "dropped",
                U64(|it| Some(it.dropped())),
                "Packets lost: `dropped_by_interface` and `dropped_by_system` together, or `dropped_before_packets` where that is \
                 greater.",
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
            C::new("offset", U64(|cut| Some(cut.offset)), "The byte of the file."),
            C::new("needed", U64(|cut| Some(cut.needed)), "Bytes that are needed there."),
            C::new("available", U64(|cut| Some(cut.available)), "Bytes that are there."),
        ],
    }
};

/// The transactions of one protocol, direction and principal operation.
pub struct Operation;

impl Subject for Operation {
    type Of<'a> = (&'a Key, &'a Stats);
}

/// The transactions of one protocol, direction and principal operation.
pub static OPERATION_FIGURES: Columns<Operation> = {
    type C = Column<Operation>;
    type O<U> = Within<Operation, U>;
    Columns {
        name: "operation",
        role: Role::Line,
        columns: &[
            C::new(
                "protocol",
                Shown(|(key, _), see| lend(key.protocol, |protocol| see(&protocol))),
                "The program and its version as one name: `NFSv3`, `NFSv4.1`. It is null where the call is not known.",
            )
            .or_null()
            .json_only(),
            C::new("program", U32(|(key, _)| Some(key.protocol?.program)), "The RPC program.").or_null().json_only(),
            C::new("version", U32(|(key, _)| Some(key.protocol?.version)), "Its version.").or_null().json_only(),
            C::new("minor_version", U32(|(key, _)| key.protocol?.minor), "The minor version of NFSv4.")
                .or_null()
                .json_only(),
            C::new(
                "direction",
                Word(DIRECTIONS, |(key, _)| Some(if key.backward { "backward" } else { "forward" })),
                "Which end calls.",
            )
            .json_only(),
            C::new(
                "operation",
                Shown(|(key, _), see| see(&key.label)),
                "The principal operation, or the procedure.",
            )
            .json_only(),
            C::new("count", U64(|(_, stats)| Some(stats.count)), "Transactions.").json_only(),
            C::new("errors", U64(|(_, stats)| Some(stats.errors)), "Transactions that failed.").json_only(),
            C::new(
                "bytes",
                U64(|(_, stats)| Some(stats.bytes)),
                "Bytes of DDP-eligible items; where there are none, bytes moved by RDMA.",
            )
            .json_only(),
            C::new(
                "latency",
                Object(&O {
                    columns: &LATENCY,
                    lend: |(_, stats), see| {
                        lend(stats.latency(), |latency| see((latency, stats.total_latency)));
                    },
                }),
                "The latencies. The median and the percentile have three significant digits.",
            )
            .or_null()
            .json_only(),
            C::new(
                "shares",
                Object(&O { columns: &SHARES, lend: |(_, stats), see| lend(stats.shares(), see) }),
                "Which share of the time went where: the phases of all transactions together. The sum is 1.",
            )
            .or_null()
            .json_only(),
        ],
    }
};

/// Latencies, and their sum.
struct Latencies;

impl Subject for Latencies {
    type Of<'a> = (Latency, u64);
}

static LATENCY: Columns<Latencies> = {
    type C = Column<Latencies>;
    Columns {
        name: "latency",
        role: Role::Inner,
        columns: &[
            C::new("min_ns", Nanoseconds(|(latency, _)| Some(latency.minimum)), "The shortest."),
            C::new("median_ns", Nanoseconds(|(latency, _)| Some(latency.median)), "The median."),
            C::new("p99_ns", Nanoseconds(|(latency, _)| Some(latency.p99)), "The 99th percentile."),
            C::new("max_ns", Nanoseconds(|(latency, _)| Some(latency.maximum)), "The longest."),
            C::new("total_ns", Nanoseconds(|(_, total)| Some(total)), "The sum."),
        ],
    }
};

/// Shares of the phases.
struct Shares;

impl Subject for Shares {
    type Of<'a> = [f64; 5];
}

static SHARES: Columns<Shares> = {
    type C = Column<Shares>;
    Columns {
        name: "shares",
        role: Role::Inner,
        columns: &[
            C::new("call", Fraction(|shares| Some(rounded(shares[0]))), "The Sends of the calls."),
            C::new("reads", Fraction(|shares| Some(rounded(shares[1]))), "RDMA Reads."),
            C::new("server", Fraction(|shares| Some(rounded(shares[2]))), "The server."),
            C::new("writes", Fraction(|shares| Some(rounded(shares[3]))), "RDMA Writes."),
            C::new("reply", Fraction(|shares| Some(rounded(shares[4]))), "The Sends of the replies."),
        ],
    }
};

fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

/// Replies that report the same error for the same operation.
pub struct ErrorRow;

impl Subject for ErrorRow {
    type Of<'a> = (&'a ErrorKey, ErrorCount);
}

/// Replies that report the same error for the same operation.
pub static ERROR: Columns<ErrorRow> = {
    type C = Column<ErrorRow>;
    Columns {
        name: "error",
        role: Role::Line,
        columns: &[
            C::new(
                "protocol",
                Shown(|(key, _), see| lend(key.protocol, |protocol| see(&protocol))),
                "The program and its version as one name: `NFSv3`, `NFSv4.1`. It is null where the call is not known.",
            )
            .or_null()
            .json_only(),
            C::new("program", U32(|(key, _)| Some(key.protocol?.program)), "The RPC program.").or_null().json_only(),
            C::new("version", U32(|(key, _)| Some(key.protocol?.version)), "Its version.").or_null().json_only(),
            C::new("minor_version", U32(|(key, _)| key.protocol?.minor), "The minor version of NFSv4.")
                .or_null()
                .json_only(),
            C::new("operation", Shown(|(key, _), see| see(&key.label)), "The operation that failed.").json_only(),
            C::new(
                "layer",
                Word(&[word("rpc-over-rdma"), word("rpc"), word("procedure")], |(key, _)| {
                    Some(match key.failure {
                        Failure::Transport(_) => "rpc-over-rdma",
                        Failure::Rpc(_) => "rpc",
                        Failure::Status(_) => "procedure",
                    })
                }),
                "The layer that reports the error.",
            )
            .json_only(),
            C::new(
                "status",
                U32(|(key, _)| match key.failure {
                    Failure::Status(status) => Some(status),
                    Failure::Transport(_) | Failure::Rpc(_) => None,
                }),
                "The status of the procedure.",
            )
            .or_null()
            .json_only(),
            C::new(
                "status_name",
                Shown(|(key, _), see| match key.failure {
                    Failure::Transport(error) => lend(error, |error| see(&error)),
                    Failure::Rpc(status) => see(&status),
                    Failure::Status(status) => {
                        let name = key.protocol.and_then(|p| names::status_name(p.program, p.version, status));
                        lend(name, |name| see(&name));
                    }
                }),
                "The name of the error, in whatever layer.",
            )
            .or_null()
            .json_only(),
            C::new("count", U64(|(_, error)| Some(error.count)), "How often it was reported.").json_only(),
            C::new("first_frame", Frame(|(_, error)| error.first_frame), "The first reply that reports it.")
                .or_null()
                .json_only(),
        ],
    }
};

impl Subject for Problem {
    type Of<'a> = &'a Problem;
}

/// Something that went wrong besides errors that replies report.
pub static PROBLEM: Columns<Problem> = {
    type C = Column<Problem>;
    Columns {
        name: "problem",
        role: Role::Line,
        columns: &[
            C::new(
                "problem",
                Word(&[], |problem| Some(problem.name)),
                "A word for it, such as `no-reply`, `retransmission`, `sequence-nak`, `missing-packet`, `dropped-packet`.",
            )
            .json_only(),
            C::new(
                "group",
                Word(&[word("transactions"), word("transport"), word("capture")], |problem| {
                    Some(match problem.group {
                        Group::Transactions => "transactions",
                        Group::Transport => "transport",
                        Group::Capture => "capture",
                    })
                }),
                "What it is a problem of.",
            )
            .json_only(),
            C::new("count", U64(|problem| Some(problem.count)), "How often.").json_only(),
            C::new(
                "what",
                Word(&[], |problem| Some(problem.what)),
                "What is counted, in words for people. They may change.",
            )
            .json_only(),
            C::new("first_frame", Frame(|problem| problem.first_frame), "The packet to look at first.")
                .or_null()
                .json_only(),
        ],
    }
};

/// What a judge found in a capture, and how the reading of it ended.
pub struct Judged;

impl Subject for Judged {
    type Of<'a> = (&'a Tally, &'a Ending);
}

/// What was judged, and how often what was found.
pub static CHECK: Columns<Judged> = {
    type C = Column<Judged>;
    type O<U> = Within<Judged, U>;
    Columns {
        name: "check",
        role: Role::Line,
        columns: &[
            C::new(
                "broken",
                Boolean(|(tally, _)| Some(tally.is_broken())),
                "Whether a violation stands that is not allowed.",
            )
            .json_only(),
            C::new(
                "violations",
                Object(&O { columns: &LEVEL, lend: |(tally, _), see| see(tally.level(Level::Violation)) }),
                "Findings of rules of the level `violation`.",
            )
            .json_only(),
            C::new(
                "warnings",
                Object(&O { columns: &LEVEL, lend: |(tally, _), see| see(tally.level(Level::Warning)) }),
                "Findings of rules of the level `warning`.",
            )
            .json_only(),
            C::new(
                "advice",
                Object(&O { columns: &LEVEL, lend: |(tally, _), see| see(tally.level(Level::Advice)) }),
                "Findings of rules of the level `advice`.",
            )
            .json_only(),
            C::new(
                "rules",
                Objects(&O {
                    columns: &RULE_COUNT,
                    lend: |(tally, _), see| {
                        tally
                            .rules
                            .iter()
                            .filter(|count| count.stands + count.inconclusive > 0)
                            .for_each(see);
                    },
                }),
                "The rules of which something was found.",
            )
            .json_only(),
            C::new(
                "rules_asked",
                U64(|(tally, _)| Some(tally.rules.len() as u64)),
                "Rules that were asked: all, or those that `--level` leaves.",
            )
            .json_only(),
            C::new("connections", U64(|(tally, _)| Some(tally.connections)), "Connections that were judged.")
                .json_only(),
            C::new(
                "connections_inferred",
                U64(|(tally, _)| Some(tally.inferred)),
                "Connections that were open before the capture began. What they negotiated is not known.",
            )
            .json_only(),
            C::new(
                "connections_one_sided",
                U64(|(tally, _)| Some(tally.one_sided)),
                "Those of them that were captured in one direction only.",
            )
            .json_only(),
            C::new(
                "transactions",
                U64(|(tally, _)| Some(tally.transactions)),
                "Transactions that were judged.",
            )
            .json_only(),
            C::new(
                "missing_packets",
                U64(|(tally, _)| Some(tally.missing_packets)),
                "Request packets that the capture lacks.",
            )
            .json_only(),
            C::new(
                "snapped",
                U64(|(_, ending)| Some(ending.totals.cut_records)),
                "Packets that a snap length cut.",
            )
            .json_only(),
            C::new(
                "evictions",
                U64(|(_, ending)| Some(ending.totals.evictions)),
                "Entries that were given up because a table was full.",
            )
            .json_only(),
            C::new(
                "files",
                Objects(&O { columns: &FILE, lend: |(_, ending), see| ending.files.iter().for_each(see) }),
                "The files of the capture, in the order in which they were given.",
            )
            .json_only(),
        ],
    }
};

impl Subject for LevelCount {
    type Of<'a> = LevelCount;
}

static LEVEL: Columns<LevelCount> = {
    type C = Column<LevelCount>;
    Columns {
        name: "level",
        role: Role::Inner,
        columns: &[
            C::new("stands", U64(|count| Some(count.stands)), "Findings that stand."),
            C::new("allowed", U64(|count| Some(count.allowed)), "Those of them whose rule `--allow` names."),
            C::new("inconclusive", U64(|count| Some(count.inconclusive)), "Findings that are inconclusive."),
        ],
    }
};

impl Subject for RuleCount {
    type Of<'a> = &'a RuleCount;
}

static RULE_COUNT: Columns<RuleCount> = {
    type C = Column<RuleCount>;
    Columns {
        name: "rules",
        role: Role::Inner,
        columns: &[
            C::new("rule", Word(&[], |count| Some(count.rule.id)), "The id of the rule."),
            C::new(
                "level",
                Word(LEVELS, |count| Some(words::level(count.rule.level))),
                "How much the rule weighs.",
            ),
            C::new(
                "allowed_rule",
                Boolean(|count| Some(count.is_allowed)),
                "Whether `--allow` names the rule.",
            ),
            C::new("stands", U64(|count| Some(count.stands)), "Findings that stand."),
            C::new("inconclusive", U64(|count| Some(count.inconclusive)), "Findings that are inconclusive."),
        ],
    }
};
