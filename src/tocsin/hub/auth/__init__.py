"""Authentication: tokens of agents, their permissions, browser sessions and signatures.

`tokens` defines tokens, `store` keeps their hashes, `authority` checks and changes them, `administration` runs changes
off the event loop, `browser_sessions` and `sign_in_links` are for the dashboard, and `signatures` checks signed bodies.
Nothing here depends on a transport: every gateway uses the same authority.
"""
