# Functions of the lab, to be sourced: guests in QEMU, which software emulates, on a bridge in a network namespace of their own.
#
#   lab_guard SCRIPT...    runs a script in a process group of its own; a signal to this shell ends all of it, and this shell after it
#   lab_possible           whether the lab can run here; else says what is missing
#   lab_up FOLDER          makes the namespace; it and the guests go away when the shell ends, however it ends
#   lab_boot ROLE SERIES   boots a guest: server (10.77.0.1, fd77::1) or client (10.77.0.2, fd77::2)
#   lab_halt ROLE          ends a guest at once, whatever state it is in
#   lab_do ROLE            runs the commands on standard input in a guest, prints what they print; their status
#   lab_host COMMAND...    runs a command at 10.77.0.254, fd77::fe, beside the guests

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# What a machine needs to run it.
LAB_PACKAGES='qemu-system-x86 busybox-static kmod cpio xz-utils iproute2 tcpdump rdma-core librdmacm1 ibverbs-providers nfs-common nfs-kernel-server e2fsprogs'
declare -A lab_guests

# A shell handles a signal only when the command that it waits for has ended, and does not hand it on. So the script runs once more as a child, in a
# process group: a signal to this shell goes to each process of the group, those that wait for others run their traps, and this shell
# waits until they have. Returns in the child only.
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
        # A signal ends `wait` before the child has ended.
        kill -0 "$run" 2>/dev/null || break
    done
    kill -KILL -- "-$run" 2>/dev/null || true
    exit "${ended:-$status}"
}

lab_end_group() {
    [ -n "$1" ] || return 0
    kill -TERM -- "-$1" 2>/dev/null || true
    # A program in the namespace that does not end is not waited for.
    for _ in $(seq 100); do kill -0 "$1" 2>/dev/null || return 0; sleep 0.2; done
    lab_clear "rdmascope-lab-$1"
}

# Ends all that runs in a namespace.
lab_clear() {
    local process
    for process in $(ip netns pids "$1" 2>/dev/null); do kill -KILL "$process" 2>/dev/null || true; done
}

lab_possible() {
    [ "$(id -u)" = 0 ] || { echo "SKIPPED: the lab needs root" >&2; return 1; }
    command -v apt-get >/dev/null || { echo "SKIPPED: the lab takes its kernels from Debian's archive" >&2; return 1; }
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
    ) 2>/dev/null || { echo "SKIPPED: no network namespace with a tap can be made here" >&2; return 1; }
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

# A machine under load may keep a guest from booting: Linux ends where its first timer ticks are late, although it is told not to look.
lab_boot() {
    lab_boot_once "$@" || { lab_halt "$1"; lab_boot_once "$@"; }
}

lab_boot_once() {
    local role=$1 version host
    version=$("$here/kernel" "$2" "$LAB/kernels")
    case $role in server) host=1 ;; client) host=2 ;; esac
    lab_host ip tuntap add dev "$role" mode tap
    lab_host ip link set "$role" mtu "${LAB_MTU:-1500}" master bridge up
    # Not lab_host, of which a shell would be the process, and the guest would go on without it.
    ip netns exec "$LAB_NAMESPACE" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 1 -m 2000 -nographic -nodefaults -serial stdio -no-reboot \
        -kernel "$LAB/kernels/$version/boot/vmlinuz-$version" -initrd "$LAB/kernels/$version.initramfs" \
        -append "console=ttyS0 quiet panic=-1 net.ifnames=0 mitigations=off no_timer_check lab.role=$role lab.host=$host lab.mtu=${LAB_MTU:-1500}" \
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

# Waits for a file that a guest makes, for so many seconds.
lab_wait() {
    local until=$((SECONDS + $3))
    while [ ! -e "$2" ]; do
        kill -0 "${lab_guests[$1]}" 2>/dev/null || { echo "the guest $1 ended: $LAB/$1.log" >&2; return 1; }
        [ $SECONDS -lt $until ] || { echo "no $(basename "$2") within $3 seconds: $LAB/$1.log" >&2; return 1; }
        sleep 0.1
    done
}

lab_do() {
    local role=$1 step=1
    # Not a variable: this runs in subshells too.
    while [ -e "$LAB/steps/$role.$step" ]; do step=$((step + 1)); done
    cat >"$LAB/steps/$role.part"
    mv "$LAB/steps/$role.part" "$LAB/steps/$role.$step"
    lab_wait "$role" "$LAB/steps/$role.$step.status" "${2:-120}"
    cat "$LAB/steps/$role.$step.output"
    return "$(cat "$LAB/steps/$role.$step.status")"
}

lab_down() {
    local status=$? role
    set +e
    # A second signal does not keep this from its end.
    trap '' INT TERM HUP
    for role in "${!lab_guests[@]}"; do touch "$LAB/steps/$role.stop"; done
    for role in "${!lab_guests[@]}"; do
        for _ in $(seq 100); do kill -0 "${lab_guests[$role]}" 2>/dev/null || break; sleep 0.1; done
        kill "${lab_guests[$role]}" 2>/dev/null
        for _ in $(seq 50); do kill -0 "${lab_guests[$role]}" 2>/dev/null || break; sleep 0.1; done
        kill -KILL "${lab_guests[$role]}" 2>/dev/null
        wait "${lab_guests[$role]}" 2>/dev/null
    done
    # Taps and bridge go away with the namespace, and it with the last process in it.
    lab_clear "$LAB_NAMESPACE"
    ip netns delete "$LAB_NAMESPACE" 2>/dev/null
    exit $status
}
