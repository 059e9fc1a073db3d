"""Replays of a trace: the open loop and the closed loop."""
