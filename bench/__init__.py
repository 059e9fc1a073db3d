"""Figures: what things cost, printed and never asserted."""
