"""The exchange: commands and time in, replies and events out.

Nothing in this package reads a clock, draws a random number, opens a file or a socket, or waits. The same code runs
live in the hub, for millions of simulated steps in the tests, and inside Spark.
"""
