#!/usr/bin/env python3
"""Converts tshark's PDML on standard input to rows for cli/src/show/tests.rs: frame, field, first byte, length, value
in hexadecimal digits.

Of frames with the same fields at the same offsets, only the first one is written; with --all, all of them.

Some fields are left out because tshark shows data there that is not in the frame: fields of reassembled data; fields
after TCP in frames with part of an FPDU; and RPC-over-RDMA headers that it repeats at the last READ response and the
last RDMA WRITE. Others are left out because tshark 4.0 is wrong: flow label and packet rate of a REQ's path, for which
it takes 12 bits and those after them (they have 20 and 6: IBTA volume 1, section 12.6.5; ibta_vol1_c12.h in Linux).
"""
import sys
import xml.etree.ElementTree as ElementTree

FIELDS = """
    eth.dst eth.src eth.type
    ip.id ip.len ip.ttl ip.proto ip.src ip.dst udp.srcport udp.dstport udp.length
    infiniband.bth.opcode infiniband.bth.se infiniband.bth.m infiniband.bth.padcnt infiniband.bth.tver infiniband.bth.p_key
    infiniband.bth.destqp infiniband.bth.a infiniband.bth.psn
    infiniband.reth.va infiniband.reth.r_key infiniband.reth.dmalen
    infiniband.aeth.syndrome infiniband.aeth.msn infiniband.deth.q_key infiniband.deth.srcqp infiniband.ieth
    infiniband.invariant.crc
    infiniband.mad.baseversion infiniband.mad.mgmtclass infiniband.mad.classversion infiniband.mad.status
    infiniband.mad.transactionid infiniband.mad.attributeid infiniband.mad.attributemodifier
    infiniband.cm.req.serviceid infiniband.cm.req.localcaguid infiniband.cm.req.localqpn infiniband.cm.req.responderres
    infiniband.cm.req.initdepth infiniband.cm.req.remoteresptout infiniband.cm.req.startpsn infiniband.cm.req.localresptout
    infiniband.cm.req.retrcount infiniband.cm.req.pkey infiniband.cm.req.pppmtu infiniband.cm.req.rnrretrcount
    infiniband.cm.req.maxcmretr infiniband.cm.req.prim_locallid
    infiniband.cm.req.prim_hoplim infiniband.cm.req.prim_sl
    infiniband.cm.req.prim_localacktout infiniband.cm.req.ip_cm.sport infiniband.cm.req.ip_cm.ipv
    infiniband.cm.rep.remotecommid infiniband.cm.rep.localqpn infiniband.cm.rep.startpsn infiniband.cm.rep.respres
    infiniband.cm.rep.initdepth infiniband.cm.rep.tgtackdelay infiniband.cm.rep.rnrretrcount infiniband.cm.rep.localcaguid
    infiniband.cm.rej.remotecommid infiniband.cm.rej.msgrej infiniband.cm.rej.reason
    rpcordma.xid rpcordma.version rpcordma.flow_control rpcordma.msg_type
    rpcordma.position rpcordma.rdma_handle rpcordma.rdma_length rpcordma.rdma_offset
    geneve.proto_type geneve.vni geneve.flags.oam geneve.flags.critical
    mpls.label mpls.exp mpls.bottom mpls.ttl
    pppoe.version pppoe.type pppoe.code pppoe.session_id pppoe.payload_length ppp.protocol
    erf.ts erf.types.ext_header erf.types.type erf.flags erf.rlen erf.lctr erf.wlen
    infiniband.lrh.vl infiniband.lrh.lver infiniband.lrh.sl infiniband.lrh.lnh infiniband.lrh.dlid infiniband.lrh.pktlen
    infiniband.lrh.slid infiniband.variant.crc
    tcp.srcport tcp.dstport tcp.seq_raw tcp.ack_raw tcp.window_size_value tcp.checksum
    iwarp_mpa.rev iwarp_mpa.pdlength iwarp_mpa.ulpdulength iwarp_mpa.crc
    iwarp_ddp.tagged_flag iwarp_ddp.last_flag iwarp_ddp.rsvd iwarp_ddp.dv iwarp_ddp.stag iwarp_ddp.tagged_offset
    iwarp_ddp.qn iwarp_ddp.msn iwarp_ddp.mo iwarp_rdma.version iwarp_rdma.rsv iwarp_rdma.opcode
    iwarp_rdma.sinkstag iwarp_rdma.sinkto iwarp_rdma.rdmardsz iwarp_rdma.srcstag iwarp_rdma.srcto
    rpc.xid rpc.msgtyp rpc.program rpc.procedure rpc.auth.machinename rpc.auth.uid rpc.replystat rpc.state_accept
""".split()
SENDS = (0, 4, 5, 0x16, 0x17)
IWARP_SENDS = (3, 4, 5, 6)


def rows_of(packet):
    """Name, first byte, length and value of each field in the frame."""
    rows, opcode, header_end, rpc_in_frame = [], None, None, False
    is_part = any(element.get("name") in ("tcp.segments", "tcp.segment_data") for element in packet.iter())
    for element in packet.iter():
        name = element.get("name")
        if name == "infiniband.bth.opcode" and opcode is None:
            opcode = int(element.get("show"))
        if name == "iwarp_rdma.opcode":
            opcode = SENDS[0] if int(element.get("show"), 0) in IWARP_SENDS else None
        if is_part and name and not name.startswith(("eth.", "ip.", "tcp.")):
            continue
        if element.tag == "proto" and name == "rpcordma":
            header_end = int(element.get("pos")) + int(element.get("size"))
        # tshark assigns no bytes of the frame to the ERF header, so its fields have no offset.
        if name in FIELDS and name.startswith("erf."):
            rows.append((name, 0, 0, f"{int(element.get('show'), 0):x}"))
            continue
        if name not in FIELDS or not element.get("value"):
            continue
        position, size = int(element.get("pos")), int(element.get("size"))
        if name.startswith("rpcordma.") and opcode not in SENDS:
            continue
        # The RPC message after the header. One reassembled from chunks has offsets in other data.
        if name == "rpc.xid":
            rpc_in_frame = opcode in SENDS and position == header_end
        if name.startswith("rpc.") and not rpc_in_frame:
            continue
        row = (name, position, size, element.get("value").lower().lstrip("0") or "0")
        # tshark 4.0 adds some fields twice.
        if row not in rows:
            rows.append(row)
    return rows


def main():
    every, layouts = "--all" in sys.argv[1:], set()
    print("frame", "field", "position", "size", "value", sep="\t")
    for _, packet in ElementTree.iterparse(sys.stdin):
        if packet.tag != "packet":
            continue
        number = packet.find("./proto[@name='geninfo']/field[@name='num']").get("show")
        rows = rows_of(packet)
        layout = tuple(row[:3] for row in rows)
        if every or layout not in layouts:
            layouts.add(layout)
            for row in rows:
                print(number, *row, sep="\t")
        packet.clear()


main()
