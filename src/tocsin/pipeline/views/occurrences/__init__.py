"""Views of rare events by the time at which they happened."""
