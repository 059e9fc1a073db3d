"""Messages: sending, delivery, settlement, recall, expiry and dead letters."""
