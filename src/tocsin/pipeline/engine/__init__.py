"""Spark session and the Java runtime that it uses."""
