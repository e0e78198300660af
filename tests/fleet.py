#!/usr/bin/env python3
"""Runs the package fleet/ on a cluster of two workers, on 60 captures made from the samples.

    tests/fleet.py RDMASCOPE        requires the packages duckdb and pyspark, and Java

A worker is killed during the export. The tables must equal those of the export on one machine, row
for row. The questions must give the same answers on Spark and on DuckDB, before and after
compaction. A few captures are read from and written to a file system that only Hadoop's classes
support.
"""

import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "fleet"))
# The large sample would take as long as all others together.
SAMPLES = sorted(path for path in (ROOT / "samples").glob("*.pcap") if path.stat().st_size < 1_300_000)
CAPTURES = 60
NODES = 20
KILL_AFTER = 20
HOUR = 3600


def equal(what, found, expected):
    if found == expected:
        return
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        found, expected = next((one, other) for one, other in zip(found, expected, strict=True) if one != other)
    sys.exit(f"{what}:\n  found    {found}\n  expected {expected}")


def records(pcap):
    """The header and the records of a classic pcap file."""
    at, found = 24, []
    while at < len(pcap):
        [length] = struct.unpack_from("<I", pcap, at + 8)
        found.append(pcap[at : at + 16 + length])
        at += 16 + length
    return pcap[:24], found


def pcapng(packets, system):
    """The records as pcapng, which names the operating system of the capture (draft-ietf-opsawg-pcapng, section 4)."""

    def block(kind, body):
        length = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + length + body + length

    def padded(body):
        return body + bytes(-len(body) % 4)

    name = system.encode()
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + struct.pack("<HH", 3, len(name)) + padded(name)
    blocks = [block(0x0A0D0D0A, section), block(1, struct.pack("<HHI", 1, 0, 0))]
    for record in packets:
        seconds, micros, captured, length = struct.unpack_from("<IIII", record)
        at = seconds * 1_000_000 + micros
        head = struct.pack("<IIIII", 0, at >> 32, at & 0xFFFFFFFF, captured, length)
        blocks.append(block(6, head + padded(record[16:])))
    return b"".join(blocks)


def later(record, seconds):
    """The record, some seconds later."""
    [at] = struct.unpack_from("<I", record)
    return struct.pack("<I", at + seconds) + record[4:]


def make_captures(folder):
    """Writes each sample at many hours and two nodes; some as rings, some damaged. Returns the damaged ones."""
    samples = [records(path.read_bytes()) for path in SAMPLES]
    damaged = set()
    for number in range(CAPTURES):
        # Two nodes capture the same session: its client and its server.
        session = number // 2
        header, original = samples[session % len(samples)]
        packets = [later(record, session * HOUR) for record in original]
        node = folder / f"node{number % NODES:02}"
        node.mkdir(parents=True, exist_ok=True)
        name = f"{SAMPLES[session % len(samples)].stem}-{number:03}.pcap"
        if number % 10 == 3:
            # tcpdump -C after the ring has wrapped: the file with the first name has the latest
            # packets.
            size = len(packets) // 7 + 1
            pieces = [packets[at : at + size] for at in range(0, len(packets), size)]
            for place, piece in enumerate(pieces[1:] + pieces[:1]):
                (node / f"{name}{place or ''}").write_bytes(header + b"".join(piece))
        elif number % 10 == 5:
            (node / f"{name}ng").write_bytes(pcapng(packets, f"Linux 6.{1 + session % 2}"))
        elif number % 25 == 7:
            # An impossible record length in the middle.
            half = len(packets) // 2
            (node / name).write_bytes(header + b"".join(packets[:half]) + b"\xff" * 16 + b"".join(packets[half:]))
            damaged.add((node.name, name))
        elif number % 50 == 9:
            (node / name).write_bytes(b"no capture at all")
            damaged.add((node.name, name))
        else:
            (node / name).write_bytes(header + b"".join(packets))
    return damaged


def check_rings():
    """Checks the cases that the program is tested with."""
    from rdmascope_fleet.captures import File, rings

    lines = (ROOT / "fleet/tests/rings.txt").read_text(encoding="utf-8").splitlines()
    cases = [line.split() for line in lines if line and not line.startswith("#")]
    found = rings(File(path, 1) for _, *paths in reversed(cases) for path in reversed(paths))
    equal("rings", sorted([ring.name, *(file.path for file in ring.files)] for ring in found), sorted(cases))


