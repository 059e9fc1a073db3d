"""The lab: history replayed through the very same exchange, under other policies.

What came from outside (sends, sessions, what agents did with what they were offered, and how long it took them) is
taken from recorded events; everything that the bus decides is decided anew. The lab reads what the pipeline and the
journal leave behind and knows no hub; nothing but the command line knows the lab.
"""
