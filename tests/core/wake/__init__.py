"""Tests of wakes."""
