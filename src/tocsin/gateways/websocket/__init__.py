"""The WebSocket gateway: one socket is one push session, spoken in frames of many operations.

`protocol` is what goes over the wire, `connection` one socket, `sessions` which socket has which session, `gateway` the
door with its limits. Everything that is decided is decided by the exchange.
"""
