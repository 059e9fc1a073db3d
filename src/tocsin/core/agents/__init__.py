"""Agents: registration, sessions, presence, attention and preemption."""
