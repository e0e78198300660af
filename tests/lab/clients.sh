# A step of the lab about clients, to be sourced behind lab.sh: what the kernel's NFS client does when a server is at fault.
#
#   judge_client FILE SCENARIO...   `peer serve --scenario SCENARIO...`: the guest `client` mounts its export and works until all are judged; the
#                                   lines are in FILE.jsonl, what crossed in FILE.pcapng
#
# $scope is the program, $kernel the series of the guest, which is booted anew where it hangs.

judge_client() {
    local file=$1 process worker until hangs=
    shift
    rm -f "$LAB/judged"
    : >"$file.jsonl"
    ip netns exec "$LAB_NAMESPACE" "$scope" peer serve --bind 10.77.0.254 --export memory --port-mapper --scenario "$@" --allow-destructive \
        --until-judged --patience 60s --format jsonl --save "$file.pcapng" >"$file.jsonl" &
    process=$!
    # It ends with the guests, whatever happens.
    lab_guests[peer]=$process
    until grep -q peer_export "$file.jsonl"; do
        kill -0 $process 2>/dev/null || fail "peer serve --scenario $1"
        sleep 0.1
    done
    # Calls of all kinds: short and long, with Write, Read and Reply chunks. What fails because of a scenario does not end the work. One call is under
    # way at a time, so that the next one is what the client does about the scenario.
    lab_do client 1200 >"$file.work" <<'COMMANDS' &
mounted=/mnt/nfs
# To ask the mount itself, as mountpoint does, fails where its server is gone.
mounted() { grep -q " $mounted nfs" /proc/mounts; }
# What hangs in the kernel is left to itself.
try() { timeout -k 2 "$@" || echo "status $?: $*"; }
until [ -e /lab/judged ]; do
    # A call without an answer is repeated later than a scenario waits, and given up. The mount stays, so that it is not its end that ends the connection.
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
    while kill -0 $process 2>/dev/null && [ $SECONDS -lt $until ]; do sleep 0.5; done
    touch "$LAB/judged"
    # What was not judged by then is told.
    kill -TERM $process 2>/dev/null || true
    unset 'lab_guests[peer]'
    wait $process || [ $? = 1 ] || fail "peer serve --scenario $1 ended"
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