def processes():
    """Parent and command line of all processes."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            found[int(entry.name)] = (int(parent), (entry / "cmdline").read_bytes())
        except OSError:
            pass
    return found


def worker_of(driver):
    """A worker among the descendants of a process."""
    found = processes()

    def is_below(pid):
        while pid in found and pid != driver:
            pid = found[pid][0]
        return pid == driver

    workers = [pid for pid, (_, command) in found.items() if b"CoarseGrainedExecutorBackend" in command and is_below(pid)]
    return min(workers, default=None)


def on_a_cluster(program, hosts, output):
    """Exports on a cluster of two workers and kills one of them meanwhile. Returns the bill."""
    bill = output.with_suffix(".json")
    command = [sys.executable, "-m", "rdmascope_fleet", "export", str(hosts), "--output", str(output), "--program", str(program)]
    command += ["--master", "local-cluster[2,1,1024]", "--bill", str(bill)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "fleet")}
    with subprocess.Popen(command, env=environment) as driver:
        killed = None
        while driver.poll() is None:
            done = len(list(output.glob("captures/*/*/*/*.parquet")))
            if killed is None and done >= KILL_AFTER:
                killed = worker_of(driver.pid)
                if killed is not None:
                    os.kill(killed, signal.SIGKILL)
                    print(f"killed a worker after {done} captures")
            time.sleep(0.05)
        equal("exit status of the export", driver.returncode, 0)
    if killed is None:
        sys.exit("no worker was killed: the export was too fast, or no worker process was found")
    return json.loads(bill.read_text(encoding="utf-8"))


def compare(one, other):
    """Compares all tables, row for row."""
    import duckdb

    from rdmascope_fleet.questions import TABLES, view

    rows = 0
    for table in TABLES:
        with duckdb.connect() as connection:
            for name, dataset in [("a", one), ("b", other)]:
                connection.execute(view(str(dataset), table).replace(f"VIEW {table} ", f"VIEW {name} "))
            [[in_one]] = connection.execute("SELECT count(*) FROM a").fetchall()
            [[in_other]] = connection.execute("SELECT count(*) FROM b").fetchall()
            equal(f"rows of {table}", in_other, in_one)
            if in_one == 0:
                sys.exit(f"{table}: nothing was compared")
            for this, that in [("a", "b"), ("b", "a")]:
                more = connection.execute(f"FROM {this} EXCEPT ALL FROM {that} LIMIT 1").fetchall()
                equal(f"{table}: rows in only one dataset", more, [])
            rows += in_one
    return rows


def plain(rows):
    """Rows with values of types that both engines share."""

    def value(cell):
        if isinstance(cell, Decimal):
            return float(cell)
        return cell.replace(tzinfo=None) if hasattr(cell, "tzinfo") else float(cell) if isinstance(cell, int) else cell

    return [tuple(value(cell) for cell in row) for row in rows]


def ask(spark, dataset, compacted):
    """Runs all questions on both engines and both layouts."""
    from rdmascope_fleet import questions

    for name in questions.names():
        columns, by_spark = questions.by_spark(spark, str(dataset), name)
        by_spark = plain(by_spark)
        equal(f"{name}: columns of DuckDB", questions.by_duckdb(str(dataset), name)[0], columns)
        equal(f"{name} by DuckDB", plain(questions.by_duckdb(str(dataset), name)[1]), by_spark)
        equal(f"{name} by DuckDB, compacted", plain(questions.by_duckdb(str(compacted), name)[1]), by_spark)
        equal(f"{name} by Spark, compacted", plain(questions.by_spark(spark, str(compacted), name)[1]), by_spark)
        if not by_spark:
            sys.exit(f"{name}: empty result")
        print(f"{name}: {len(by_spark)} rows")
    columns, rows = questions.by_duckdb(str(dataset), "kernels")
    equal("kernels", {row[columns.index("operating_system")] for row in rows}, {None, "Linux 6.1", "Linux 6.2"})
    # Both nodes have the same capture, so every transaction has a counterpart without a difference.
    columns, rows = questions.by_duckdb(str(dataset), "both_ends")
    equal("differences of equal captures", {row[columns.index("median_difference_ns")] for row in rows}, {0})


def by_hadoop(spark, program, hosts, folder):
    """Exports a node's captures from and to a file system that is no local folder."""
    from rdmascope_fleet.export import Settings, export

    properties = {f"fs.viewfs.mounttable.lab.link./{name}": f"file://{folder / name}" for name in ["in", "out"]}
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in properties.items():
        configuration.set(name, value)
    shutil.copytree(hosts / "node03", folder / "in/node03")
    (folder / "out").mkdir()
    settings = Settings("viewfs://lab/out", None, 600, 2, (), properties)
    for _ in range(2):
        bill, _ = export(spark, "viewfs://lab/in", settings, str(program), False)
    subprocess.run([program, "export", "parquet", folder / "in", "--sites", "--output", folder / "expected"], check=False)
    compare(folder / "expected", folder / "out")
    print(f"by Hadoop: {bill.captures} captures, {bill.rows} rows")


