"""Many small files become few: a file for a day of a table, or as many as its size asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rdmascope_fleet.questions import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(spark: SparkSession, dataset: str, output: str, days: list[str]) -> int:
    """Writes the days of a dataset anew to another folder, partitioned by day alone; `site` and `capture` are columns there.

    All days where none is named. A day that is there already is replaced. Returns how many rows that were.
    """
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", False)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    rows = 0
    for table in TABLES:
        found = spark.read.parquet(f"{dataset}/{table}")
        if days:
            found = found.where(found.day.isin(days))
        rows += found.count()
        # As many files as the advised size of a partition makes of a day, which mostly is one.
        written = found.hint("rebalance", "day").sortWithinPartitions("day", "site", "capture")
        written.write.mode("overwrite").option("compression", "zstd").partitionBy("day").parquet(f"{output}/{table}")
    return rows
