"""`make demo`: a believable team on a real hub, for about a minute; then its history, told and shown."""
