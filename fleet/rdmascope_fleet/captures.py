"""Finds captures, and groups the files that form one capture."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same as in cli/src/captures.rs.
EXTENSION = r"(?:pcap|pcapng|cap|erf)"
COMPRESSION = re.compile(r"\.(?:gz|zst)$", re.IGNORECASE)

# Names of rotated files; see cli/src/export/parquet/rings.rs.
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
    """A capture: one file, or the rotated files of one folder in the order of their numbers."""

    site: str
    name: str
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        """The total size of its files in bytes."""
        return sum(file.size for file in self.files)


def split(path: str) -> tuple[str, str]:
    """The folder of a path, and the name in it."""
    folder, _, name = path.rpartition("/")
    return folder, name


def is_capture(path: str) -> bool:
    """Whether the name is that of a capture. Names that begin with a dot are unfinished or hidden files."""
    _, name = split(path)
    return not name.startswith(".") and CAPTURE.fullmatch(COMPRESSION.sub("", name)) is not None


def numbered(name: str) -> tuple[str, bool, int] | None:
    """The ring of an uncompressed file according to its name, whether the first file of the ring has no number, and the number of this file."""
    if match := BEHIND.fullmatch(name):
        return match["ring"], True, int(match["number"])
    for form in WITHIN:
        if match := form.fullmatch(name):
            return match["stem"] + match["extension"], False, int(match["number"])
    return None


def rings(files: Iterable[File]) -> list[Ring]:
    """Groups the files that form one capture. The site is the name of the folder."""
    found: defaultdict[tuple[str, str, bool | None], list[tuple[int, str, File]]] = defaultdict(list)
    others = []
    # A file and its compressed copy are two captures. Compressed files come last.
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
    """Lists the captures below a path, in any file system that Spark reads. No content is read."""
    found = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    rows = found.select("path", "length").collect()
    return [File(row.path, row.length) for row in rows if is_capture(row.path)]
