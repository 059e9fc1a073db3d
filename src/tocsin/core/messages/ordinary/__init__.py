"""Prepared decisions on sends, receipts and acknowledgements: the short way of most messages.

The full decisions in `sending` and `settlement` are the definition. What is decided here is what they would decide: the
simulator compares reply, events and state of both ways at every step.
"""
