#!/bin/sh
# Writes tests/expectations/ for tests/differential.rs: the fields that tshark reads in the samples.
#
#   tests/make-expectations.sh            with tshark 4.0
#
# NAME.frames.tsv   One row per frame, with the transport headers, which tshark reads in one pass.
#                   Only the first occurrence of a field: tshark 4.0 adds infiniband.ieth twice.
# NAME.headers.tsv  One row per Send with an RPC-over-RDMA header, in one pass. Other frames with a
#                   header in tshark are excluded: on the last READ response and the last RDMA WRITE
#                   it repeats or mixes up the header of the related Send.
# NAME.rpc.tsv      One row per RPC message, in two passes (-2), which reassemble READ replies whose
#                   data is in Write chunks. These are excluded because tshark is wrong:
#                   - nfs3-lossy: with loss, tshark decodes half of the messages and attaches calls
#                     to the wrong frames.
#                   - RPC messages on frames other than Sends: the frame of a call in a Read chunk
#                     is the READ response.
#                   - NFSv4 statuses after the first: tshark lists those of the COMPOUND and of the
#                     operations without a distinction.
# NAME.cm.tsv       One row per CM message.
# NAME.fields.tsv   One row per field and frame, with the field's place in the frame. If several
#                   frames have the same fields at the same places, only the first is listed.
#                   fields-from-pdml.py lists the omissions. For cli/src/show/tests.rs.
# tshark cannot show ICRC verdicts, RFC 8797 private data, MRA, LAP, APR and SIDR.
set -eu
cd "$(dirname "$0")/.."
out=tests/expectations
fields() { # PCAP OCCURRENCE FILTER PASSES FIELD...
    pcap=$1 occurrence=$2 filter=$3 passes=$4
    shift 4
    for field in "$@"; do set -- "$@" -e "$field"; shift; done
    # shellcheck disable=SC2086
    tshark $passes -r "samples/$pcap.pcap" -Y "$filter" -T fields -E header=y -E occurrence="$occurrence" "$@" 2>/dev/null
}
send='(infiniband.bth.opcode <= 5 || infiniband.bth.opcode == 22 || infiniband.bth.opcode == 23)'
for sample in connect-rejected nfs3-lossy nfs4.1-backchannel-recall nfs4.2-basic; do
    fields $sample f 'frame' '' frame.number ip.src ip.dst udp.srcport \
        infiniband.bth.opcode infiniband.bth.se infiniband.bth.m infiniband.bth.padcnt infiniband.bth.tver \
        infiniband.bth.p_key infiniband.bth.destqp infiniband.bth.a infiniband.bth.psn \
        infiniband.deth.srcqp infiniband.reth.va infiniband.reth.r_key infiniband.reth.dmalen \
        infiniband.aeth.syndrome infiniband.aeth.msn infiniband.ieth \
        >$out/$sample.frames.tsv
    fields $sample f 'infiniband.mad' '' frame.number infiniband.mad.attributeid \
        infiniband.cm.req infiniband.cm.req.serviceid infiniband.cm.req.localqpn infiniband.cm.req.startpsn \
        infiniband.cm.req.pppmtu infiniband.cm.req.responderres infiniband.cm.req.initdepth \
        infiniband.cm.rep infiniband.cm.rep.remotecommid infiniband.cm.rep.localqpn infiniband.cm.rep.startpsn \
        infiniband.cm.rtu.localcommid infiniband.cm.rtu.remotecommid \
        infiniband.cm.rej.localcommid infiniband.cm.rej.remotecommid infiniband.cm.rej.msgrej infiniband.cm.rej.reason \
        infiniband.cm.dreq.localcommid infiniband.cm.dreq.remotecommid infiniband.cm.req.remoteqpneecn \
        infiniband.cm.drsp.localcommid infiniband.cm.drsp.remotecommid \
        >$out/$sample.cm.tsv
    [ $sample = connect-rejected ] && continue
    fields $sample a "rpcordma && $send" '' frame.number rpcordma.xid rpcordma.version rpcordma.flow_control \
        rpcordma.msg_type rpcordma.position rpcordma.rdma_handle rpcordma.rdma_length rpcordma.rdma_offset \
        >$out/$sample.headers.tsv
    [ $sample = nfs3-lossy ] && continue
    fields $sample a "rpc && $send" -2 frame.number ip.src rpc.xid rpc.msgtyp rpc.program rpc.programversion \
        rpc.procedure nfs.opcode nfs.cb.operation >$out/$sample.rpc.tsv
done
# Another NFSv3 session, for more procedures.
fields nfs3-basic a "rpc && $send" -2 frame.number ip.src rpc.xid rpc.msgtyp rpc.program rpc.programversion \
    rpc.procedure nfs.opcode nfs.cb.operation >$out/nfs3-basic.rpc.tsv
for sample in connect-rejected nfs3-basic nfs3-lossy nfs4.1-backchannel-recall nfs4.1-basic nfs4.2-basic nfs4.2-mtu4096-large-io reliable-reply iwarp-nfs3; do
    tshark -r samples/$sample.pcap -T pdml 2>/dev/null | tests/fields-from-pdml.py >$out/$sample.fields.tsv
done
# The packets that make-encapsulations.py wrote into tunnels and ERF records.
for capture in tunnels.pcap native.erf; do
    tshark -r tests/encapsulations/$capture -T pdml 2>/dev/null | tests/fields-from-pdml.py --all >$out/${capture%.*}.fields.tsv
done
