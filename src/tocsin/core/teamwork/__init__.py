"""Requests, approvals, discussions, topics and health alerts."""
