# nfs-ganesha as the server of the lab, to be sourced after lab.sh and export.sh.
#
#   ganesha_as_server MODE    builds it, runs it in a guest, and tests `peer` against it, and sessions
#                             of the kernel's client with it; MODE is that of tests/lab/run
#
# $scope is the program. The server is restarted before each step, because one that has crashed or
# hangs would give the next scenarios a verdict that is not theirs. It may hang after any connection
# (docs/findings/ganesha-completion-thread.md).

# Restarts the server. The guest is booted again if that fails.
ganesha_fresh() {
    lab_do server 60 <<<'. /lab/guest/ganesha-restart' >"$LAB/ganesha.restart" && return
    lab_halt server
    lab_boot server "$kernel"
}

# ganesha_copies NAME: copies a file to the server and back.
ganesha_copies() {
    local lines=$LAB/$1.jsonl written
    # FSAL_MEM stores the first 2 MiB of a file (Inode_Size).
    head -c 2M /dev/urandom >"$LAB/$1.data"
    written=$(md5sum <"$LAB/$1.data" | cut -d ' ' -f 1)
    lab_host "$scope" peer call --to 10.77.0.1 --export /export --write "$LAB/$1.data" --read "$1.data" --list \
        --timeout 60s --format jsonl --save "$LAB/$1.pcapng" >"$lines" || fail "$1: peer call --export"
    [ "$(export_field "$lines" peer_job md5 job=read)" = "$written" ] || fail "$1: the file read differs from the file written"
    [ "$(export_field "$lines" peer_job entries job=list)" = 3 ] || fail "$1: the list of names is incomplete"
    "$scope" check "$LAB/$1.pcapng" >"$LAB/$1.check" || { cat "$LAB/$1.check"; fail "check has findings in $1"; }
    echo "$1: 2 MiB each way, $(export_field "$lines" peer_end calls) calls"
}

# ganesha_scenario NAME: runs a scenario on a fresh server. A server that has ended leaves its log,
# and the stacks of its threads, beside the capture.
ganesha_scenario() {
    local core=$injected/$1.core
    ganesha_fresh
    # A violation is a verdict, not a failure of the run.
    lab_host "$scope" peer inject --to 10.77.0.1 "peer/scenarios/$1.toml" --allow-destructive --timeout 20s --format jsonl \
        --save "$injected/$1.pcapng" >"$injected/$1.jsonl" || [ $? = 1 ] || fail "peer inject $1"
    "$scope" check --quiet --format jsonl "$injected/$1.pcapng" >"$injected/$1.findings" || [ $? = 1 ] || fail "check $1"
    ! lab_do server 300 <<<"cp /tmp/ganesha.log /lab/$(basename "$injected")/$1.log; [ -e /tmp/core ] && cp --sparse=always /tmp/core /lab/$(basename "$injected")/$1.core" || {
        ganesha_stacks "$core" >"$injected/$1.stack" 2>&1
        rm "$core"
    }
}

# ganesha_stacks CORE: prints the stacks of the threads of a core dump of the server, if gdb is there.
ganesha_stacks() {
    local installed=$LAB/ganesha-$version
    ! command -v gdb >/dev/null || gdb -batch -nx -iex 'set debuginfod enabled off' -iex "set solib-search-path $installed/lib:$installed/lib/ganesha" \
        -ex 'info threads' -ex bt -ex 'thread apply all bt 12' "$installed/bin/ganesha.nfsd" "$1"
}

