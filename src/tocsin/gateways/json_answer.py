"""Answers with a JSON body, written by the hub's own connection where there is one."""

from collections.abc import Callable
from typing import TypeAlias

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["WRITE_JSON", "JsonAnswer", "WriteJson"]

#: Key of a scope under which a connection of the hub offers to write a whole answer.
WRITE_JSON = "tocsin.write_json"
#: Writes an answer with status 200; False leaves the answer to the server's own functions.
WriteJson: TypeAlias = Callable[[bytes], bool]


class JsonAnswer:
    """The answer to a request that succeeded."""

    __slots__ = ("body", "status_code")

    def __init__(self, body: bytes, status_code: int = 200) -> None:
        self.body = body
        self.status_code = status_code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; a usual answer is one write to the connection."""
        write: WriteJson | None = scope.get(WRITE_JSON) if self.status_code == 200 else None
        if write is None or not write(self.body):
            await Response(self.body, self.status_code, media_type="application/json")(scope, receive, send)
