"""Commands made from the table of operations: their parameters, and the messages that they send."""
