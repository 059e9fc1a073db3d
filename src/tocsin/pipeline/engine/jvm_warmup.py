"""A small Spark job that loads the classes that all jobs use, run by `java.py` to make the class-data archive."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["main"]


def main(folder: str, options: str) -> None:
    """Write, read, join and aggregate; the JVM writes the archive when it exits."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.local.dir", folder)
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    path = str(Path(folder) / "rows")
    rows = spark.range(1000).mapInArrow(lambda batches: batches, "id long")
    rows.withColumn("day", F.to_date(F.timestamp_micros("id"))).write.partitionBy("day").parquet(path)
    read = spark.read.schema("id long, day date").parquet(path)
    latest = read.groupBy((F.col("id") % 7).alias("key")).agg(F.max_by("id", "id").alias("id"), F.count("*"))
    read.join(latest, "id", "left").where(F.col("key").isNull()).orderBy("id").toPandas()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
