# A step of the lab, to be sourced after lab.sh: tests `rdmascope capture --snoop` at both ends.
#
#   snoop_of_kernels NAME    the guest `client` mounts the export of the guest `server` and works,
#                            while both capture their messages and their packets
#   snoop_with_losses NAME   the client captures its messages with a buffer that is too small
#
# $scope is the program, which has the same path in the guests. Messages and packets must give the
# same transactions and findings, except for what messages do not show. Afterwards no probe and no
# instance of tracefs is left, nor after `tui --snoop`. A capture that was killed leaves both, and the
# next one removes them.

snoop_of_kernels() {
    local name=$1 role packets=
    [ "${LAB_DEVICE:-rxe}" != siw ] || packets=--iwarp
    lab_do server <<COMMANDS || fail "$name: tui --snoop did not end, or left probes"
probes=/sys/kernel/tracing/kprobe_events
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
script -qc "stty rows 24 cols 80; TERM=xterm $scope tui --snoop" /dev/null </dev/null >/tmp/screen 2>&1 &
watching=\$!
for _ in \$(seq 300); do ! grep -q Overview /tmp/screen || break; sleep 0.1; done
grep -q rdmascope \$probes || { cat /tmp/screen; exit 1; }
kill -TERM \$(pgrep -f 'tui --snoop' | tail -1)
wait \$watching
[ -z "\$(cat \$probes)\$(ls /sys/kernel/tracing/instances)" ]
COMMANDS
    for role in server client; do
        lab_do "$role" <<COMMANDS || fail "$name: captures on the $role: $(cat "$LAB/$name-$role.told" "$LAB/$name-$role-snoop.told")"
$scope capture --snoop -w /tmp/killed.pcapng 2>/tmp/told &
killed=\$!
until grep -q 'capturing from' /tmp/told; do kill -0 \$killed || { cat /tmp/told; exit 1; }; sleep 0.1; done
kill -KILL \$killed
wait \$killed
grep -q rdmascope /sys/kernel/tracing/kprobe_events || { echo "the killed capture left no probe"; exit 1; }
$scope capture --snoop -w /lab/$name-$role-snoop.pcapng 2>/lab/$name-$role-snoop.told &
echo \$! >/tmp/snooping
$scope capture -i eth0 $packets -w /lab/$name-$role.pcapng 2>/lab/$name-$role.told &
echo \$! >/tmp/capturing
for told in /lab/$name-$role-snoop.told /lab/$name-$role.told; do
    for _ in \$(seq 300); do ! grep -q 'capturing from' \$told || break; sleep 0.1; done
    grep -q 'capturing from' \$told || exit 1
done
# Only the probes of this capture are there.
[ "\$(sed 's|.*:\(.*\)/.*|\1|' /sys/kernel/tracing/kprobe_events | sort -u)" = "rdmascope_messages_\$(cat /tmp/snooping)" ]
COMMANDS
    done
    lab_do client 300 >"$LAB/$name.work" <<'COMMANDS' || fail "$name: the client's work: $(cat "$LAB/$name.work")"
n=/mnt/nfs
for version in 3 4.2; do
    case $version in
        3) mount -t nfs -o vers=3,proto=rdma,port=20049,nolock,mountproto=tcp,nconnect=2 10.77.0.1:/export $n ;;
        *) mount -t nfs -o vers=$version,proto=rdma,port=20049 10.77.0.1:/ $n ;;
    esac || exit 1
    mkdir $n/w && cd $n/w || exit 1
    head -c 200000 /dev/urandom >/tmp/big
    cp /tmp/big big
    # In one Send each: a WRITE, and READs whose replies have pages.
    dd if=/dev/zero of=middle bs=3000 count=1 conv=fsync status=none
    for i in $(seq 20); do echo $i >name-$i; done
    sync
    echo 3 >/proc/sys/vm/drop_caches
    ls -l | wc -l
    md5sum big
    dd if=middle of=/dev/null bs=1000 count=2 status=none iflag=direct
    cat none 2>/dev/null
    cd / && rm -r $n/w && umount $n || exit 1
done
sleep 1
COMMANDS
    for role in server client; do
        lab_do "$role" <<COMMANDS || fail "$name: the captures on the $role did not end, or something is left: $(cat "$LAB/$name-$role-snoop.told")"
ended() { while [ -e /proc/\$1 ]; do sleep 0.1; done; }
for process in \$(cat /tmp/snooping /tmp/capturing); do kill -TERM \$process; ended \$process; done
[ -z "\$(cat /sys/kernel/tracing/kprobe_events)\$(ls /sys/kernel/tracing/instances)" ]
COMMANDS
        for kind in "" -snoop; do
            "$scope" transactions "$LAB/$name-$role$kind.pcapng" --format jsonl >"$LAB/$name-$role$kind.transactions"
            "$scope" connections "$LAB/$name-$role$kind.pcapng" --format jsonl >"$LAB/$name-$role$kind.connections"
            "$scope" check --inconclusive --format jsonl "$LAB/$name-$role$kind.pcapng" >"$LAB/$name-$role$kind.findings" || [ $? = 1 ] ||
                fail "$name: check $role$kind"
        done
        python3 tests/lab/snoop.py "$LAB/$name-$role" || fail "$name: messages and packets differ: $LAB/$name-$role*"
    done
}

# snoop_with_losses NAME: a capture of messages that stops reading for a while loses events. It counts
# them, and neither a rule nor an event takes them for a fault of a kernel.
snoop_with_losses() {
    local name=$1
    lab_do client 300 >"$LAB/$name.told" <<COMMANDS || fail "$name: $(cat "$LAB/$name.told")"
mount -t nfs -o vers=3,proto=rdma,port=20049,nolock,mountproto=tcp 10.77.0.1:/export /mnt/nfs || exit 1
head -c 4000 /dev/zero >/mnt/nfs/small
$scope capture --snoop --buffer 1 -w /lab/$name.pcapng 2>/tmp/told &
capturing=\$!
for _ in \$(seq 300); do ! grep -q 'capturing from' /tmp/told || break; sleep 0.1; done
read_small() { dd if=/mnt/nfs/small of=/dev/null bs=4 count=\$1 iflag=direct status=none; }
read_small 10
kill -STOP \$capturing
read_small 1000
kill -CONT \$capturing
read_small 10
sleep 1
kill -TERM \$capturing
wait \$capturing
cat /tmp/told
rm /mnt/nfs/small && umount /mnt/nfs
COMMANDS
    grep -q ' [1-9][0-9,]* dropped' "$LAB/$name.told" || fail "$name: no event was lost: $(cat "$LAB/$name.told")"
    "$scope" check --quiet --format jsonl "$LAB/$name.pcapng" >"$LAB/$name.findings" || [ $? = 1 ] || fail "$name: check"
    ! grep '"verdict":"stands"' "$LAB/$name.findings" || fail "$name: findings in spite of losses"
    [ "$("$scope" events --format jsonl "$LAB/$name.pcapng" | grep -c '"type":"event"')" = 0 ] || fail "$name: events in spite of losses"
    grep dropped "$LAB/$name.told" | tail -1
}
