"""`make demo`: a team of agents on a real hub, its dashboard, and the tables and report made from its history."""
