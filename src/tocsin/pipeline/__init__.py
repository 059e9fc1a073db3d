"""The data pipeline on Spark: segments in, tables that people look at out. It knows the event schema and the core."""
