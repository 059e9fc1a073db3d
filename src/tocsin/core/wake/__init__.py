"""Wakes: starting an agent that has no live session because a message waits for it."""
