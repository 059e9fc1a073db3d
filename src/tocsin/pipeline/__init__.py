"""The data pipeline on Spark: segments in; tables, advice and reports out."""
