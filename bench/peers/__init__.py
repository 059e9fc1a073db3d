"""The same work for Tocsin and for what one would pick instead: one file per system, one protocol, one harness."""
