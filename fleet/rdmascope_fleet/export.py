"""Exports captures to tables: Spark tasks run the program on them."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkFiles

from rdmascope_fleet import Refused
from rdmascope_fleet.captures import Ring, listed, rings
from rdmascope_fleet.places import Here, local, place_of

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

PROGRAM = "rdmascope"
PACKAGE = Path(__file__).parent
# Matches the partitions of all days.
DAYS = "day=*"
# The most bytes of small captures that one task exports: less than a second of work.
SHARE = 16_000_000


@dataclass(frozen=True)
class Settings:
    """The settings shared by all tasks."""

    output: str
    # The path of the program on every worker; None if it is shipped with the job.
    program: str | None
    # Seconds after which the program is killed.
    timeout: float
    # The most attempts for a capture.
    tries: int
    # Further options for `rdmascope export parquet`.
    options: tuple[str, ...]
    # Properties of the Hadoop configuration.
    properties: dict[str, str]


@dataclass(frozen=True)
class Done:
    """The result of exporting a capture."""

    site: str
    capture: str
    files: int
    size: int
    seconds: float
    # The part of these seconds in which the program ran.
    program_seconds: float
    # The reason why it could not be read, or not to its end.
    error: str | None


@dataclass(frozen=True)
class Bill:
    """The cost and the result of an export."""

    captures: int
    damaged: int
    files: int
    size: int
    rows: int
    seconds: float
    task_seconds: float
    program_seconds: float

    def lines(self) -> Iterator[str]:
        """The bill as text."""
        yield f"{self.captures} captures in {self.files} files, {self.damaged} of them damaged"
        yield f"{self.size / 1e6:.1f} MB in, {self.rows} rows out"
        yield f"{self.seconds:.1f} s, {self.task_seconds:.1f} s in tasks, {self.program_seconds:.1f} s in the program"


def export(spark: SparkSession, source: str, settings: Settings, program: str | None, show: bool) -> tuple[Bill, list[Done]]:
    """Exports all captures at `source`. `program` is a file to ship with the job."""
    context = spark.sparkContext
    began = time.monotonic()
    found = rings(listed(spark, source))
    twice = [f"{site}/{name}" for (site, name), count in Counter((ring.site, ring.name) for ring in found).items() if count > 1]
    if twice:
        raise Refused(f"{twice[0]}: two folders called {twice[0].split('/')[0]} have a capture of this name")
    if not found:
        raise Refused(f"{source}: the folder contains no captures (pcap, pcapng or ERF, also compressed)")
    ship(context, program)
    # A large capture that starts late would delay the end of the job.
    found.sort(key=lambda ring: ring.size, reverse=True)
    bytes_done = context.accumulator(0)
    captures_done = context.accumulator(0)

    def run(ring: Ring) -> Done:
        done = export_ring(ring, settings)
        bytes_done.add(ring.size)
        captures_done.add(1)
        return done

    with Progress(captures_done, bytes_done, len(found), sum(ring.size for ring in found), show):
        shares = together(found)
        done = context.parallelize(shares, len(shares)).flatMap(lambda share: [run(ring) for ring in share]).collect()
    seconds = time.monotonic() - began
    return bill(spark, settings.output, done, seconds), done


def together(found: list[Ring]) -> list[list[Ring]]:
    """Assigns captures, sorted by size with the largest first, to tasks: one large capture, or several small ones.

    A task costs a few milliseconds, as much as a small capture.
    """
    shares: list[list[Ring]] = []
    size = SHARE
    for ring in found:
        if size + ring.size > SHARE:
            shares.append([])
            size = 0
        shares[-1].append(ring)
        size += ring.size
    return shares


def bill(spark: SparkSession, output: str, done: list[Done], seconds: float) -> Bill:
    """Computes the bill. Rows and errors are those in the table `captures`."""
    keys = spark.createDataFrame([(one.site, one.capture) for one in done], "site string, capture string")
    table = spark.read.parquet(f"{output}/captures").join(keys, ["site", "capture"])
    [total] = table.selectExpr("coalesce(sum(rows), 0) AS rows", "count(error) AS damaged").collect()
    return Bill(
        captures=len(done),
        damaged=int(total.damaged),
        files=sum(one.files for one in done),
        size=sum(one.size for one in done),
        rows=int(total.rows),
        seconds=seconds,
        task_seconds=sum(one.seconds for one in done),
        program_seconds=sum(one.program_seconds for one in done),
    )


def ship(context: SparkContext, program: str | None) -> None:
    """Ships this package to the workers, and the program if it is given."""
    # spark-submit ships the files of --py-files itself. A second file of the same name is an error.
    given = context.getConf().get("spark.submit.pyFiles", "") or ""
    if PACKAGE.is_dir() and not any(file.endswith(f"{PACKAGE.name}.zip") for file in given.split(",")):
        context.addPyFile(str(archive()))
    if program is not None:
        context.addFile(program)


@cache
def archive() -> Path:
    """This package as a file. It exists as long as this process, because workers that start later also fetch it."""
    folder = Path(tempfile.mkdtemp(prefix="rdmascope-fleet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(folder / "rdmascope_fleet.zip", "w") as file:
        for module in sorted(PACKAGE.glob("*.py")):
            file.write(module, f"{PACKAGE.name}/{module.name}")
    return folder / "rdmascope_fleet.zip"


def export_ring(ring: Ring, settings: Settings) -> Done:
    """Exports a capture on a worker. If the program fails, it is run again; if that does not help, a row of `captures` has the reason."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rdmascope-fleet-") as scratch:
        task = Task(ring, settings, Path(scratch))
        error = task.attempt([])
        for _ in range(1, settings.tries):
            if error is None or task.is_written:
                break
            error = task.attempt([])
        if not task.is_written:
            unread = task.attempt(["--unread", error or "no tables were written"])
            if not task.is_written:
                # No row at all: the program cannot run here, or nothing can be written. Another
                # worker may succeed.
                raise RuntimeError(f"{ring.site}/{ring.name}: {unread}")
        seconds = time.monotonic() - began
        size = sum(file.size for file in ring.files)
        return Done(ring.site, ring.name, len(ring.files), size, seconds, task.program_seconds, error)