# ganesha_session VERSION: the guest `client` mounts the export and works, with `capture --kernel` on
# itself. Every transaction must match the client's tracepoints, and the operations those of its
# mountstats. `check` must accuse only the server, of the rules in `faults`.
ganesha_session() {
    local name=ganesha-nfs$1 told
    local faults='write-chunk-length write-chunk-padding rpc-results status-of-operation'
    ganesha_fresh
    told=$(lab_do client 300 <<COMMANDS
set -e
$scope capture -i eth0 --kernel -w /lab/$name.pcapng 2>/lab/$name.told &
capture=\$!
for _ in \$(seq 300); do
    ! grep -q 'capturing from' /lab/$name.told || break
    kill -0 \$capture
    sleep 0.1
done
mount -t nfs -o "vers=$1,proto=rdma,port=20049,$2" 10.77.0.1:/export /mnt/nfs
for size in 1 2 3 4 5 7 13 4097 65535 100001 1000001; do
    head -c \$size /dev/urandom >/tmp/file-\$size
    cp /tmp/file-\$size /mnt/nfs/file-\$size
done
mkdir /mnt/nfs/names
for i in \$(seq 60); do : >"/mnt/nfs/names/name-number-\$i-of-60"; done
ln -s file-13 /mnt/nfs/link
mv /mnt/nfs/file-5 /mnt/nfs/renamed
sync
echo 3 >/proc/sys/vm/drop_caches
for size in 1 2 3 4 7 13 4097 65535 100001 1000001; do cmp /tmp/file-\$size /mnt/nfs/file-\$size; done
[ "\$(ls /mnt/nfs/names | wc -l)" = 60 ]
rm /mnt/nfs/names/name-number-1-of-60
cp /proc/self/mountstats /lab/$name.mountstats
umount /mnt/nfs
sleep 1
# Background processes of a shell ignore SIGINT.
kill -TERM \$capture
wait \$capture
COMMANDS
    ) || { different "$name: the kernel's client: $told $(cat "$LAB/$name.told")"; return; }
    "$scope" analyze "$LAB/$name.pcapng" --format jsonl >"$LAB/$name.analyzed"
    "$scope" check --quiet "$LAB/$name.pcapng" --format jsonl >"$LAB/$name.findings" || [ $? = 1 ] || fail "check $name"
    # shellcheck disable=SC2086
    python3 - "$LAB/$name" $faults <<'PROGRAM' || different "$name: the kernel and the capture disagree, or check accuses wrongly: $LAB/$name.*"
import json, sys
path, *faults = sys.argv[1:]
read = lambda kind: [json.loads(line) for line in open(f"{path}.{kind}", encoding="utf-8")]
lines = read("analyzed")
operations = [line for line in lines if line["type"] == "operation"]
[kernel] = [line for line in lines if line["type"] == "kernel"]
transactions = sum(line["count"] for line in operations)
assert kernel["joined"] == transactions > 100, (kernel, transactions)
assert kernel["only_in_trace"] == kernel["only_in_capture"] == kernel["unread_lines"] == 0, kernel
disagreements = [line for line in lines if line["type"] == "kernel_disagreement"]
assert not disagreements, disagreements[:3]
wire = {}
for line in operations:
    if line["program"] == 100003:
        wire[line["operation"]] = wire.get(line["operation"], 0) + line["count"]
# Each COMPOUND with one of these is one of the client's procedures. The rows of the others have other names.
exact = ["READ", "WRITE", "CREATE", "REMOVE", "RENAME", "SETATTR", "READDIR", "READDIRPLUS", "COMMIT", "OPEN", "CLOSE", "MKDIR", "LOOKUP"]
stats = {}
with open(f"{path}.mountstats", encoding="utf-8") as file:
    mine = file.read().split(" mounted on /mnt/nfs ")[1].split("per-op statistics")[1].split("\ndevice ")[0]
for row in mine.splitlines():
    name, _, numbers = row.strip().partition(": ")
    if numbers:
        stats[name] = int(numbers.split()[0])
minor = "nfs4" in path
if minor:
    # A COMPOUND with CREATE makes a directory or a symbolic link. The mount looks up the export in a mount of its own.
    stats["CREATE"] += stats["SYMLINK"]
    exact.remove("LOOKUP")
for name in exact:
    assert wire.get(name, 0) == stats.get(name, 0), (name, wire.get(name, 0), stats.get(name, 0))
findings = [line for line in read("findings") if line["type"] == "finding" and line["verdict"] == "stands" and line["level"] != "advice"]
wrong = [line for line in findings if line["rule"] not in faults or line["by"] != "responder"]
assert not wrong, wrong[:3]
found = sorted({line["rule"] for line in findings})
print(f"{path.split('/')[-1]}: {transactions} transactions matched with tracepoints and mountstats; the server's faults: {', '.join(found)}")
PROGRAM
}

ganesha_as_server() {
    local version kernel=6.12 injected name noted address
    local -i wrong=0
    version=$(tests/lab/ganesha-build target/lab) || exit $?
    printf '\n== nfs-ganesha %s as the server\n' "$version"
    lab_up target/lab
    cp "$here/guest/ganesha" "$LAB/guest/server"
    lab_boot server "$kernel" || { echo "SKIPPED: no guest with Linux $kernel" >&2; exit 77; }
    for address in 10.77.0.1 $(! lab_host ip -6 address show dev bridge | grep -q fd77 || echo fd77::1); do
        ganesha_fresh
        lab_host "$scope" peer call --to "$address" --count 3 --timeout 20s --save "$LAB/call.pcapng" || fail "peer call --to $address"
        "$scope" check --quiet "$LAB/call.pcapng" || fail "check has findings in the packets of peer call"
    done
    ganesha_fresh
    ganesha_copies ganesha-copies
    lab_boot client "$kernel"
    ganesha_session 3 nolock,mountproto=tcp,mountport=20048
    ganesha_session 4.0 retry=0
    lab_halt client
    injected=$LAB/injected-ganesha-$version
    rm -rf "$injected"
    mkdir -p "$injected" tests/lab/verdicts
    "$scope" peer inject --list | grep -v "(peer serve)" | cut -d ' ' -f 1 >"$LAB/list"
    while read -r name <&3; do ganesha_scenario "$name"; done 3<"$LAB/list"
    while read -r name; do cat "$injected/$name.jsonl"; done <"$LAB/list" >"$LAB/inject-ganesha-$version.jsonl"
    noted=tests/lab/verdicts/ganesha-$version.tsv
    [ "$1" = --write ] || noted=$LAB/verdicts-ganesha-$version.tsv
    python3 tests/lab/verdicts.py "$LAB/inject-ganesha-$version.jsonl" peer/scenarios "$injected" >"$noted"
    diff "tests/lab/verdicts/ganesha-$version.tsv" "$noted" || different "the verdicts or findings of nfs-ganesha have changed"
    [ $wrong = 0 ]
}
