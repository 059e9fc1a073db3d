"""Seeded random teams on the real exchange, in virtual time, with everything checked after every step."""
