"""Escalations: raise an unresolved message or wait, then notify the directors, then the humans."""
