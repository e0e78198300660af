# Functions of the lab, to be sourced. The guests run in QEMU, which emulates the processor, on a
# bridge in a network namespace.
#
#   lab_guard SCRIPT...    runs a script in its own process group; a signal to this shell ends the
#                          group first, then this shell
#   lab_possible           succeeds if the lab can run here, else prints the missing requirement
#   lab_up FOLDER          creates the namespace; namespace and guests are removed when the shell
#                          ends, for any reason
#   lab_boot ROLE SERIES   boots a guest: server (10.77.0.1, fd77::1) or client (10.77.0.2, fd77::2);
#                          status 77: there is no kernel of the series. LAB_DEVICE is rxe (soft-RoCE)
#                          or siw (soft-iWARP, which siw-build makes)
#   lab_halt ROLE          kills a guest in any state
#   lab_do ROLE            runs the commands from standard input in a guest, prints their output and
#                          returns their status
#   lab_host COMMAND...    runs a command in the namespace, with the addresses 10.77.0.254, fd77::fe
#   lab_serve FILE OPTION...   starts `peer serve OPTION...` with an export in memory on 10.77.0.254,
#                          with its JSON lines in FILE, and waits until it listens; $scope is the
#                          program
#   lab_serve_end          ends it and returns its status

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The Debian packages that the lab needs.
LAB_PACKAGES='qemu-system-x86 busybox-static kmod cpio xz-utils iproute2 tcpdump rdma-core librdmacm1 ibverbs-providers nfs-common nfs-kernel-server e2fsprogs'
declare -A lab_guests

# A shell handles a signal only after the command that it waits for has ended, and does not forward
# the signal. So the script runs again as a child in its own process group. This shell sends a
# signal to every process of the group and waits until their traps have run. The function returns
# only in the child.
lab_guard() {
    [ "${LAB_GUARD:-}" != $PPID ] || { trap 'exit 143' INT TERM HUP; return 0; }
    local run='' ended='' status=0
    trap 'ended=130; lab_end_group "$run"' INT
    trap 'ended=143; lab_end_group "$run"' TERM
    trap 'ended=129; lab_end_group "$run"' HUP
    set -m
    LAB_GUARD=$$ "$BASH" "$@" </dev/null &
    run=$!
    set +m
    [ -z "$ended" ] || lab_end_group "$run"
    while true; do
        wait "$run" && status=0 || status=$?
        # A signal interrupts `wait` before the child has ended.
        kill -0 "$run" 2>/dev/null || break
    done
    kill -KILL -- "-$run" 2>/dev/null || true
    exit "${ended:-$status}"
}

lab_end_group() {
    [ -n "$1" ] || return 0
    kill -TERM -- "-$1" 2>/dev/null || true
    # Kill the programs in the namespace that do not end within 20 seconds.
    for _ in $(seq 100); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.2; done
    lab_clear "rdmascope-lab-$1"
}

# Kills all processes in a namespace.
lab_clear() {
    local process
    for process in $(ip netns pids "$1" 2>/dev/null); do kill -KILL "$process" 2>/dev/null || true; done
}

lab_possible() {
    [ "$(id -u)" = 0 ] || { echo "SKIPPED: the lab needs root" >&2; return 1; }
    command -v apt-get >/dev/null || { echo "SKIPPED: the lab downloads its kernels from Debian's archive" >&2; return 1; }
    for tool in qemu-system-x86_64 busybox modprobe cpio xz ip tcpdump rdma rpc.nfsd mkfs.ext4; do
        command -v "$tool" >/dev/null && continue
        apt-get update -qq
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $LAB_PACKAGES >/dev/null ||
            { echo "SKIPPED: the lab's packages cannot be installed: $LAB_PACKAGES" >&2; return 1; }
        break
    done
    (
        probe=rdmascope-lab-probe-$$
        trap 'ip netns delete "$probe" 2>/dev/null' EXIT
        trap 'exit 143' INT TERM HUP
        ip netns add "$probe" && ip netns exec "$probe" ip tuntap add dev probe mode tap
    ) 2>/dev/null || { echo "SKIPPED: a network namespace with a tap cannot be created here" >&2; return 1; }
}

lab_up() {
    LAB=$(mkdir -p "$1" && cd "$1" && pwd) LAB_NAMESPACE=rdmascope-lab-$$
    trap lab_down EXIT
    trap 'exit 130' INT TERM HUP
    rm -rf "$LAB/steps" "$LAB/guest"
    mkdir -p "$LAB/steps" "$LAB/kernels"
    cp -r "$here/guest" "$LAB/guest"
    ip netns add "$LAB_NAMESPACE"
    lab_host ip link set lo up
    lab_host ip link add bridge type bridge
    lab_host ip address add 10.77.0.254/24 dev bridge
    lab_host ip -6 address add fd77::fe/64 dev bridge nodad 2>/dev/null || echo "no IPv6 on this machine" >&2
    lab_host ip link set bridge mtu "${LAB_MTU:-1500}" up
}

