"""Agents for acceptance tests, one driver per gateway behind one protocol: real clients of a hub in its own process."""
