#!/bin/sh
# Writes tests/expectations/: what tshark reads in the samples, for tests/differential.rs.
#
#   tests/make-expectations.sh            with tshark 4.0
#
# NAME.frames.tsv   one row per frame: the transport headers, which tshark reads in one pass, frame by frame. First occurrence of
#                   a field only: tshark 4.0 adds infiniband.ieth twice.
# NAME.headers.tsv  one row per Send with an RPC-over-RDMA header, single pass. Not the other frames that tshark shows one on: at
#                   the last READ response and the last RDMA WRITE it repeats, or mixes up, the header of the Send they serve.
# NAME.rpc.tsv      one row per RPC message of the two-pass mode (-2), which puts READ replies whose data went by Write chunk
#                   back together. Left out of it, for tshark is wrong there:
#                   - nfs3-lossy: under loss it decodes half of the messages, and attaches calls to the wrong frames.
#                   - RPC messages on frames other than Sends: the frame of a call that came by Read chunk is the READ response.
#                   - statuses of NFSv4 beyond the first: tshark lists the COMPOUND's and each operation's without telling which.
# NAME.cm.tsv       one row per CM message.
# NAME.fields.tsv   one row per field and frame, with its place in the frame; of frames with the same fields at the same places only
#                   the first. fields-from-pdml.py says what was left out. For cli/src/show/tests.rs.
# What tshark cannot show at all (ICRC verdicts, RFC 8797 private data, MRA, LAP, APR, SIDR) is not here.
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
# An NFSv3 session for its procedures.
fields nfs3-basic a "rpc && $send" -2 frame.number ip.src rpc.xid rpc.msgtyp rpc.program rpc.programversion \
    rpc.procedure nfs.opcode nfs.cb.operation >$out/nfs3-basic.rpc.tsv
for sample in connect-rejected nfs3-basic nfs3-lossy nfs4.1-backchannel-recall nfs4.1-basic nfs4.2-basic nfs4.2-mtu4096-large-io reliable-reply iwarp-nfs3; do
    tshark -r samples/$sample.pcap -T pdml 2>/dev/null | tests/fields-from-pdml.py >$out/$sample.fields.tsv
done
# The packets that make-encapsulations.py put into tunnels, and into ERF records.
for capture in tunnels.pcap native.erf; do
    tshark -r tests/encapsulations/$capture -T pdml 2>/dev/null | tests/fields-from-pdml.py --all >$out/${capture%.*}.fields.tsv
done
