"""The doors of a hub. Each turns what comes in into commands and a caller, and replies back into its own language.

All are thin: one authority says who calls, one exchange decides, one catalogue names what is wrong.
"""
