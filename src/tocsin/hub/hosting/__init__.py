"""The host of one project: decisions, group commit, timers, projections and recovery."""