lab_host() { ip netns exec "$LAB_NAMESPACE" "$@"; }

lab_serve() {
    local lines=$1 until=$((SECONDS + 60))
    shift
    : >"$lines"
    # lab_host would start a subshell. lab_down also ends this process.
    ip netns exec "$LAB_NAMESPACE" "$scope" peer serve --bind 10.77.0.254 --export memory --port-mapper --format jsonl "$@" >"$lines" &
    lab_guests[peer]=$!
    until grep -q peer_export "$lines"; do
        kill -0 "${lab_guests[peer]}" 2>/dev/null && [ $SECONDS -lt $until ] || return 1
        sleep 0.1
    done
}

lab_serve_end() {
    local process=${lab_guests[peer]}
    # Background processes of a shell ignore SIGINT.
    kill -TERM "$process" 2>/dev/null || true
    unset 'lab_guests[peer]'
    wait "$process"
}

# Tries twice: Linux panics if its first timer ticks are late on a loaded machine, even with
# no_timer_check.
lab_boot() {
    "$here/kernel" "$2" "$LAB/kernels" >/dev/null || return
    lab_boot_once "$@" || { lab_halt "$1"; lab_boot_once "$@"; }
}

lab_boot_once() {
    local role=$1 version host
    version=$("$here/kernel" "$2" "$LAB/kernels")
    case $role in server) host=1 ;; client) host=2 ;; esac
    lab_host ip tuntap add dev "$role" mode tap
    lab_host ip link set "$role" mtu "${LAB_MTU:-1500}" master bridge up
    # lab_host would start a subshell, and killing that would not end the guest.
    ip netns exec "$LAB_NAMESPACE" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 1 -m 2000 -nographic -nodefaults -serial stdio -no-reboot \
        -kernel "$LAB/kernels/$version/boot/vmlinuz-$version" -initrd "$LAB/kernels/$version.initramfs" \
        -append "console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off no_timer_check lab.role=$role lab.host=$host lab.mtu=${LAB_MTU:-1500} lab.device=${LAB_DEVICE:-rxe}" \
        -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
        -virtfs "local,path=$LAB,mount_tag=lab,security_model=none" \
        -netdev "tap,id=net,ifname=$role,script=no,downscript=no" \
        -device "virtio-net-pci,netdev=net,mac=52:54:00:77:00:0$host,gso=off,guest_tso4=off,host_tso4=off" \
        >"$LAB/$role.log" 2>&1 </dev/null &
    lab_guests[$role]=$!
    lab_wait "$role" "$LAB/steps/$role.ready" 600 || { tail -5 "$LAB/$role.log" >&2; return 1; }
    echo "$role: Linux $version"
}

lab_halt() {
    kill -KILL "${lab_guests[$1]}" 2>/dev/null || true
    wait "${lab_guests[$1]}" 2>/dev/null || true
    unset "lab_guests[$1]"
    lab_host ip link delete "$1"
    rm -f "$LAB/steps/$1".*
}

# lab_wait ROLE FILE SECONDS: waits until a guest creates a file.
lab_wait() {
    local until=$((SECONDS + $3))
    while [ ! -e "$2" ]; do
        kill -0 "${lab_guests[$1]}" 2>/dev/null || { echo "the guest $1 has ended: $LAB/$1.log" >&2; return 1; }
        [ $SECONDS -lt $until ] || { echo "no $(basename "$2") within $3 seconds: $LAB/$1.log" >&2; return 1; }
        sleep 0.1
    done
}

lab_do() {
    local role=$1 step=1
    # A counter in a variable would be lost, because this also runs in subshells.
    while [ -e "$LAB/steps/$role.$step" ]; do step=$((step + 1)); done
    cat >"$LAB/steps/$role.part"
    mv "$LAB/steps/$role.part" "$LAB/steps/$role.$step"
    # Other programs may use the processor, so the limit is far above the usual time.
    lab_wait "$role" "$LAB/steps/$role.$step.status" "${2:-400}" || return
    cat "$LAB/steps/$role.$step.output"
    return "$(cat "$LAB/steps/$role.$step.status")"
}

lab_down() {
    local status=$? role
    set +e
    # Finish even if a second signal arrives.
    trap '' INT TERM HUP
    for role in "${!lab_guests[@]}"; do touch "$LAB/steps/$role.stop"; done
    for role in "${!lab_guests[@]}"; do
        for _ in $(seq 100); do kill -0 "${lab_guests[$role]}" 2>/dev/null || break; sleep 0.1; done
        kill "${lab_guests[$role]}" 2>/dev/null
        for _ in $(seq 50); do kill -0 "${lab_guests[$role]}" 2>/dev/null || break; sleep 0.1; done
        kill -KILL "${lab_guests[$role]}" 2>/dev/null
        wait "${lab_guests[$role]}" 2>/dev/null
    done
    # The namespace exists until its last process ends. Taps and bridge are removed with it.
    lab_clear "$LAB_NAMESPACE"
    ip netns delete "$LAB_NAMESPACE" 2>/dev/null
    exit $status
}
