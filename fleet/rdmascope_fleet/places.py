"""File systems for captures and tables: local folders, or any file system that Hadoop supports."""

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
    """The file system operations of a task."""

    def fetch(self, path: str, folder: Path) -> Path:
        """Returns a local path of the file. A remote file is copied to `folder`."""

    def put(self, file: Path, path: str) -> None:
        """Copies a local file to a path, and replaces an existing file."""

    def matches(self, pattern: str) -> list[str]:
        """The paths that match a pattern."""

    def remove(self, path: str) -> None:
        """Removes a folder with its content."""


def local(path: str) -> str | None:
    """The local path, if there is no scheme or the scheme is `file:`; otherwise None."""
    scheme = urlparse(path).scheme
    return path.removeprefix("file://").removeprefix("file:") if scheme in ("", "file") else None


def place_of(path: str, properties: dict[str, str]) -> Place:
    """The file system of a path. `properties` are the Hadoop properties from the Spark configuration."""
    return Here() if local(path) is not None else Hadoop(_jvm(), tuple(sorted(properties.items())))


class Here:
    """Folders with the same path on every worker: on one machine, or mounted on all."""

    def fetch(self, path: str, folder: Path) -> Path:
        return Path(local(path) or path)

    def put(self, file: Path, path: str) -> None:
        place = Path(local(path) or path)
        place.parent.mkdir(parents=True, exist_ok=True)
        # Readers skip names with a dot. The rename is atomic.
        unfinished = place.with_name(f".rdmascope-{os.getpid()}-{place.name}")
        shutil.copyfile(file, unfinished)
        unfinished.replace(place)

    def matches(self, pattern: str) -> list[str]:
        return glob.glob(local(pattern) or pattern)

    def remove(self, path: str) -> None:
        shutil.rmtree(local(path) or path, ignore_errors=True)


class Hadoop:
    """A file system of Hadoop: HDFS, S3A, ABFS and so on."""

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
        # Without a checksum file.
        system.copyToLocalFile(False, place, self._jvm.org.apache.hadoop.fs.Path(f"file://{copy}"), True)
        return copy

    def put(self, file: Path, path: str) -> None:
        system, place = self._at(path)
        parent = place.getParent()
        system.mkdirs(parent)
        # Readers skip names with a dot.
        unfinished = self._jvm.org.apache.hadoop.fs.Path(parent, f".rdmascope-{os.getpid()}-{place.getName()}")
        system.copyFromLocalFile(False, True, self._jvm.org.apache.hadoop.fs.Path(f"file://{file}"), unfinished)
        # A rename does not replace an existing file. If the task dies in between, the next attempt
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
    """A JVM of this process with the Hadoop classes. Spark workers have none, and keep this one for all their tasks."""
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
