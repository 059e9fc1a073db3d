"""Who you are: tokens of agents, what they grant, and signatures on what is sent.

`tokens` says what a token is, `store` keeps their hashes, `authority` decides, `signatures` checks that a body is what
its sender signed. Nothing here knows a transport: every gateway asks the same authority.
"""
