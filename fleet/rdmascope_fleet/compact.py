"""Merges small files: one file per day and table, or several if the table is large."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmascope_fleet.questions import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(spark: SparkSession, dataset: str, output: str, days: list[str]) -> int:
    """Rewrites days of a dataset to another folder, partitioned only by day; `site` and `capture` become columns.

    Rewrites all days by default, and replaces days that exist there. Returns the number of rows.
    """
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", False)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    rows = 0
    for table in TABLES:
        found = spark.read.parquet(f"{dataset}/{table}")
        if days:
            found = found.where(found.day.isin(days))
        rows += found.count()
        # Spark splits a day by its advisory partition size, usually into one file.
        written = found.hint("rebalance", "day").sortWithinPartitions("day", "site", "capture")
        written.write.mode("overwrite").option("compression", "zstd").partitionBy("day").parquet(f"{output}/{table}")
    return rows
