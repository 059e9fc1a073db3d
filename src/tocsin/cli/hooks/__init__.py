"""Inbox checks in coding agents, and the commit guard in git: `tocsin hooks`."""
