# Steps of the lab, to be sourced after lab.sh: files are copied over RDMA from and to an NFSv3
# export, and their MD5 checksums are compared.
#
#   export_of_kernel NAME OPTION...   `peer call OPTION...` lists, reads and writes the export of
#                                     the guest `server`
#   export_of_peer NAME OPTION...     the guest `client` mounts the export of `peer serve
#                                     OPTION...`, lists, writes, and reads without its cache
#
# $scope is the program. The packets are in $LAB/NAME.pcapng. The options inject network faults;
# without them, `rdmascope check` must find nothing.

# export_field FILE TYPE FIELD [KEY=VALUE]: prints a field of the lines of a type.
export_field() {
    python3 - "$@" <<'PROGRAM'
import json, sys
path, kind, field, *conditions = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    lines = [json.loads(line) for line in file]
wanted = [condition.split("=", 1) for condition in conditions]
for line in lines:
    if line["type"] == kind and all(str(line.get(key)) == value for key, value in wanted):
        print(line[field])
PROGRAM
}

export_of_kernel() {
    local name=$1 lines=$LAB/$1.jsonl before after
    shift
    head -c 8M /dev/urandom >"$LAB/$name.data"
    before=$(lab_do server <<'COMMANDS' | awk '{ print $1 }'
mkdir -p /export/names
for i in $(seq 300); do : >"/export/names/name-number-$i-of-300"; done
head -c 8M /dev/urandom >/export/made-in-guest
md5sum /export/made-in-guest
COMMANDS
    )
    lab_host "$scope" peer call --to 10.77.0.1 --export /export --write "$LAB/$name.data" --read made-in-guest --list names \
        --timeout 60s --format jsonl --save "$LAB/$name.pcapng" "$@" >"$lines" || fail "$name: peer call --export"
    after=$(lab_do server <<<"md5sum /export/$name.data" | awk '{ print $1 }')
    [ "$(export_field "$lines" peer_job md5 job=read)" = "$before" ] || fail "$name: the file read differs from the guest's file"
    [ "$(export_field "$lines" peer_job md5 job=write)" = "$after" ] || fail "$name: the file in the guest differs from the file written"
    [ "$(md5sum <"$LAB/$name.data")" = "$after  -" ] || fail "$name: the MD5 of the file written is wrong"
    [ "$(export_field "$lines" peer_job entries job=list)" = 302 ] || fail "$name: the list of names is incomplete"
    # The Linux server sends with invalidate although it left its own R flag clear.
    [ $# != 0 ] || "$scope" check --allow invalidation-sender-flag "$LAB/$name.pcapng" >"$LAB/$name.check" ||
        { cat "$LAB/$name.check"; fail "check has findings in $name"; }
    echo "$name: 8 MiB each way, $(export_field "$lines" peer_end calls) calls; faults: $(export_field "$lines" peer_end faults)"
}

export_of_peer() {
    local name=$1 lines=$LAB/$1.jsonl told
    shift
    lab_serve "$lines" --save "$LAB/$name.pcapng" "$@" || fail "$name: peer serve --export"
    told=$(lab_do client 300 <<'COMMANDS'
set -e
mount -t nfs -o vers=3,proto=rdma,port=20049,mountport=20048,mountproto=tcp,nolock 10.77.0.254:/export /mnt/nfs
head -c 8M /dev/urandom >/tmp/data
mkdir /mnt/nfs/names
for i in $(seq 100); do : >"/mnt/nfs/names/name-number-$i-of-100"; done
cp /tmp/data /mnt/nfs/data
# Empty the guest's cache.
umount /mnt/nfs
echo 3 >/proc/sys/vm/drop_caches
# The port mapper returns the port of MOUNT. NFS/RDMA uses the default port.
mount -t nfs -o vers=3,proto=rdma,nolock 10.77.0.254:/export /mnt/nfs
md5sum </tmp/data
md5sum </mnt/nfs/data
ls /mnt/nfs/names | wc -l
umount /mnt/nfs
COMMANDS
    ) || fail "$name: the kernel's client: $told"
    lab_serve_end || fail "$name: peer serve ended with $?"
    read -r written _ read _ names <<<"$(tr '\n' ' ' <<<"$told")"
    [ "$written" = "$read" ] || fail "$name: the file that the client read differs from the file that it wrote"
    [ "$(export_field "$lines" peer_file md5 path=data)" = "$written" ] || fail "$name: the file in the export differs from the client's file"
    [ "$names" = 100 ] || fail "$name: the client listed $names names of 100"
    [ $# != 0 ] || "$scope" check "$LAB/$name.pcapng" || fail "check has findings in $name"
    echo "$name: 8 MiB each way, $(export_field "$lines" peer_end calls) calls; faults: $(export_field "$lines" peer_end faults)"
}
