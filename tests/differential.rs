//! Compares the engine's view of each frame with that of tshark 4.0.
//!
//! make-expectations.sh writes `expectations/`; it also lists the fields that are left out because
//! tshark misreads them.

use rdmascope_dissector::connection::State;
use rdmascope_dissector::frame::{Carrier, IcrcVerdict};
use rdmascope_dissector::transaction::Direction;
use rdmascope_tests::Differences;
use rdmascope_tests::samples;
use rdmascope_tests::session::{self, ContentSeen, PacketSeen, address};
use rdmascope_wire::rpcrdma::Segment;
use rdmascope_wire::{Rkey, Xid};
use std::collections::BTreeMap;

const COMPARED: [&str; 4] = [samples::REJECTED, "nfs3-lossy", "nfs4.1-backchannel-recall", "nfs4.2-basic"];

/// A row of an expectation file: values by field name, without empty fields.
type Row = BTreeMap<String, String>;

fn expectations(name: &str) -> Vec<Row> {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/expectations/{}.tsv"), name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a line of field names").split('\t').collect();
    let rows: Vec<Row> = lines
        .map(|line| {
            let fields = names.iter().zip(line.split('\t')).filter(|(_, value)| !value.is_empty());
            fields.map(|(name, value)| ((*name).to_owned(), value.to_owned())).collect()
        })
        .collect();
    assert!(!rows.is_empty(), "{path} holds nothing");
    rows
}

/// Parses a number as tshark prints it: decimal, or hexadecimal with 0x. The R_Key of an IETH has
/// no 0x.
fn number(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn field(row: &Row, name: &str) -> Option<u64> {
    row.get(name).map(|value| number(value))
}

/// All occurrences of a field.
fn fields(row: &Row, name: &str) -> Vec<u64> {
    row.get(name).map_or(Vec::new(), |values| values.split(',').map(number).collect())
}

/// Pairs the rows with the packets that the engine reported.
fn with_packets<'a>(
    differences: &mut Differences,
    rows: &'a [Row],
    session: &'a session::Session,
) -> Vec<(&'a Row, &'a PacketSeen)> {
    let mut pairs = Vec::new();
    for row in rows {
        let number = field(row, "frame.number").expect("every row has its frame");
        let packet = session.packet(number);
        differences.check(packet.is_some(), format!("frame {number}: not reported"));
        pairs.extend(packet.map(|packet| (row, packet)));
    }
    pairs
}

#[test]
fn transport_headers_match_tshark() {
    for sample in COMPARED {
        let session = session::run_with_packets(&samples::capture(sample));
        let rows = expectations(&format!("{sample}.frames"));
        let mut differences = Differences::of(format!("{sample}: transport headers"));
        differences.equal("packets", rows.len(), session.packets.len());
        for (row, packet) in with_packets(&mut differences, &rows, &session) {
            let number = packet.number;
            let (Ok(frame), Some(headers)) = (&packet.frame, packet.headers()) else {
                differences.check(false, format!("frame {number}: {packet:?}"));
                continue;
            };
            let mut equal = |name: &str, actual: Option<u64>| {
                differences.equal(format!("frame {number} {name}"), field(row, name), actual);
            };
            let bth = &headers.bth;
            let extensions = &headers.extensions;
            equal("infiniband.bth.opcode", Some(bth.opcode.0.into()));
            equal("infiniband.bth.se", Some(bth.solicited_event.into()));
            equal("infiniband.bth.m", Some(bth.migration_request.into()));
            equal("infiniband.bth.padcnt", Some(bth.pad_count.into()));
            equal("infiniband.bth.tver", Some(bth.transport_version.into()));
            equal("infiniband.bth.p_key", Some(bth.partition_key.into()));
            equal("infiniband.bth.destqp", Some(bth.destination_qp.0.into()));
            equal("infiniband.bth.a", Some(bth.acknowledge_request.into()));
            equal("infiniband.bth.psn", Some(bth.psn.value().into()));
            equal("infiniband.deth.srcqp", extensions.deth.map(|deth| deth.source_qp.0.into()));
            equal("infiniband.reth.va", extensions.reth.map(|reth| reth.virtual_address));
            equal("infiniband.reth.r_key", extensions.reth.map(|reth| reth.rkey.0.into()));
            equal("infiniband.reth.dmalen", extensions.reth.map(|reth| reth.dma_length.into()));
            equal("infiniband.aeth.syndrome", extensions.aeth.map(|aeth| aeth.syndrome.0.into()));
            equal("infiniband.aeth.msn", extensions.aeth.map(|aeth| aeth.message_sequence_number.into()));
            let rkey =
                row.get("infiniband.ieth").map(|digits| u32::from_str_radix(digits, 16).expect("hex digits"));
            differences.equal(format!("frame {number} IETH"), rkey.map(Rkey), extensions.ieth);
            for (name, actual) in [("ip.src", frame.source), ("ip.dst", frame.destination)] {
                differences.equal(format!("frame {number} {name}"), row[name].as_str(), &actual.to_string());
            }
            let port = field(row, "udp.srcport").expect("every frame is UDP") as u16;
            let carrier = Carrier::RoceV2 { source_port: port, destination_port: 4791 };
            differences.equal(format!("frame {number} carrier"), carrier, frame.carrier);
            // tshark does not verify ICRCs. All are good according to the field notes and
            // witnesses.rs.
            differences.equal(format!("frame {number} ICRC"), IcrcVerdict::Good, frame.icrc);
        }
        differences.end();
    }
}

