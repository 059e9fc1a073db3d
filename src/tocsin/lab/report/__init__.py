"""The report of an experiment: its document, its HTML page and where it is stored."""
