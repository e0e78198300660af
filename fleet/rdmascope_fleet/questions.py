"""Queries on the whole fleet, in sql/. They run on both Spark and DuckDB."""

from __future__ import annotations

import glob
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Works also if the package is a zip file, as with spark-submit.
SQL = resources.files("rdmascope_fleet") / "sql"
TABLES = ["transactions", "operations", "messages", "packets", "connections", "findings", "events", "captures"]
# The columns in folder names. Their values are text, even if they look like numbers.
PARTITIONS = ["day", "site", "capture"]

Rows = tuple[list[str], list[tuple[Any, ...]]]


def names() -> list[str]:
    """The names of the questions."""
    return sorted(path.name.removesuffix(".sql") for path in SQL.iterdir() if path.name.endswith(".sql"))


def text(question: str) -> str:
    """The SQL of a question, given by its name or as a file."""
    path = SQL / f"{question}.sql" if question in names() else Path(question)
    return path.read_text(encoding="utf-8").strip().rstrip(";")


def summary(question: str) -> str:
    """The summary of a question: the comment at the beginning of the SQL."""
    lines = text(question).splitlines()
    return " ".join(line.removeprefix("--").strip() for line in lines[: next(i for i, line in enumerate(lines) if not line.startswith("--"))])


def by_spark(spark: SparkSession, dataset: str, question: str) -> Rows:
    """Runs a question on Spark."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", False)
    for table in TABLES:
        spark.read.parquet(f"{dataset}/{table}").createOrReplaceTempView(table)
    answer = spark.sql(text(question))
    return answer.columns, [tuple(row) for row in answer.collect()]


def by_duckdb(dataset: str, question: str) -> Rows:
    """Runs a question on DuckDB, on this machine."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for table in TABLES:
            connection.execute(view(dataset, table))
        answer = connection.execute(text(question))
        return [column[0] for column in answer.description], answer.fetchall()


def view(dataset: str, table: str) -> str:
    """The SQL that creates a DuckDB view of a table."""
    files = f"{dataset}/{table}/**/*.parquet"
    path = next(iter(glob.iglob(files, recursive=True)), "")
    types = ", ".join(f"'{name}': VARCHAR" for name in PARTITIONS if f"/{name}=" in path)
    quoted = files.replace("'", "''")
    return f"CREATE VIEW {table} AS FROM read_parquet('{quoted}', hive_partitioning = true, hive_types = {{{types}}}, union_by_name = true)"
