"""Wakers: the programs and webhooks that start an agent which has no live session."""
