//! Compares fields and their positions with those of tshark: tests/expectations/NAME.fields.tsv.

use super::{Field, headers, rpc};
use crate::screen::{self, Screen};
use crate::text::Style;
use rdmascope_capture_agent::Capture;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_tests::samples;
use rdmascope_wire::rpc::{Auth, Call, flavor};
use rdmascope_wire::rpcrdma::{Builder, Header, Procedure, ReadSegment, Segment};
use rdmascope_wire::{Rkey, Xid};
use std::collections::BTreeMap;
use std::path::Path;

/// tshark's name, and our header and field.
const NAMES: [(&str, &str, &str); 137] = [
    ("eth.dst", "Ethernet II", "Destination"),
    ("eth.src", "Ethernet II", "Source"),
    ("eth.type", "Ethernet II", "Type"),
    ("ip.len", "IPv4", "Total Length"),
    ("ip.id", "IPv4", "Identification"),
    ("ip.ttl", "IPv4", "Time to Live"),
    ("ip.proto", "IPv4", "Protocol"),
    ("ip.src", "IPv4", "Source Address"),
    ("ip.dst", "IPv4", "Destination Address"),
    ("udp.srcport", "UDP", "Source Port"),
    ("udp.dstport", "UDP", "Destination Port"),
    ("udp.length", "UDP", "Length"),
    ("geneve.proto_type", "GENEVE", "Protocol Type"),
    ("geneve.vni", "GENEVE", "VNI"),
    ("geneve.flags.oam", "GENEVE", "O"),
    ("geneve.flags.critical", "GENEVE", "C"),
    ("mpls.label", "MPLS", "Label"),
    ("mpls.exp", "MPLS", "TC"),
    ("mpls.bottom", "MPLS", "S"),
    ("mpls.ttl", "MPLS", "TTL"),
    ("pppoe.version", "PPPoE session", "VER"),
    ("pppoe.type", "PPPoE session", "TYPE"),
    ("pppoe.code", "PPPoE session", "CODE"),
    ("pppoe.session_id", "PPPoE session", "SESSION_ID"),
    ("pppoe.payload_length", "PPPoE session", "LENGTH"),
    ("ppp.protocol", "PPPoE session", "PPP Protocol"),
    ("erf.types.ext_header", "Endace ERF", "Extension headers follow"),
    ("erf.types.type", "Endace ERF", "Record type"),
    ("erf.flags", "Endace ERF", "Flags"),
    ("erf.rlen", "Endace ERF", "Record length"),
    ("erf.lctr", "Endace ERF", "Loss or color"),
    ("erf.wlen", "Endace ERF", "Wire length"),
    ("infiniband.lrh.vl", "LRH", "VL"),
    ("infiniband.lrh.lver", "LRH", "LVer"),
    ("infiniband.lrh.sl", "LRH", "SL"),
    ("infiniband.lrh.lnh", "LRH", "LNH"),
    ("infiniband.lrh.dlid", "LRH", "DLID"),
    ("infiniband.lrh.pktlen", "LRH", "PktLen"),
    ("infiniband.lrh.slid", "LRH", "SLID"),
    ("infiniband.variant.crc", "", "VCRC"),
    ("infiniband.bth.opcode", "BTH", "OpCode"),
    ("infiniband.bth.se", "BTH", "SE"),
    ("infiniband.bth.m", "BTH", "M"),
    ("infiniband.bth.padcnt", "BTH", "Pad"),
    ("infiniband.bth.tver", "BTH", "TVer"),
    ("infiniband.bth.p_key", "BTH", "Partition Key"),
    ("infiniband.bth.destqp", "BTH", "Destination QP"),
    ("infiniband.bth.a", "BTH", "A"),
    ("infiniband.bth.psn", "BTH", "PSN"),
    ("infiniband.reth.va", "RETH", "Virtual Address"),
    ("infiniband.reth.r_key", "RETH", "R_Key"),
    ("infiniband.reth.dmalen", "RETH", "DMA Length"),
    ("infiniband.aeth.syndrome", "AETH", "Syndrome"),
    ("infiniband.aeth.msn", "AETH", "MSN"),
    ("infiniband.deth.q_key", "DETH", "Queue Key"),
    ("infiniband.deth.srcqp", "DETH", "Source QP"),
    ("infiniband.ieth", "IETH", "R_Key"),
    ("infiniband.invariant.crc", "", "ICRC"),
    ("infiniband.mad.baseversion", "MAD", "BaseVersion"),
    ("infiniband.mad.mgmtclass", "MAD", "MgmtClass"),
    ("infiniband.mad.classversion", "MAD", "ClassVersion"),
    ("infiniband.mad.status", "MAD", "Status"),
    ("infiniband.mad.transactionid", "MAD", "TransactionID"),
    ("infiniband.mad.attributeid", "MAD", "AttributeID"),
    ("infiniband.mad.attributemodifier", "MAD", "AttributeModifier"),
    ("infiniband.cm.req.serviceid", "CM", "Service ID"),
    ("infiniband.cm.req.localcaguid", "CM", "Local CA GUID"),
    ("infiniband.cm.req.localqpn", "CM", "Local QPN"),
    ("infiniband.cm.req.responderres", "CM", "Responder Resources"),
    ("infiniband.cm.req.initdepth", "CM", "Initiator Depth"),
    ("infiniband.cm.req.remoteresptout", "CM", "Remote CM Response Timeout"),
    ("infiniband.cm.req.startpsn", "CM", "Starting PSN"),
    ("infiniband.cm.req.localresptout", "CM", "Local CM Response Timeout"),
    ("infiniband.cm.req.retrcount", "CM", "Retry Count"),
    ("infiniband.cm.req.pkey", "CM", "Partition Key"),
    ("infiniband.cm.req.pppmtu", "CM", "Path Packet Payload MTU"),
    ("infiniband.cm.req.rnrretrcount", "CM", "RNR Retry Count"),
    ("infiniband.cm.req.maxcmretr", "CM", "Max CM Retries"),
    ("infiniband.cm.req.prim_locallid", "CM", "Primary Local Port LID"),
    ("infiniband.cm.req.prim_hoplim", "CM", "Primary Hop Limit"),
    ("infiniband.cm.req.prim_sl", "CM", "Primary SL"),
    ("infiniband.cm.req.prim_localacktout", "CM", "Primary Local ACK Timeout"),
    ("infiniband.cm.req.ip_cm.ipv", "RDMA IP CM", "IPV"),
    ("infiniband.cm.req.ip_cm.sport", "RDMA IP CM", "Source port"),
    ("infiniband.cm.rep.remotecommid", "CM", "Remote Communication ID"),
    ("infiniband.cm.rep.localqpn", "CM", "Local QPN"),
    ("infiniband.cm.rep.startpsn", "CM", "Starting PSN"),
    ("infiniband.cm.rep.respres", "CM", "Responder Resources"),
    ("infiniband.cm.rep.initdepth", "CM", "Initiator Depth"),
    ("infiniband.cm.rep.tgtackdelay", "CM", "Target ACK Delay"),
    ("infiniband.cm.rep.rnrretrcount", "CM", "RNR Retry Count"),
    ("infiniband.cm.rep.localcaguid", "CM", "Local CA GUID"),
    ("infiniband.cm.rej.remotecommid", "CM", "Remote Communication ID"),
    ("infiniband.cm.rej.msgrej", "CM", "Message REJected"),
    ("infiniband.cm.rej.reason", "CM", "Reason"),
    ("tcp.srcport", "TCP", "Source Port"),
    ("tcp.dstport", "TCP", "Destination Port"),
    ("tcp.seq_raw", "TCP", "Sequence Number"),
    ("tcp.ack_raw", "TCP", "Acknowledgment Number"),
    ("tcp.window_size_value", "TCP", "Window"),
    ("tcp.checksum", "TCP", "Checksum"),
    ("iwarp_mpa.rev", "", "Rev"),
    ("iwarp_mpa.pdlength", "", "PD_Length"),
    ("iwarp_mpa.ulpdulength", "FPDU", "ULPDU_Length"),
    ("iwarp_mpa.crc", "FPDU", "CRC"),
    ("iwarp_ddp.tagged_flag", "FPDU", "T"),
    ("iwarp_ddp.last_flag", "FPDU", "L"),
    ("iwarp_ddp.rsvd", "FPDU", "Rsvd"),
    ("iwarp_ddp.dv", "FPDU", "DV"),
    ("iwarp_ddp.stag", "FPDU", "STag"),
    ("iwarp_ddp.tagged_offset", "FPDU", "Tagged Offset"),
    ("iwarp_ddp.qn", "FPDU", "Queue Number"),
    ("iwarp_ddp.msn", "FPDU", "Message Sequence Number"),
    ("iwarp_ddp.mo", "FPDU", "Message Offset"),
    ("iwarp_rdma.version", "FPDU", "RV"),
    ("iwarp_rdma.rsv", "FPDU", "Rsv"),
    ("iwarp_rdma.opcode", "FPDU", "Opcode"),
    ("iwarp_rdma.sinkstag", "FPDU", "Data Sink STag"),
    ("iwarp_rdma.sinkto", "FPDU", "Data Sink Tagged Offset"),
    ("iwarp_rdma.rdmardsz", "FPDU", "RDMA Read Message Size"),
    ("iwarp_rdma.srcstag", "FPDU", "Data Source STag"),
    ("iwarp_rdma.srcto", "FPDU", "Data Source Tagged Offset"),
    ("rpcordma.xid", "RPC-over-RDMA", "rdma_xid"),
    ("rpcordma.version", "RPC-over-RDMA", "rdma_vers"),
    ("rpcordma.flow_control", "RPC-over-RDMA", "rdma_credit"),
    ("rpcordma.msg_type", "RPC-over-RDMA", "rdma_proc"),
    ("rpcordma.position", "RPC-over-RDMA", "Position"),
    ("rpcordma.rdma_handle", "RPC-over-RDMA", "Handle"),
    ("rpcordma.rdma_length", "RPC-over-RDMA", "Length"),
    ("rpcordma.rdma_offset", "RPC-over-RDMA", "Offset"),
    ("rpc.xid", "RPC", "xid"),
    ("rpc.msgtyp", "RPC", "mtype"),
    ("rpc.program", "RPC", "prog"),
    ("rpc.procedure", "RPC", "proc"),
    ("rpc.auth.uid", "RPC", "uid"),
    ("rpc.replystat", "RPC", "reply_stat"),
    ("rpc.state_accept", "RPC", "accept_stat"),
];