class Task:
    """The export of one capture."""

    def __init__(self, ring: Ring, settings: Settings, scratch: Path) -> None:
        self.ring = ring
        self.settings = settings
        self.place = place_of(settings.output, settings.properties)
        self.scratch = scratch
        self.program_seconds = 0.0
        self.is_written = False

    def attempt(self, more: list[str]) -> str | None:
        """Runs the program once. Returns the error, if any."""
        ring, settings = self.ring, self.settings
        here = local(settings.output)
        output = Path(here) if here is not None else self.scratch / "tables"
        began = time.time_ns()
        try:
            files = [file.path for file in ring.files] if more else self.fetched()
            started = time.monotonic()
            try:
                command = [self.program(), "export", "parquet", "--quiet", "--output", str(output)]
                command += ["--site", ring.site, "--capture", ring.name, *settings.options, *more, "--", *files]
                ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=settings.timeout)
            finally:
                self.program_seconds += time.monotonic() - started
            said = ended.stderr.strip().removeprefix("rdmascope: ")
            error = None if ended.returncode == 0 else said or f"ended with status {ended.returncode}"
            self.is_written = self.has_row(output, began)
            if here is None and self.is_written:
                self.hand_over(output)
        except subprocess.TimeoutExpired:
            error = f"not done after {settings.timeout:g} s"
        except Exception as trouble:  # Including any Java exception: one capture must not stop the others.
            self.is_written = False
            error = str(trouble).splitlines()[0] if str(trouble) else repr(trouble)
        return error

    def program(self) -> str:
        if self.settings.program is not None:
            return self.settings.program
        shipped = Path(SparkFiles.get(PROGRAM))
        if not os.access(shipped, os.X_OK):
            shipped.chmod(0o755)
        return str(shipped)

    def fetched(self) -> list[str]:
        """The files of the capture, as local paths."""
        folder = self.scratch / "captures"
        folder.mkdir(exist_ok=True)
        place = place_of(self.ring.files[0].path, self.settings.properties)
        return [str(place.fetch(file.path, folder)) for file in self.ring.files]

    def rows_at(self, output: str, days: str = DAYS, table: str = "captures") -> str:
        """The folder of the capture in a table."""
        return f"{output}/{table}/{days}/site={escaped(self.ring.site)}/capture={escaped(self.ring.name)}"

    def has_row(self, output: Path, since: int) -> bool:
        """Whether the program has written the row of the capture since then. The row is the last file that it writes."""
        files = Here().matches(self.rows_at(str(output)) + "/part-0.parquet")
        return any(Path(file).stat().st_mtime_ns >= since - 20_000_000 for file in files)

    def hand_over(self, output: Path) -> None:
        """Copies the tables to a Hadoop file system, and removes those of another day."""
        to = self.settings.output.rstrip("/")
        # The row of `captures` is written last.
        files = sorted(output.glob("*/*/*/*/*.parquet"), key=lambda file: file.relative_to(output).parts[0] == "captures")
        for file in files:
            table, day, *_ = parts = file.relative_to(output).parts
            self.place.put(file, "/".join([to, *parts]))
            for other in self.place.matches(self.rows_at(to, DAYS, table)):
                if f"/{table}/{day}/" not in other:
                    self.place.remove(other)


def escaped(name: str) -> str:
    """Escapes a name for a path, like cli/src/export/parquet/partition.rs."""
    kept = (letter if letter.isalnum() or letter in "-_." else "".join(f"%{byte:02X}" for byte in letter.encode()) for letter in name)
    return "".join(kept)


class Progress:
    """A progress line on a terminal, removed at the end."""

    def __init__(self, captures: Accumulator[int], size: Accumulator[int], of: int, of_size: int, show: bool) -> None:
        self.say: Callable[[], str] = lambda: f"{captures.value} of {of} captures, {size.value / 1e6:.0f} of {of_size / 1e6:.0f} MB"
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True) if show and sys.stderr.isatty() else None

    def run(self) -> None:
        while not self.over.wait(0.5):
            print(f"\r\x1b[K{self.say()}", end="", file=sys.stderr, flush=True)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> None:
        if self.thread:
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.over.set()
        if self.thread:
            self.thread.join()


def as_dict(done: Done) -> dict[str, object]:
    """The result of a capture, for JSON."""
    return asdict(done)
