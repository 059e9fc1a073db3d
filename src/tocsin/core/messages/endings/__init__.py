"""Ends of messages: expiry, recall, dead letters, and how long ended messages are kept."""
