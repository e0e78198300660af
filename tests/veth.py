"""Helpers of capture_veth, live_veth, tui and fake_verbs: readers of capture files, and a veth pair in its own namespaces."""

import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

FROM, TO = f"rdmascope-from-{os.getpid()}", f"rdmascope-to-{os.getpid()}"
# Processes to end after the tests.
BEGUN = []


def run(*command):
    subprocess.run(command, check=True)


def pcap(path):
    """The frames of a pcap file with microseconds."""
    data = open(path, "rb").read()
    frames, at = [], 24
    while at < len(data):
        captured = struct.unpack_from("<8xI", data, at)[0]
        frames.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    return frames


def pcapng(data):
    """The packets of a pcapng file with their interfaces, and the values of its options: names, packets dropped before others, and counts."""
    packets, names, before, counts, at = [], [], 0, {}, 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8 : at + length - 4]
        if kind == 1:
            names.append(options(body[8:])[2].decode())
        elif kind == 6:
            interface, _, _, captured, original = struct.unpack_from("<IIIII", body)
            packets.append((interface, body[20 : 20 + captured], original))
            more = options(body[20 + captured + -captured % 4 :])
            before += struct.unpack("<Q", more.get(4, bytes(8)))[0]
        elif kind == 5 and (more := options(body[12:])).get(7):
            counts = {"dropped": struct.unpack("<Q", more[7])[0], "delivered": struct.unpack("<Q", more[8])[0]}
        at += length
    return packets, names, before, counts


def options(data):
    found, at = {}, 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from("<HH", data, at)
        if code == 0:
            break
        found[code] = data[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
    return found


def heed_signals():
    """Resets ignored signals, which children of background shells and nohup inherit."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def await_line(process, wanted):
    """Waits for this text on standard error. On a host without RDMA, another line precedes it."""
    told = ""
    while wanted not in told:
        line = process.stderr.readline().decode()
        assert line, told
        told += line


def send(frames, times=1):
    """Sends frames from the other namespace. A socket stays in the namespace in which it was created."""
    child = os.fork()
    if child == 0:
        try:
            with open(f"/run/netns/{FROM}") as namespace:
                enter(namespace.fileno())
            sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            sender.bind(("left", 0))
            for _ in range(times):
                for frame in frames:
                    while True:
                        try:
                            sender.send(frame)
                            break
                        except OSError as error:
                            # The queue of the interface is full.
                            if error.errno != 105:
                                raise
                            time.sleep(0.0005)
            os._exit(0)
        except BaseException as error:
            print("sender:", error, file=sys.stderr)
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the sender failed"


def enter(descriptor):
    """Enters a network namespace. os.setns needs Python 3.12."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def is_parent(process):
    return subprocess.run(["pgrep", "-P", str(process)], capture_output=True).returncode == 0


def up(namespace, name):
    # No neighbour discovery between the packets.
    run("ip", "-n", namespace, "link", "set", name, "addrgenmode", "none")
    run("ip", "-n", namespace, "link", "set", name, "up")


def pair():
    run("ip", "-n", FROM, "link", "add", "left", "mtu", "9000", "type", "veth", "peer", "name", "right", "mtu", "9000", "netns", TO)
    up(FROM, "left")
    up(TO, "right")


def main(tests):
    """Runs `tests` with a temporary folder: `left` in the namespace FROM is connected to `right` in TO."""
    name = os.path.basename(sys.argv[0])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if os.geteuid() != 0:
        print(f"SKIPPED: {name} needs root")
        return
    if subprocess.run(["ip", "netns", "add", FROM], capture_output=True).returncode != 0:
        print(f"SKIPPED: {name}: no network namespace can be made here")
        return
    try:
        run("ip", "netns", "add", TO)
        run("ip", "-n", TO, "link", "add", "second", "type", "veth", "peer", "name", "third")
        up(TO, "second")
        pair()
        with tempfile.TemporaryDirectory() as folder:
            tests(folder)
    finally:
        for process in BEGUN:
            if process.poll() is None:
                process.kill()
        for namespace in (FROM, TO):
            subprocess.run(["ip", "netns", "delete", namespace], check=False)
