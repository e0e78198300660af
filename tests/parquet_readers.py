#!/usr/bin/env python3
"""Runs the examples of docs/parquet.md and compares their results with `rdmascope … --format jsonl`.

    tests/parquet_readers.py RDMASCOPE        requires the packages duckdb, polars and pyspark, and Java for the last

Without pyspark or Java, the examples for Spark are skipped with a message.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CAPTURES = ["nfs3-basic.pcap", "nfs3-lossy.pcap"]


def page():
    return (ROOT / "docs/parquet.md").read_text(encoding="utf-8")


def blocks(language, text):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def examples(reader):
    """The code blocks below the heading of a reader."""
    section = re.split(rf"^### {reader}$", page(), flags=re.MULTILINE)[1]
    return blocks("python", re.split(r"^##", section, flags=re.MULTILINE)[0])


def fetched(result):
    """The rows of a result of any reader."""
    for method in ["fetchall", "rows", "collect"]:
        if hasattr(result, method):
            return [tuple(row) for row in getattr(result, method)()]
    sys.exit(f"no rows: {result}")


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
            if reported is None or abs(int(value) - reported) > reported / 1000:
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
        # For NFSv3, the principal operation is the procedure.
        expected += [(capture, name, *entry) for name, entry in sorted(sums.items())]
    equal("registered", rows, expected)


def compare_broken(rows):
    # `rdmascope regress samples` compares these files with the findings.
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


def compare_happened(rdmascope, rows):
    expected = []
    for capture in CAPTURES:
        durations = defaultdict(list)
        for line in lines(rdmascope, "events", capture):
            durations[line["event"]].append(line["duration_ns"])
        for event, known in sorted(durations.items()):
            longest = max((duration for duration in known if duration is not None), default=None)
            expected.append((capture, event, len(known), longest))
    equal("happened", rows, expected)


def nanoseconds(time):
    seconds, fraction = time.removesuffix("Z").split(".")
    since = datetime.fromisoformat(seconds) - datetime(1970, 1, 1)
    return since // timedelta(seconds=1) * 1_000_000_000 + int(fraction.ljust(9, "0"))


def compare_spans(rdmascope, rows):
    expected = []
    for capture in CAPTURES:
        for line in lines(rdmascope, "connections", capture):
            first, last = nanoseconds(line["first"]), nanoseconds(line["last"])
            span = timedelta(microseconds=last // 1000 - first // 1000)
            expected.append((capture, line["connection"], span, last - first))
    equal("spans", rows, expected)


def compare_compacted():
    """The SQL statements write few files with the same rows."""
    import duckdb

    for statement in blocks("sql", page()):
        duckdb.sql(statement)
    columns = "* EXCLUDE (day, site, capture), day, site, capture"
    many, few = (
        f"SELECT {columns} FROM read_parquet('{files}', hive_partitioning = true, hive_types = {{'day': VARCHAR}})"
        for files in ["dataset/transactions/*/*/*/*.parquet", "compact/transactions/*/*.parquet"]
    )
    equal("compacted files", len(list(Path("compact/transactions").glob("*/*.parquet"))), len(list(Path("dataset/transactions").iterdir())))
    for one, other in [(many, few), (few, many)]:
        equal("compacted rows", duckdb.sql(f"{one} EXCEPT ALL {other}").fetchall(), [])
    # The client's tracepoints count 265 in one of the two captures.
    equal("compacted", duckdb.sql(f"SELECT count(*) > 265 FROM ({few})").fetchall(), [(True,)])


def compare(reader, rdmascope):
    names = {}
    for block in examples(reader):
        exec(compile(block, f"docs/parquet.md, {reader}", "exec"), names)
    compare_latencies(rdmascope, fetched(names["latencies"]))
    compare_retransmissions(rdmascope, fetched(names["retransmissions"]))
    compare_registered(rdmascope, fetched(names["registered"]))
    compare_broken(fetched(names["broken"]))
    compare_happened(rdmascope, fetched(names["happened"]))
    compare_spans(rdmascope, fetched(names["spans"]))
    print(f"{reader}: the results equal those of rdmascope")


def main():
    rdmascope = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        # Files and folders that the commands of the page name.
        for place in [".", "captures", "node17", "hosts/node17"]:
            os.makedirs(place, exist_ok=True)
            for capture in CAPTURES:
                os.symlink(ROOT / "samples" / capture, Path(place, capture))
        environment = os.environ | {"PATH": f"{rdmascope.parent}:{os.environ['PATH']}"}
        for block in blocks("sh", page()):
            subprocess.run(["sh", "-e", "-c", block], check=True, env=environment)
        compare_compacted()
        compare("DuckDB", rdmascope)
        compare("Polars", rdmascope)
        if importlib.util.find_spec("pyspark") and shutil.which("java"):
            compare("Spark", rdmascope)
        else:
            print("SKIPPED: pyspark or Java is missing, so Spark's reading of the tables is not tested.")


if __name__ == "__main__":
    main()
