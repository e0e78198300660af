"""`python -m rdmascope_fleet`, or the main file of spark-submit."""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rdmascope_fleet import Refused, questions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = """\
examples:
  python -m rdmascope_fleet export /captures --output /dataset
  python -m rdmascope_fleet export hdfs:///captures/2025-11-21 --output hdfs:///dataset
  python -m rdmascope_fleet ask slow_servers --dataset /dataset
  python -m rdmascope_fleet ask --list
  python -m rdmascope_fleet compact --dataset /dataset --output /compact --day 2025-11-21
  spark-submit --py-files rdmascope_fleet.zip main.py export hdfs:///captures --output hdfs:///dataset --program ./rdmascope
"""


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rdmascope-fleet", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)

    export = commands.add_parser("export", help="export captures to a dataset in Spark tasks")
    export.add_argument("source", help="folder of captures, in any Hadoop file system; the site of a capture is the name of its folder")
    export.add_argument("-o", "--output", required=True, help="folder of the dataset")
    export.add_argument("--program", help="rdmascope binary to ship with the job [default: the one on PATH]")
    export.add_argument("--on-workers", metavar="PATH", help="path of rdmascope on every worker; it is then not shipped")
    export.add_argument("--timeout", type=float, default=3600, metavar="SECONDS", help="time limit of the program for one capture [default: 3600]")
    export.add_argument("--tries", type=int, default=2, metavar="NUMBER", help="attempts for each capture in its task [default: 2]")
    export.add_argument("--option", action="append", default=[], metavar="WORD", help="option for `rdmascope export parquet`, such as --option=--no-icrc")
    export.add_argument("--bill", metavar="FILE", help="write the bill and the result of each capture as JSON")
    export.add_argument("-q", "--quiet", action="store_true", help="show no progress")

    ask = commands.add_parser("ask", help="run a query on a dataset")
    ask.add_argument("question", nargs="?", help="name of a question, or an SQL file")
    ask.add_argument("--dataset", help="folder of the dataset, or of the output of compact")
    ask.add_argument("--engine", choices=["spark", "duckdb"], default="spark", help="query engine [default: spark]")
    ask.add_argument("--list", action="store_true", help="list the questions")

    compact = commands.add_parser("compact", help="rewrite days of a dataset in few files")
    compact.add_argument("--dataset", required=True, help="folder of the dataset")
    compact.add_argument("-o", "--output", required=True, help="folder for the compact dataset")
    compact.add_argument("--day", action="append", default=[], metavar="DAY", help="day to write [default: all]")

    for command in (export, ask, compact):
        command.add_argument("--master", help="Spark master [default: that of spark-submit, or local[*]]")
        command.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="Spark setting")
    return parser.parse_args(words)


def settings_of(chosen: argparse.Namespace) -> dict[str, str]:
    """The Spark settings from the command line."""
    pairs = (setting.partition("=") for setting in chosen.conf)
    return {key: value for key, _, value in pairs}


def session(master: str | None, settings: dict[str, str]) -> SparkSession:
    """A Spark session with the given configuration, by default on this machine."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    conf = SparkConf()
    for key, value in settings.items():
        conf.set(key, value)
    if master is not None or not conf.contains("spark.master"):
        conf.setMaster(master or "local[*]")
    # By default the workers run the same Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf.setIfMissing("spark.ui.showConsoleProgress", "false")
    # Over TCP a task waits some 40 ms for Python's acknowledgement (Nagle's algorithm), which is
    # more than a small capture takes. Spark versions without this setting keep using TCP.
    conf.setIfMissing("spark.python.unix.domain.socket.enabled", "true")
    if conf.get("spark.master", "").startswith("local"):
        conf.setIfMissing("spark.ui.enabled", "false")
        conf.setIfMissing("spark.driver.bindAddress", "127.0.0.1")
        conf.setIfMissing("spark.driver.host", "127.0.0.1")
    spark = SparkSession.builder.appName("rdmascope-fleet").config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def export(chosen: argparse.Namespace) -> None:
    from rdmascope_fleet.export import Settings, as_dict
    from rdmascope_fleet.export import export as run

    program = chosen.program or shutil.which("rdmascope")
    if chosen.on_workers is not None:
        program = None
    elif program is None:
        raise Refused("rdmascope is not on PATH: give its path with --program, or with --on-workers if the workers have it")
    elif Path(program).name != "rdmascope":
        raise Refused(f"{program}: a shipped program must be named rdmascope")
    with session(chosen.master, settings_of(chosen)) as spark:
        hadoop = {name.removeprefix("spark.hadoop."): value for name, value in spark.sparkContext.getConf().getAll() if name.startswith("spark.hadoop.")}
        settings = Settings(chosen.output, chosen.on_workers, chosen.timeout, chosen.tries, tuple(chosen.option), hadoop)
        bill, done = run(spark, chosen.source, settings, program, not chosen.quiet)
    for line in bill.lines():
        print(line)
    if chosen.bill:
        told = {"bill": vars(bill), "captures": [as_dict(one) for one in done]}
        Path(chosen.bill).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def ask(chosen: argparse.Namespace) -> None:
    if chosen.list:
        for name in questions.names():
            print(f"{name:16} {questions.summary(name)}")
        return
    if chosen.question is None or chosen.dataset is None:
        raise Refused("a question and --dataset are needed; --list lists the questions")
    try:
        questions.text(chosen.question)
    except OSError as error:
        raise Refused(f"{chosen.question}: no such question, and no file: --list lists the questions") from error
    if chosen.engine == "duckdb":
        columns, rows = questions.by_duckdb(chosen.dataset, chosen.question)
    else:
        with session(chosen.master, settings_of(chosen)) as spark:
            columns, rows = questions.by_spark(spark, chosen.dataset, chosen.question)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(columns)
    table.writerows(rows)


def compact(chosen: argparse.Namespace) -> None:
    from rdmascope_fleet.compact import compact as run

    began = time.monotonic()
    with session(chosen.master, settings_of(chosen)) as spark:
        rows = run(spark, chosen.dataset, chosen.output, chosen.day)
    print(f"{rows} rows in {time.monotonic() - began:.1f} s")


def main(words: list[str] | None = None) -> int:
    """Runs the command."""
    chosen = arguments(words)
    try:
        {"export": export, "ask": ask, "compact": compact}[chosen.command](chosen)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
