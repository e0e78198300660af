"""Merges many small files: one file for each day of a table, or more if its size requires it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmascope_fleet.questions import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(spark: SparkSession, dataset: str, output: str, days: list[str]) -> int:
    """Rewrites days of a dataset to another folder, partitioned only by day; `site` and `capture` become columns.

    Without `days`, all days are written. An existing day is replaced. Returns the number of rows.
    """
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", False)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    rows = 0
    for table in TABLES:
        found = spark.read.parquet(f"{dataset}/{table}")
        if days:
            found = found.where(found.day.isin(days))
        rows += found.count()
        # The advised partition size determines the number of files for a day, which is usually one.
        written = found.hint("rebalance", "day").sortWithinPartitions("day", "site", "capture")
        written.write.mode("overwrite").option("compression", "zstd").partitionBy("day").parquet(f"{output}/{table}")
    return rows