#[test]
fn rpc_over_rdma_headers_match_tshark() {
    for sample in COMPARED.into_iter().filter(|sample| *sample != samples::REJECTED) {
        let session = session::run_with_packets(&samples::capture(sample));
        let rows = expectations(&format!("{sample}.headers"));
        let mut differences = Differences::of(format!("{sample}: RPC-over-RDMA headers"));
        for (row, packet) in with_packets(&mut differences, &rows, &session) {
            let number = packet.number;
            let Some(header) = packet.rpcrdma() else {
                differences.check(false, format!("frame {number}: no RPC-over-RDMA header"));
                continue;
            };
            let mut equal = |name: &str, actual: u64| {
                differences.equal(format!("frame {number} {name}"), field(row, name), Some(actual));
            };
            equal("rpcordma.xid", header.xid.0.into());
            equal("rpcordma.version", header.version.into());
            equal("rpcordma.flow_control", header.credits.into());
            equal("rpcordma.msg_type", header.procedure.number().into());
            let positions: Vec<u64> = header.reads.iter().map(|(position, _)| u64::from(*position)).collect();
            differences.equal(
                format!("frame {number} positions"),
                fields(row, "rpcordma.position"),
                positions,
            );
            let expected: Vec<Segment> = fields(row, "rpcordma.rdma_handle")
                .into_iter()
                .zip(fields(row, "rpcordma.rdma_length"))
                .zip(fields(row, "rpcordma.rdma_offset"))
                .map(|((handle, length), offset)| Segment {
                    handle: Rkey(handle as u32),
                    length: length as u32,
                    offset,
                })
                .collect();
            let actual: Vec<Segment> = header
                .reads
                .iter()
                .map(|(_, target)| *target)
                .chain(header.writes.iter().flatten().copied())
                .chain(header.reply.iter().flatten().copied())
                .collect();
            differences.equal(format!("frame {number} segments"), expected, actual);
            differences.equal(format!("frame {number} stop"), None, header.stop);
        }
        // The Sends with a header are exactly those that tshark lists.
        let seen = session.packets.iter().filter(|packet| packet.rpcrdma().is_some()).count();
        differences.equal("headers", rows.len(), seen);
        differences.end();
    }
}

