"""Waits between agents: the wait-for graph, deadlocks and priority inheritance."""
