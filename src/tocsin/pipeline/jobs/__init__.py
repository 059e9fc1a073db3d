"""Jobs over all layers: run, stream, refresh, verify, status, and writing the extract."""
