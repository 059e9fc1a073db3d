"""Storage of the tables: Delta tables and releases, data files, writing, compaction and retention."""
