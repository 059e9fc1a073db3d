"""The table of operations: requests, replies, names and access rules, shared by every interface.

Pure data. `tocsin.wire.table` gathers the rows; `tocsin.hub.operations` has their handlers. HTTP, WebSocket, MCP, the
embedded bus, the SDK, the command line and the reference pages are derived from the rows.
"""