#[test]
fn calls_and_replies_match_tshark_in_two_pass_mode() {
    for sample in ["nfs3-basic", "nfs4.1-backchannel-recall", "nfs4.2-basic"] {
        let session = session::run(&samples::capture(sample));
        let mut differences = Differences::of(format!("{sample}: RPC"));
        for row in expectations(&format!("{sample}.rpc")) {
            let frame = field(&row, "frame.number").expect("every row has its frame");
            // tshark shows the version twice: once for the RPC header, once for the program.
            let first = |name: &str| fields(&row, name).first().map(|value| *value as u32);
            let from_client = row["ip.src"] == "10.77.0.2";
            let is_call = first("rpc.msgtyp") == Some(0);
            let direction = if from_client == is_call { Direction::Forward } else { Direction::Backward };
            let xid = first("rpc.xid").expect("every row has its XID");
            let place = format!("frame {frame} {}", Xid(xid));
            let transaction = match session.find(direction, xid) {
                Ok(transaction) => transaction,
                Err(problem) => {
                    differences.check(false, format!("{place}: {problem}"));
                    continue;
                }
            };
            let message = if is_call { &transaction.call } else { &transaction.reply };
            let seen = message.as_ref().map(|message| message.seen.frame);
            differences.equal(format!("{place} frame of the message"), Some(frame), seen);
            let procedure = transaction
                .procedure
                .map(|procedure| (procedure.program, procedure.version, procedure.number));
            let expected = (first("rpc.program"), first("rpc.programversion"), first("rpc.procedure"));
            differences.equal(
                format!("{place} procedure"),
                expected,
                (procedure.map(|p| p.0), procedure.map(|p| p.1), procedure.map(|p| p.2)),
            );
            let operations: Vec<u64> =
                transaction.details.operations.iter().map(|operation| operation.code().into()).collect();
            for name in ["nfs.opcode", "nfs.cb.operation"] {
                let expected = fields(&row, name);
                // The reply of a failed COMPOUND ends with the failed operation, so the call has
                // the longer list.
                if !expected.is_empty() {
                    let compared =
                        if is_call { operations.len() } else { expected.len().min(operations.len()) };
                    differences.equal(
                        format!("{place} operations"),
                        expected,
                        operations[..compared].to_vec(),
                    );
                }
            }
        }
        differences.end();
    }
}

#[test]
fn connections_match_the_cm_messages() {
    for sample in COMPARED {
        let capture = samples::capture(sample);
        let session = session::run_with_packets(&capture);
        let rows = expectations(&format!("{sample}.cm"));
        let mut differences = Differences::of(format!("{sample}: CM"));
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        for (row, packet) in with_packets(&mut differences, &rows, &session) {
            let attribute = field(row, "infiniband.mad.attributeid").expect("every MAD has one");
            let name = match packet.headers().map(|headers| &headers.content) {
                Some(ContentSeen::Cm(name)) => name.clone(),
                other => format!("{other:?}"),
            };
            // One name per attribute. wire's tests compare the fields of `cm::Message`
            // (communication IDs, remote QPN of a DREQ …) against the same bytes.
            let known = names.entry(attribute).or_insert_with(|| name.clone());
            differences.equal(
                format!("frame {} attribute 0x{attribute:04x}", packet.number),
                known.as_str(),
                &name,
            );
        }
        let distinct: std::collections::BTreeSet<_> = names.values().collect();
        differences.equal("names of attributes", names.len(), distinct.len());

        let of = |attribute: u64| {
            rows.iter().filter(move |row| field(row, "infiniband.mad.attributeid") == Some(attribute))
        };
        differences.equal("connections", of(0x10).count(), session.connections.len());
        for (request, connection) in of(0x10).zip(&session.connections) {
            let place = format!("{:?}", connection.id);
            let id = field(request, "infiniband.cm.req");
            let qpn = |qpn: Option<rdmascope_wire::Qpn>| qpn.map(|qpn| u64::from(qpn.0));
            differences.equal(
                format!("{place} requester's QPN"),
                field(request, "infiniband.cm.req.localqpn"),
                qpn(connection.requester.qpn),
            );
            let port = field(request, "infiniband.cm.req.serviceid").map(|service| service as u16);
            differences.equal(format!("{place} port"), port, connection.port);
            let reply = of(0x13).find(|row| field(row, "infiniband.cm.rep.remotecommid") == id);
            let reject = of(0x12).find(|row| field(row, "infiniband.cm.rej.remotecommid") == id);
            if let Some(reply) = reply {
                differences.equal(
                    format!("{place} responder's QPN"),
                    field(reply, "infiniband.cm.rep.localqpn"),
                    qpn(connection.responder.qpn),
                );
                // Codes 1 to 5 mean 256 to 4096 bytes (IBTA volume 1, section 12.7.23).
                let mtu = field(request, "infiniband.cm.req.pppmtu").map(|code| 128u16 << code);
                differences.equal(format!("{place} path MTU"), mtu, connection.path_mtu);
                differences.equal(
                    format!("{place} requester's address"),
                    address(2),
                    connection.requester.address,
                );
            }
            if let Some(reject) = reject {
                let reason = field(reject, "infiniband.cm.rej.reason").expect("a REJ has a reason") as u16;
                differences.equal(format!("{place} state"), State::Rejected(reason), connection.state);
            }
        }
        differences.end();
    }
}
