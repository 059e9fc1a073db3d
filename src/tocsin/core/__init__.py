"""Decision logic of a project: a command, its caller and the time in; a reply and events out.

Nothing in this package reads a clock, draws a random number, opens a file or a socket, or waits. The same code runs
live in the hub, for millions of simulated steps in the tests, and inside Spark.
"""
