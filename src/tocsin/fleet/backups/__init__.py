"""Backups of projects in folders: making, checking, packing and restoring them."""
