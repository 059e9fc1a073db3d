"""Benchmark of Tocsin and comparable systems: one module per system, one interface, one harness."""
