"""Leases on named resources and path patterns."""
