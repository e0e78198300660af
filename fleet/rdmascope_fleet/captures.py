"""Which files are one capture, and which captures there are."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As cli/src/captures.rs has them.
EXTENSION = r"(?:pcap|pcapng|cap|erf)"
COMPRESSION = re.compile(r"\.(?:gz|zst)$", re.IGNORECASE)

# How rotated files are named; cli/src/export/parquet/rings.rs explains it.
BEHIND = re.compile(rf"(?P<ring>.+\.{EXTENSION})(?P<number>\d+)", re.IGNORECASE)
WITHIN = [
    re.compile(rf"(?P<stem>.+)_(?P<number>\d{{5,}})_\d{{14}}(?P<extension>\.{EXTENSION})", re.IGNORECASE),
    re.compile(rf"(?P<stem>.+)_\d{{14}}_(?P<number>\d{{5,}})(?P<extension>\.{EXTENSION})", re.IGNORECASE),
    re.compile(rf"(?P<stem>.+)-(?P<number>\d{{5,6}})(?P<extension>\.{EXTENSION})", re.IGNORECASE),
]
CAPTURE = re.compile(rf".+\.{EXTENSION}\d*", re.IGNORECASE)


@dataclass(frozen=True)
class File:
    """A file of a capture."""

    path: str
    size: int


@dataclass(frozen=True)
class Ring:
    """A capture: a file, or rotated files of one place in the order of their numbers."""

    site: str
    name: str
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.size for file in self.files)


def split(path: str) -> tuple[str, str]:
    """The folder of a path, and the name in it."""
    folder, _, name = path.rpartition("/")
    return folder, name


def is_capture(path: str) -> bool:
    """Whether a file is a capture by its name. Those that begin with a dot are unfinished or hidden."""
    _, name = split(path)
    return not name.startswith(".") and CAPTURE.fullmatch(COMPRESSION.sub("", name)) is not None


def numbered(name: str) -> tuple[str, bool, int] | None:
    """The ring that an uncompressed file belongs to by its name, whether its first file has no number, and the number of this one."""
    if match := BEHIND.fullmatch(name):
        return match["ring"], True, int(match["number"])
    for form in WITHIN:
        if match := form.fullmatch(name):
            return match["stem"] + match["extension"], False, int(match["number"])
    return None


def rings(files: Iterable[File]) -> list[Ring]:
    """Puts files together that are one capture. The site is the name of the folder."""
    found: defaultdict[tuple[str, str, bool | None], list[tuple[int, str, File]]] = defaultdict(list)
    others = []
    # A file and its compressed copy are two captures. The compressed ones come last.
    seen = set()
    for file in sorted(files, key=lambda file: (COMPRESSION.search(file.path) is not None, file.path)):
        folder, name = split(file.path)
        whole = COMPRESSION.sub("", name)
        ring = numbered(whole)
        if ring is None or (folder, whole) in seen:
            others.append(file)
            continue
        seen.add((folder, whole))
        found[folder, ring[0], ring[1]].append((ring[2], file.path, file))
    for file in others:
        folder, name = split(file.path)
        whole = COMPRESSION.sub("", name)
        is_first = (folder, whole) not in seen
        seen.add((folder, whole))
        # tcpdump gives the first file no number.
        key = (folder, whole, True) if is_first and (folder, whole, True) in found else (folder, name, None)
        found[key].append((0, file.path, file))
    return [
        Ring(split(folder)[1], name, tuple(file for *_, file in sorted(members)))
        for (folder, name, _), members in sorted(found.items(), key=lambda item: (item[0][0], item[0][1]))
    ]


def listed(spark: SparkSession, path: str) -> list[File]:
    """The captures at a path of any file system that Spark reads, in folders of folders too. No content is read."""
    found = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    rows = found.select("path", "length").collect()
    return [File(row.path, row.length) for row in rows if is_capture(row.path)]
