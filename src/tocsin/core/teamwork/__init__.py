"""Requests, approvals, discussions, topics, escalations and health alerts."""
