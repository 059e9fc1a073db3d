"""Views of escalations, leases, threads and sessions."""
