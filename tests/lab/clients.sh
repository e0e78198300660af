# A step of the lab, to be sourced after lab.sh: the kernel's NFS client with a faulty server.
#
#   judge_client FILE SCENARIO...   runs `peer serve --scenario SCENARIO...`; the guest `client`
#                                   mounts its export and works until all scenarios have verdicts.
#                                   Writes the JSON lines to FILE.jsonl, the packets to FILE.pcapng.
#
# $scope is the program. $kernel is the series of the guest, which is rebooted if it hangs.

judge_client() {
    local file=$1 worker until hangs=
    shift
    rm -f "$LAB/judged"
    lab_serve "$file.jsonl" --scenario "$@" --allow-destructive --until-judged --patience 60s --save "$file.pcapng" ||
        fail "peer serve --scenario $1"
    # Calls of all kinds: short and long, with Write, Read and Reply chunks. The work continues when
    # a scenario makes a call fail. Calls do not overlap, so that the next call shows how the client
    # reacts to the scenario.
    lab_do client 1200 >"$file.work" <<'COMMANDS' &
mounted=/mnt/nfs
# mountpoint asks the mount itself, and fails if the server is gone.
mounted() { grep -q " $mounted nfs" /proc/mounts; }
# SIGKILL after two seconds. A process that hangs in the kernel remains.
try() { timeout -k 2 "$@" || echo "status $?: $*"; }
until [ -e /lab/judged ]; do
    # The client retransmits an unanswered call only after a scenario has stopped waiting, and then
    # gives up. The mount stays, because unmounting would close the connection.
    mounted || try 60 mount -t nfs -o vers=3,proto=rdma,port=20049,mountport=20048,mountproto=tcp,nolock,nosharecache,soft,timeo=150,retrans=2 10.77.0.254:/export $mounted
    mounted || continue
    try 60 ls $mounted
    try 60 dd if=/dev/zero of=$mounted/data bs=64k count=1 conv=fsync status=none
    try 60 mkdir -p $mounted/names
    try 60 sh -c "cd $mounted/names && touch "'$(seq -f name-number-%g-of-many 40)'
    echo 3 >/proc/sys/vm/drop_caches
    try 60 sh -c "ls $mounted/names | wc -l"
    try 60 sh -c "md5sum <$mounted/data"
done
try 20 umount $mounted
! mounted || umount -f -l $mounted
! mounted
COMMANDS
    worker=$!
    until=$((SECONDS + 120 + 45 * $#))
    while kill -0 "${lab_guests[peer]}" 2>/dev/null && [ $SECONDS -lt $until ]; do sleep 0.5; done
    touch "$LAB/judged"
    # The program reports the scenarios without a verdict when it ends.
    lab_serve_end || [ $? = 1 ] || fail "peer serve --scenario $1 ended"
    until=$((SECONDS + 300))
    while kill -0 $worker 2>/dev/null && [ $SECONDS -lt $until ]; do sleep 0.5; done
    ! kill -0 $worker 2>/dev/null || { hangs=yes; kill $worker; }
    wait $worker || hangs=yes
    [ -z "$hangs" ] || {
        cp "$LAB/client.log" "$file.log"
        lab_halt client
        lab_boot client "$kernel"
    }
}
