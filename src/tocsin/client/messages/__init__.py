"""Messages of an agent: sent, received, worked on, and settled."""
