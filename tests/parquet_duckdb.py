#!/usr/bin/env python3
"""Runs the examples of docs/parquet.md and compares what they find with `rdmascope … --format jsonl`.

    tests/parquet_duckdb.py RDMASCOPE        with the package duckdb
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ["nfs3-basic.pcap", "nfs3-lossy.pcap"]


def blocks(language):
    text = (ROOT / "docs/parquet.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def lines(rdmascope, command, capture):
    output = subprocess.run(
        [rdmascope, command, ROOT / "samples" / capture, "--format", "jsonl"], check=True, capture_output=True
    ).stdout
    return [json.loads(line) for line in output.splitlines()]


def equal(what, found, expected):
    if found != expected:
        sys.exit(f"{what}:\n  found    {found}\n  expected {expected}")


def compare_latencies(rdmascope, rows):
    found = {(capture, protocol, operation): rest for capture, protocol, operation, *rest in rows}
    expected = {}
    for capture in CAPTURES:
        for line in lines(rdmascope, "analyze", capture):
            if line["type"] == "operation":
                expected[capture, line["protocol"], line["operation"]] = line
    equal("operations", sorted(found), sorted(expected))
    for key, (count, median, p99) in found.items():
        line = expected[key]
        equal(f"{key} transactions", count, line["count"])
        # analyze keeps three significant digits of a latency.
        for name, value in [("median_ns", median), ("p99_ns", p99)]:
            reported = line["latency"] and line["latency"][name]
            if reported is None or abs(value - reported) > reported / 1000:
                equal(f"{key} {name}", value, reported)


def compare_retransmissions(rdmascope, rows):
    expected = []
    for capture in CAPTURES:
        ends = [
            (line["requester"]["counts"], line["responder"]["counts"])
            for line in lines(rdmascope, "connections", capture)
        ]
        by_requester = sum(requester["repeated_packets"] for requester, _ in ends)
        by_responder = sum(responder["repeated_packets"] for _, responder in ends)
        naks = sum(end["sequence_naks"] for both in ends for end in both)
        expected.append((capture, by_requester, by_responder, naks))
    equal("retransmissions", rows, expected)
    if not any(row[1] + row[2] for row in rows):
        sys.exit("the lossy sample has retransmissions")


def compare_registered(rdmascope, rows):
    expected = []
    for capture in CAPTURES:
        sums = defaultdict(lambda: [0] * 5)
        for line in lines(rdmascope, "transactions", capture):
            if line["call"] is None:
                continue
            entry = sums[line["name"]]
            entry[0] += 1
            for at, chunks in [(1, "read_chunks"), (3, "write_chunks")]:
                segments = [segment for chunk in line["call"][chunks] for segment in chunk["segments"]]
                entry[at] += len(segments)
                entry[at + 1] += sum(segment["length"] for segment in segments)
        # Of NFSv3 the principal operation is the procedure.
        expected += [(capture, name, *entry) for name, entry in sorted(sums.items())]
    equal("registered", rows, expected)


def compare_broken(rows):
    # `rdmascope regress samples` holds these against what is found.
    expected = []
    for capture in CAPTURES:
        text = (ROOT / "samples" / capture).with_suffix(".expected.jsonl").read_text(encoding="utf-8")
        first_frames = defaultdict(list)
        for line in map(json.loads, text.splitlines()):
            if line["type"] == "finding" and line["verdict"] == "stands":
                first_frames[line["level"], line["rule"]].append(line["frames"][0] if line["frames"] else None)
        for (level, rule), frames in sorted(first_frames.items()):
            seen = [frame for frame in frames if frame is not None]
            expected.append((capture, level, rule, len(frames), min(seen, default=None)))
    equal("broken", rows, expected)


def main():
    rdmascope = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for capture in CAPTURES:
            os.symlink(ROOT / "samples" / capture, capture)
        environment = os.environ | {"PATH": f"{rdmascope.parent}:{os.environ['PATH']}"}
        for block in blocks("sh"):
            subprocess.run(["sh", "-e", "-c", block], check=True, env=environment)
        names = {}
        for block in blocks("python"):
            exec(compile(block, "docs/parquet.md", "exec"), names)
        compare_latencies(rdmascope, names["latencies"].fetchall())
        compare_retransmissions(rdmascope, names["retransmissions"].fetchall())
        compare_registered(rdmascope, names["registered"].fetchall())
        compare_broken(names["broken"].fetchall())
    print("The examples find what rdmascope says itself.")


if __name__ == "__main__":
    main()
