#!/usr/bin/env python3
"""Writes tests/encapsulations/: one RoCEv2 packet in several tunnels, and native InfiniBand in an ERF capture.

The bytes are composed here from the specifications, independently of rdmascope and tshark. make-expectations.sh runs
tshark on them. The packet is the first frame of samples/nfs3-basic.pcap, a CM REQ.
"""
import struct
from pathlib import Path

root = Path(__file__).parent
sample = (root / "../samples/nfs3-basic.pcap").read_bytes()
length, = struct.unpack_from("<I", sample, 24 + 8)
frame = sample[40:40 + length]
ip = frame[14:]
transport = ip[28:]
out = root / "encapsulations"


def ethernet(kind, payload):
    return bytes.fromhex("020000000001020000000002") + struct.pack(">H", kind) + payload


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total > 0xffff:
        total = (total >> 16) + (total & 0xffff)
    return total ^ 0xffff


def ipv4(protocol, payload):
    fields = [0x45, 0, 20 + len(payload), 0x1234, 0, 64, protocol, 0, bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])]
    fields[7] = checksum(struct.pack(">BBHHHBBH4s4s", *fields))
    return struct.pack(">BBHHHBBH4s4s", *fields) + payload


def ipv6(next_header, payload):
    addresses = bytes.fromhex("20010db8" + "00" * 11 + "01" + "20010db8" + "00" * 11 + "02")
    return struct.pack(">IHBB", 6 << 28, len(payload), next_header, 64) + addresses + payload


def udp(port, payload):
    return struct.pack(">HHHH", 50000, port, 8 + len(payload), 0) + payload


def geneve(kind, options, payload):
    header = struct.pack(">BBHI", len(options) // 4, 0, kind, 5001 << 8)
    return ethernet(0x0800, ipv4(17, udp(6081, header + options + payload)))


def labels(*numbers):
    last = len(numbers) - 1
    return b"".join(struct.pack(">I", n << 12 | 3 << 9 | (at == last) << 8 | 63) for at, n in enumerate(numbers))


def pppoe(protocol, payload):
    return ethernet(0x8864, struct.pack(">BBHHH", 0x11, 0, 0x42, 2 + len(payload), protocol) + payload)


def gre(kind, payload):
    return ethernet(0x0800, ipv4(47, struct.pack(">HH", 0, kind) + payload))


option = struct.pack(">HBBI", 0x0102, 3, 1, 0xcafe)
tunnels = [
    geneve(0x6558, b"", frame),
    geneve(0x6558, option, frame),
    geneve(0x0800, b"", ip),
    ethernet(0x8847, labels(100, 200) + ip),
    ethernet(0x8848, labels(100) + ip),
    gre(0x8847, labels(100) + ip),
    ethernet(0x8100, bytes.fromhex("60058847") + labels(300) + ip),
    pppoe(0x0021, ip),
    ethernet(0x0800, ipv4(4, ip)),
    ethernet(0x86dd, ipv6(4, ip)),
    ethernet(0x86dd, ipv6(41, ipv6(4, ip))),
]
capture = struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144, 1)
for number, data in enumerate(tunnels):
    capture += struct.pack("<IIII", 1700000000, number, len(data), len(data)) + data
(out / "tunnels.pcap").write_bytes(capture)


def erf(fraction, kind, extensions, payload, wire_length=None):
    """An ERF record, padded to eight bytes as the cards do."""
    kind |= 0x80 if extensions else 0
    content = extensions + payload
    content += bytes(-(16 + len(content)) % 8)
    header = struct.pack("<II", fraction, 1700000000) + struct.pack(
        ">BBHHH", kind, 4, 16 + len(content), 0, len(payload) if wire_length is None else wire_length)
    return header + content


# LRH: VL 0, LNH 2, DLID 7, length including the ICRC, SLID 9. The BTH and its ICRC are those of the
# UDP packet; the variant CRC follows.
lrh = struct.pack(">BBHHH", 0, 2, 7, (8 + len(transport)) // 4, 9)
native = lrh + transport + b"\xbe\xef"
records = [
    erf(0x80000000, 21, b"", native),
    erf(0x80000003, 48, b"", bytes(8)),
    erf(0xfffffffd, 21, bytes.fromhex("8300000000000001") + bytes.fromhex("0300000000000002"), native),
    erf(0xfffffffe, 2, b"", b"\0\0" + frame, len(frame)),
    erf(0xffffffff, 20, bytes.fromhex("0500000000000001"), b"\0\0" + frame + bytes(4), len(frame) + 4),
    erf(0xffffffff, 27, b"", bytes.fromhex("0001000000000000")),
]
(out / "native.erf").write_bytes(b"".join(records))
