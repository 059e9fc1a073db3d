"""Metrics, health, telemetry, logs and the live feed."""
