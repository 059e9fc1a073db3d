"""The durable journal: what the exchange decided, made to last, and everything that is read back from it.

One protocol (`base`), two implementations (`sqlite`, `postgres`). The journal knows events as bytes with a sequence
range; tables, history and segments are projections that follow it. It never decides anything.
"""