/// First byte, length, value.
type Place = (usize, usize, u64);

/// By frame and field, in frame order.
fn expectations(sample: &str) -> BTreeMap<u64, BTreeMap<String, Vec<Place>>> {
    let path = format!("{}/../tests/expectations/{sample}.fields.tsv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut frames: BTreeMap<u64, BTreeMap<String, Vec<Place>>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let number = |at: usize| columns[at].parse::<usize>().unwrap();
        let place = (number(2), number(3), u64::from_str_radix(columns[4], 16).unwrap_or(u64::MAX));
        let fields = frames.entry(number(0) as u64).or_default();
        fields.entry(columns[1].to_owned()).or_default().push(place);
    }
    assert!(!frames.is_empty(), "{path} is empty");
    frames
}

/// All fields, each with its enclosing headers.
fn flat<'a>(fields: &'a [Field], headers: &[&'a str], out: &mut Vec<(Vec<&'a str>, &'a Field)>) {
    for field in fields {
        out.push((headers.to_vec(), field));
        let inside = [headers, &[&*field.name]].concat();
        flat(&field.children, &inside, out);
    }
}

fn place(field: &Field, bytes: &[u8]) -> Place {
    let range = field.range.clone().expect("a field of a header has its place");
    let number = bytes[range.clone()].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let value = match field.mask {
        Some(mask) => (number & mask) >> mask.trailing_zeros(),
        None => number,
    };
    (range.start, range.len(), value)
}

