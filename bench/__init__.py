"""Benchmarks: figures that are printed and never asserted."""
