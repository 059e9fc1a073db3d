"""Storage of the tables: manifests, data files, writing, compaction and retention."""