/// Whether the displayed text contains the number.
fn shows(field: &Field, value: u64) -> bool {
    let digits = |digit: char| !digit.is_ascii_hexdigit();
    match &*field.name {
        "Destination" | "Source" | "Source Address" | "Destination Address" | "ICRC" | "VCRC" | "CRC" => true,
        _ => {
            field
                .value
                .split(digits)
                .any(|word| word.parse() == Ok(value) || u64::from_str_radix(word, 16) == Ok(value))
                || field.value.split('x').any(|word| {
                    let word: String = word.chars().take_while(char::is_ascii_hexdigit).collect();
                    u64::from_str_radix(&word, 16) == Ok(value)
                })
        }
    }
}

#[test]
fn field_positions_match_tshark() {
    let mut compared = 0;
    let mut differences = Vec::new();
    let captures =
        samples::ALL.into_iter().chain(["iwarp-nfs3"]).map(|sample| format!("samples/{sample}.pcap"));
    let captures: Vec<String> = captures.collect();
    let encapsulations = ["tunnels.pcap", "native.erf"].map(|name| format!("tests/encapsulations/{name}"));
    for capture in captures.iter().chain(&encapsulations) {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(capture);
        let sample = file.file_stem().expect("a file has a name").to_str().expect("in ASCII");
        let expected = expectations(sample);
        let frame_config = frame::Config::default();
        let mut see = |event: Event<'_>| {
            let Event::Packet(packet) = event else { return };
            let number = packet.record.number;
            let Some(expected) = expected.get(&number) else { return };
            let fields = headers::frame(packet, &frame_config, None);
            let mut all = Vec::new();
            flat(&fields, &[], &mut all);
            let erf = fields.iter().find(|field| field.name == "Endace ERF");
            let erf_end = erf.and_then(|field| field.range.clone()).map_or(0, |place| place.end);
            for (name, header, field_name) in NAMES {
                let Some(expected) = expected.get(name) else { continue };
                let ours: Vec<&Field> = all
                    .iter()
                    .filter(|(headers, field)| {
                        field.name == field_name && (header.is_empty() || headers.contains(&header))
                    })
                    .map(|(_, field)| *field)
                    .collect();
                let mut places: Vec<Place> =
                    ours.iter().map(|field| place(field, packet.record.data)).collect();
                let mut expected = expected.clone();
                // tshark does not count the ERF header as part of the frame.
                for (start, ..) in &mut places {
                    *start = start.saturating_sub(erf_end);
                }
                // tshark has no positions for the fields of that header, and reports four bytes for
                // each field of an MPLS label.
                if name.starts_with("erf.") || name.starts_with("mpls.") {
                    for (start, length, _) in places.iter_mut().chain(&mut expected) {
                        (*start, *length) = (0, 0);
                    }
                }
                compared += expected.len();
                if places != expected {
                    differences.push(format!("{sample} frame {number} {name}: {expected:?}, not {places:?}"));
                }
                for (field, (.., value)) in ours.iter().zip(&places) {
                    if !shows(field, *value) {
                        differences
                            .push(format!("{sample} frame {number} {name}: {value} in {:?}", field.value));
                    }
                }
            }
        };
        let mut engine = Engine::new(Config { report_packets: true, ..Config::default() });
        let mut capture = Capture::open(&file).expect("the sample is a capture");
        while let Some(record) = capture.next().expect("the sample can be read") {
            engine.handle(&record, &mut see);
        }
        engine.finish(&mut see);
    }
    assert!(compared > 5000, "only {compared} fields were compared");
    let shown = differences.iter().take(25).map(|line| format!("\n  {line}")).collect::<String>();
    assert!(differences.is_empty(), "{} of {compared} fields differ{shown}", differences.len());
}

