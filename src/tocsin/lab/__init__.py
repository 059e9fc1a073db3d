"""The lab: recorded history, or a scenario, replayed through the real exchange under other policies.

Inputs from outside the bus (sends, sessions, how agents handled their messages and how long it took) are taken from
recorded events; everything that the bus decides is decided again. The lab reads the pipeline's tables, segments or a
journal and needs no hub. Only the command line uses the lab.
"""
