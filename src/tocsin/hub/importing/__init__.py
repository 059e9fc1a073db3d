"""Import of messages from other systems into a project that no hub serves."""