def by_spark_submit(program, hosts, folder):
    """Runs the commands of docs/fleet.md on a cluster of one worker."""
    import pyspark

    home = Path(pyspark.__file__).parent
    package = shutil.make_archive(folder / "rdmascope_fleet", "zip", ROOT / "fleet", "rdmascope_fleet")
    shutil.copytree(hosts / "node05", folder / "submitted/node05")
    command = [home / "bin/spark-submit", "--master", "local-cluster[1,1,1024]", "--py-files", package, ROOT / "fleet/main.py"]
    command += ["export", folder / "submitted", "--output", folder / "by-submit", "--program", program]
    environment = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    equal("status of spark-submit", (ran.returncode, ran.stderr[-2000:] if ran.returncode else ""), (0, ""))
    subprocess.run([program, "export", "parquet", folder / "submitted", "--sites", "--output", folder / "alone"], check=False)
    print(f"by spark-submit: {compare(folder / 'alone', folder / 'by-submit')} rows")


def what_makes_no_sense_is_refused(folder):
    """Invalid requests give one line and exit status 2."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "fleet")}
    for words, said in [(["ask"], "--list"), (["ask", "slowest", "--dataset", folder], "slowest: no such question, and no file: --list")]:
        ran = subprocess.run([sys.executable, "-m", "rdmascope_fleet", *words], env=environment, capture_output=True, text=True)
        equal(words[-1], (ran.returncode, ran.stderr.count("\n"), said in ran.stderr), (2, 1, True))


def by_a_program_that_dies(spark, program, hosts, folder):
    """Captures on which the program crashes or hangs are rows like others."""
    from rdmascope_fleet.export import Settings, export

    dies, hangs, *others = sorted(path.name for path in (hosts / "node02").iterdir())
    script = folder / "dying/rdmascope"
    script.parent.mkdir()
    script.write_text(
        f"""#!/bin/sh
        case "$*" in
        *--unread*) ;;
        *{dies}*) kill -KILL $$ ;;
        *{hangs}*) exec sleep 600 ;;
        esac
        exec {program} "$@"
        """,
        encoding="utf-8",
    )
    script.chmod(0o755)
    settings = Settings(str(folder / "dying/out"), str(script), 20, 2, (), {})
    bill, done = export(spark, str(hosts / "node02"), settings, None, False)
    errors = {one.capture: one.error for one in done if one.error}
    equal("a program that crashes", errors.pop(dies), "ended with status -9")
    equal("a program that hangs", errors.pop(hangs), "not done after 20 s")
    equal("captures of a node", (bill.captures, bill.damaged), (len(others) + 2, len(errors) + 2))
    print(f"with a program that crashes: {bill.captures} captures, {bill.damaged} rows with an error")


def main():
    program = Path(sys.argv[1]).resolve()
    check_rings()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hosts, one, fleet, compacted = (folder / part for part in ["hosts", "one", "fleet", "compacted"])
        damaged = make_captures(hosts)

        command = [program, "export", "parquet", hosts, "--sites", "--output", one]
        equal("status on one machine", subprocess.run(command, capture_output=True).returncode, 2)
        bill = on_a_cluster(program, hosts, fleet)
        told = {(capture["site"], capture["capture"]) for capture in bill["captures"] if capture["error"]}
        equal("damaged captures", told, damaged)
        equal("captures", (bill["bill"]["captures"], bill["bill"]["damaged"]), (CAPTURES, len(damaged)))
        print(f"equal: {compare(one, fleet)} rows")
        # Exporting a capture again replaces it.
        again = [program, "export", "parquet", hosts / "node04", "--site", "node04", "--output", fleet]
        subprocess.run(again, check=True)
        compare(one, fleet)

        by_spark_submit(program, hosts, folder)
        what_makes_no_sense_is_refused(folder)
        from rdmascope_fleet.__main__ import session
        from rdmascope_fleet.compact import compact

        # Little data: as many partitions as cores.
        with session("local[2]", {"spark.sql.shuffle.partitions": "2"}) as spark:
            print(f"compacted: {compact(spark, str(one), str(compacted), [])} rows")
            ask(spark, one, compacted)
            by_hadoop(spark, program, hosts, folder)
            by_a_program_that_dies(spark, program, hosts, folder)


if __name__ == "__main__":
    main()