/// Checks that every range in a tree is within the bytes. Returns the number of fields.
fn check_ranges(fields: &[Field], end: usize) -> usize {
    let inside = |field: &Field| {
        if let Some(range) = &field.range {
            assert!(
                range.start <= range.end && (range.end <= end || field.stop.is_some()),
                "{field:?} of {end}"
            );
        }
        1 + check_ranges(&field.children, end)
    };
    fields.iter().map(inside).sum()
}

#[test]
fn any_bytes_give_a_valid_tree() {
    let mut header = Builder::new(Xid(7), 1, Procedure::Msg);
    let segment = Segment { handle: Rkey(1), length: 4096, offset: 0x1000 };
    header.reads = vec![ReadSegment { position: 100, target: segment }; 2];
    header.writes = vec![vec![segment; 2], vec![]];
    header.reply = Some(vec![segment]);
    let mut message = Vec::new();
    header.build(&mut message);
    let auth = |flavor, body| Auth { flavor, body };
    let sys = [
        0, 0, 0, 1, 0, 0, 0, 2, b'h', b'i', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6,
    ];
    let call = Call {
        xid: Xid(7),
        rpc_version: 2,
        program: 100_003,
        version: 3,
        procedure: 6,
        credential: auth(flavor::SYS, &sys),
        verifier: auth(flavor::RPCSEC_GSS, &[1; 5]),
    };
    call.build(&mut message);
    message.extend_from_slice(&[0; 12]);
    let tree = |bytes: &[u8]| {
        let send = rpc::SendBytes { bytes, base: 0, cut: false, continues: false };
        rpc::send(send, None)
    };
    let stops = |fields: &[Field]| {
        let mut all = Vec::new();
        flat(fields, &[], &mut all);
        all.iter().filter(|(_, field)| field.stop.is_some()).count()
    };
    let full = tree(&message);
    assert_eq!(stops(&full), 0);
    assert!(check_ranges(&full, message.len()) > 60);
    for length in 0..message.len() - 12 {
        let cut = tree(&message[..length]);
        check_ranges(&cut, length);
        // A message may end after the header. Any other end is within something.
        assert_eq!(stops(&cut), usize::from(length != header_length(&message)), "{length}");
    }
    for at in 0..message.len() {
        for byte in [0x00, 0x01, 0x7f, 0xff] {
            let mut changed = message.clone();
            changed[at] = byte;
            let fields = tree(&changed);
            assert!(check_ranges(&fields, changed.len()) < 2 * changed.len());
            let mut out = Vec::new();
            let screen = Screen { width: 80, unicode: false, style: Style::default() };
            screen::tree(&fields, &changed, screen, &mut out).unwrap();
            assert!(out.iter().all(|byte| *byte == b'\n' || !byte.is_ascii_control()));
        }
    }
}

fn header_length(message: &[u8]) -> usize {
    Header::parse(message).expect("it was built").length
}
