"""The WebSocket gateway: one push session per socket, many operations per frame.

`gateway` accepts sockets and enforces their limits, `connection` serves one socket, `sessions` maps sessions to
sockets, `outbox` writes frames. The frames are defined in `tocsin.wire.socket`. The exchange decides every command.
"""
