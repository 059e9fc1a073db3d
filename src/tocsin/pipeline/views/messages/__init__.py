"""Views of messages by the time of their acceptance: outcomes, latencies, retries and queues."""
