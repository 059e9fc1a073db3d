"""Benchmark of the operations at their limits: how long each of them holds the event loop."""
