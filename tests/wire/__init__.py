"""Tests of the table of operations and of the texts made from replies."""
