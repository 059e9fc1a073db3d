"""Traces: recorded events turned into commands that can be replayed."""
