"""Message format: envelopes, payload schemas, type contracts, priorities and protocol versions."""
