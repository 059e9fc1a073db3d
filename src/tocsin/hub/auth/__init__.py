"""Authentication: tokens of agents, their permissions, browser sessions and signatures.

`tokens` defines tokens, `store` and the modules named `…_grants` keep their hashes, `verifier` checks them, `authority`
changes them, `administration` runs changes off the event loop, `browser_sessions` and `sign_in_links` are for the
dashboard, and `signatures` checks signed bodies.
Nothing here depends on a transport: every gateway uses the same authority.
"""
