"""`make demo`: a simulated team on a real hub for about a minute, followed by a summary and the dashboard."""
