"""Locations of captures and tables: local folders, or any file system with a Hadoop class."""

from __future__ import annotations

import glob
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlparse

from pyspark.find_spark_home import _find_spark_home


class Place(Protocol):
    """The operations of a file system that a task uses."""

    def fetch(self, path: str, folder: Path) -> Path:
        """The file at a path as a local file, copied to `folder` if it is not local."""

    def put(self, file: Path, path: str) -> None:
        """Copies a local file to a path and replaces the old file."""

    def matches(self, pattern: str) -> list[str]:
        """The paths that match."""

    def remove(self, path: str) -> None:
        """Removes a folder with its contents."""


def local(path: str) -> str | None:
    """The local path, if the path has no scheme or `file:`."""
    scheme = urlparse(path).scheme
    return path.removeprefix("file://").removeprefix("file:") if scheme in ("", "file") else None


def place_of(path: str, properties: dict[str, str]) -> Place:
    """The file system of a path. `properties` are the Hadoop configuration properties given to Spark."""
    return Here() if local(path) is not None else Hadoop(_jvm(), tuple(sorted(properties.items())))


class Here:
    """Folders with the same path on every worker: of one machine, or mounted on all."""

    def fetch(self, path: str, folder: Path) -> Path:
        return Path(local(path) or path)

    def put(self, file: Path, path: str) -> None:
        place = Path(local(path) or path)
        place.parent.mkdir(parents=True, exist_ok=True)
        # Readers skip names with a leading dot. The rename makes the file visible when it is
        # complete.
        unfinished = place.with_name(f".rdmascope-{os.getpid()}-{place.name}")
        shutil.copyfile(file, unfinished)
        unfinished.replace(place)

    def matches(self, pattern: str) -> list[str]:
        return glob.glob(local(pattern) or pattern)

    def remove(self, path: str) -> None:
        shutil.rmtree(local(path) or path, ignore_errors=True)


class Hadoop:
    """A Hadoop file system: HDFS, S3A, ABFS and so on."""

    def __init__(self, jvm: Any, properties: tuple[tuple[str, str], ...]) -> None:
        self._jvm = jvm
        self._configuration = jvm.org.apache.hadoop.conf.Configuration()
        for name, value in properties:
            self._configuration.set(name, value)

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._configuration), place

    def fetch(self, path: str, folder: Path) -> Path:
        system, place = self._at(path)
        copy = folder / str(place.getName())
        # Without an additional checksum file.
        system.copyToLocalFile(False, place, self._jvm.org.apache.hadoop.fs.Path(f"file://{copy}"), True)
        return copy

    def put(self, file: Path, path: str) -> None:
        system, place = self._at(path)
        parent = place.getParent()
        system.mkdirs(parent)
        # Readers skip names with a leading dot.
        unfinished = self._jvm.org.apache.hadoop.fs.Path(parent, f".rdmascope-{os.getpid()}-{place.getName()}")
        system.copyFromLocalFile(False, True, self._jvm.org.apache.hadoop.fs.Path(f"file://{file}"), unfinished)
        # A rename does not replace an existing file. If the task ends in between, the next attempt
        # writes the file again.
        system.delete(place, False)
        if not system.rename(unfinished, place):
            raise OSError(f"{path}: cannot be written")

    def matches(self, pattern: str) -> list[str]:
        system, place = self._at(pattern)
        return [str(status.getPath().toString()) for status in system.globStatus(place) or []]

    def remove(self, path: str) -> None:
        system, place = self._at(path)
        system.delete(place, True)


@cache
def _jvm() -> Any:
    """A Java process with Hadoop's classes. A Spark worker has none, and keeps this one for all its tasks."""
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

    jars = Path(_find_spark_home()) / "jars"
    [py4j] = jars.glob("py4j-*.jar")
    java = os.environ.get("JAVA_HOME")
    return JavaGateway.launch_gateway(
        jarpath=str(py4j),
        classpath=os.pathsep.join([os.environ.get("HADOOP_CONF_DIR", ""), f"{jars}/*"]).strip(os.pathsep),
        java_path=f"{java}/bin/java" if java else "java",
        enable_auth=True,
        die_on_exit=True,
    ).jvm
