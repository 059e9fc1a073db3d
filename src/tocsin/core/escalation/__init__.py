"""Escalations: raising unresolved messages, waits and alerts, then notifying directors, then humans."""
