"""The durable journal of events, and the tables, history and segments that are derived from it.

One protocol (`base`), two implementations (`sqlite`, `postgres`). The journal stores events as bytes with a range of
sequence numbers. It makes no decisions.
"""
