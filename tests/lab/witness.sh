# A step of the lab, to be sourced after lab.sh and export.sh: tests `rdmascope capture --kernel`.
#
#   witness_of_kernel NAME    the guest `client` mounts the export of `peer serve`, starts
#                             `rdmascope capture --kernel` on itself, and works
#
# $scope is the program, which has the same path in the guest. The connection is older than the
# capture: its queue pairs must be those of `rdma resource show qp`, and its origin must be the
# kernel. Every transaction of the capture must be matched with one from the tracepoints.

witness_of_kernel() {
    local name=$1 told
    lab_serve "$LAB/$name.jsonl" || fail "$name: peer serve --export"
    told=$(lab_do client 300 <<COMMANDS
set -e
mount -t nfs -o vers=3,proto=rdma,port=20049,mountport=20048,mountproto=tcp,nolock 10.77.0.254:/export /mnt/nfs
ls /mnt/nfs
$scope capture -i eth0 --kernel -w /lab/$name.pcapng 2>/lab/$name.told &
capture=\$!
for _ in \$(seq 300); do
    ! grep -q 'capturing from' /lab/$name.told || break
    kill -0 \$capture || { cat /lab/$name.told; exit 1; }
    sleep 0.1
done
rdma -d -j resource show qp >/lab/$name.qp
head -c 1M /dev/urandom >/mnt/nfs/data
for i in \$(seq 20); do : >/mnt/nfs/name-\$i; done
md5sum /mnt/nfs/data
sync
sleep 1
# Background processes of a shell ignore SIGINT.
kill -TERM \$capture
wait \$capture
# The confined process has removed its tracing instance.
[ -z "\$(ls /sys/kernel/tracing/instances)" ]
umount /mnt/nfs
COMMANDS
    ) || fail "$name: the kernel's client: $told $(cat "$LAB/$name.told")"
    lab_serve_end || fail "$name: peer serve ended with $?"
    "$scope" connections "$LAB/$name.pcapng" --format jsonl >"$LAB/$name.connections"
    "$scope" analyze "$LAB/$name.pcapng" --format jsonl >"$LAB/$name.analyzed"
    python3 - "$LAB/$name" <<'PROGRAM' || fail "$name: the kernel and the capture disagree: $LAB/$name.*"
import json, sys
path = sys.argv[1]
read = lambda kind: [json.loads(line) for line in open(f"{path}.{kind}", encoding="utf-8")]
pairs = {(one["lqpn"], one["rqpn"]) for one in json.load(open(f"{path}.qp")) if one["type"] == "RC" and one["state"] == "RTS"}
connections = read("connections")
found = {(int(one["requester"]["qpn"], 16), int(one["responder"]["qpn"], 16)) for one in connections if one["origin"] == "kernel"}
assert found and found <= pairs, (found, pairs)
assert all(one["origin"] in ("kernel", "cm") for one in connections), [one["origin"] for one in connections]
lines = read("analyzed")
[kernel] = [line for line in lines if line["type"] == "kernel"]
transactions = sum(line["count"] for line in lines if line["type"] == "operation")
assert kernel["joined"] == transactions > 20, (kernel, transactions)
assert kernel["only_in_trace"] == kernel["only_in_capture"] == kernel["unread_lines"] == 0, kernel
disagreements = [line for line in lines if line["type"] == "kernel_disagreement"]
assert not disagreements, disagreements[:3]
print(f"{path.split('/')[-1]}: origin kernel for {len(found)} connection, {kernel['joined']} transactions matched with tracepoints, clocks aligned to {kernel['uncertainty_ns']} ns")
PROGRAM
}
