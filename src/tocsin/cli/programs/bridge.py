"""The state of `tocsin mcp`: tool calls that become requests to the hub, and the receipts of their answers.

Every tool call makes new requests with the token as it is then, so it works again after the hub was restarted or the
token was rotated. The bridge sees when an answer has left, so it confirms deliveries by explicit receipts: a call
confirms the messages of the answers that had left before it came. An answer may cross the notification that its call is
cancelled; the coding agent then discards it, so its messages are taken out of what is confirmed, and the next answer
carries them. All of this is of one process: two processes of one agent never confirm for each other.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from tocsin.cli.remote import NO_AGENT_TOKEN, Remote, Unreachable, Unusable
from tocsin.cli.remote import Refused as HttpRefused
from tocsin.core.errors import Problem, TocsinError, refusal
from tocsin.core.protocol.envelope import AgentRef
from tocsin.gateways.mcp.tool_call import DEFAULT_TYPE, AnswerLimits, as_json
from tocsin.wire.drafts import Written
from tocsin.wire.signatures import Signer
from tocsin.wire.traces import trace_in

__all__ = ["Bridge", "RemoteToolCall"]

#: Maximum receipts in one request.
_RECEIPTS_MAX = 100
_log = logging.getLogger("tocsin.mcp")


class Bridge:
    """The state that the tool calls of one coding agent share."""

    def __init__(
        self, remote: Callable[[dict[str, str]], Remote | None], limits: AnswerLimits, toolsets: tuple[str, ...] = ()
    ) -> None:
        #: Makes the client of the hub that sends the given headers; returns null without a token.
        self._remote = remote
        self.limits = limits
        #: Toolsets to list; empty for those of the agent's role.
        self.toolsets = toolsets
        #: Deliveries of answers that have left and that no call has confirmed yet, by request.
        self.left: dict[str, list[dict[str, Any]]] = {}
        #: Deliveries of answers that did not leave: the next answer carries them.
        self.kept: list[dict[str, Any]] = []
        #: The calling agent, once known.
        self.sender: AgentRef | None = None
        self._running: dict[str, RemoteToolCall] = {}

    def begin(self, method: str, request: str, meta: Any) -> "RemoteToolCall":
        """Begin the tool call of a request; only a call of a tool confirms earlier answers."""
        tool_call = RemoteToolCall(self, trace_in(meta if isinstance(meta, dict) else {}))
        if method == "tools/call":
            tool_call.confirms, self.left = self.left, {}
            tool_call.request = request
            self._running[request] = tool_call
        return tool_call

    def cancelled(self, request: str) -> None:
        """Note that the coding agent has cancelled a call, also one whose answer has left."""
        tool_call = self._running.pop(request, None)
        if tool_call is not None:
            tool_call.end(received=False)
        for answers in (self.left, *[running.confirms for running in self._running.values()]):
            self.kept += [delivery | {"repeated": True} for delivery in answers.pop(request, [])]

    def answered(self, request: str, *, received: bool = True) -> None:
        """Note that the answer to a request has left; an error has none of its messages."""
        tool_call = self._running.pop(request, None)
        if tool_call is not None:
            tool_call.end(received=received)

    async def perform(
        self, operation: str, arguments: dict[str, Any], envelope: bytes | None, trace: dict[str, str]
    ) -> Any:
        """Perform an operation over HTTP; a refusal is raised."""
        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            remote = self._remote(trace)
            if remote is None:
                raise refusal("E_AUTH_001", NO_AGENT_TOKEN, expected="a token of this project")
            written = None if envelope is None else _signed(remote, envelope)
            reply = await asyncio.to_thread(remote.ask, operation, given, written)
            return as_json(reply, self.limits.depth_max)
        except Unreachable as error:
            self.sender = None
            detail = f"{error}. Start one with `tocsin serve`, or set its URL with TOCSIN_URL"
            raise refusal("E_ROUTING_003", detail) from None
        except Unusable as error:
            raise refusal("E_AUTH_001", str(error), expected="a token of this project") from None
        except HttpRefused as error:
            self.sender = None
            raise TocsinError(_problem(error)) from None
        except RecursionError:
            raise refusal("E_PROTOCOL_002", "it is nested too deeply to send or show") from None


class RemoteToolCall:
    """One tool call of a coding agent."""

    #: The bridge sees which answers have left.
    quotes_by_itself = True

    def __init__(self, bridge: Bridge, trace: dict[str, str]) -> None:
        self.limits = bridge.limits
        self.toolsets = bridge.toolsets
        self._bridge = bridge
        self._trace = trace
        #: Its number, and the deliveries that had left when it came, by request; they are kept until it has ended.
        self.request = ""
        self.confirms: dict[str, list[dict[str, Any]]] = {}
        self._has_confirmed = False
        self._deliveries: list[dict[str, Any]] = []
        self._ended = False

    async def ask(self, operation: str, arguments: dict[str, Any] | None = None, envelope: bytes | None = None) -> Any:
        """Perform an operation and return its reply as JSON values."""
        await self._confirm_left()
        if operation == "register_agent":
            self._bridge.sender = None
        if operation == "fetch_inbox":
            # It goes on if the call is cancelled, so that the messages that it hands out are accounted for.
            return await asyncio.shield(asyncio.ensure_future(self._fetch(arguments or {})))
        return await self._bridge.perform(operation, arguments or {}, envelope, self._trace)

    async def confirm(self, receipt: str) -> None:
        """Confirm the messages of cursors that the model quotes."""
        try:
            await self._bridge.perform("confirm_messages", {"receipt": receipt}, None, {})
        except TocsinError as error:
            _log.info("receipts were not delivered: %s", error)

    async def sender(self) -> AgentRef:
        """Return the calling agent as its envelopes name it."""
        if self._bridge.sender is None:
            me = await self.ask("get_me")
            if me["registered"] is None:
                return AgentRef(me["agent"], DEFAULT_TYPE)
            self._bridge.sender = AgentRef(me["agent"], me["registered"]["type"])
        return self._bridge.sender

    async def role(self) -> str:
        """Return the role of the calling agent; empty while the hub does not tell."""
        try:
            me = await self._bridge.perform("get_me", {}, None, {})
        except TocsinError:
            return ""
        return str(me["role"])

    def end(self, *, received: bool) -> None:
        """Note that the answer has left, or that it never will: then the next answer carries its messages."""
        self._ended = True
        deliveries, self._deliveries = self._deliveries, []
        if not received:
            self._bridge.kept += deliveries
        elif deliveries:
            self._bridge.left[self.request] = deliveries
        if not (received and self._has_confirmed):
            self._bridge.left |= self.confirms
            self.confirms = {}

    async def _fetch(self, arguments: dict[str, Any]) -> Any:
        kept, self._bridge.kept = self._bridge.kept, []
        try:
            batch = await self._bridge.perform("fetch_inbox", arguments, None, self._trace)
        except BaseException:
            self._bridge.kept += kept
            raise
        again = {delivery["signal_id"] for delivery in batch["deliveries"]}
        batch["deliveries"] = [item for item in kept if item["signal_id"] not in again] + batch["deliveries"]
        self._deliveries += batch["deliveries"]
        if self._ended:
            self.end(received=False)
        return batch

    async def _confirm_left(self) -> None:
        """Confirm the messages that had left; receipts that fail are sent again with the next call."""
        if self._has_confirmed:
            return
        self._has_confirmed, has_arrived = True, False
        ids = [delivery["signal_id"] for deliveries in self.confirms.values() for delivery in deliveries]
        try:
            for start in range(0, len(ids), _RECEIPTS_MAX):
                some = ids[start : start + _RECEIPTS_MAX]
                await self._bridge.perform("confirm_messages", {"message_ids": some}, None, {})
            has_arrived = True
        except TocsinError as error:
            _log.info("receipts were not delivered: %s", error)
        finally:
            if not has_arrived:
                self._bridge.left |= self.confirms
                self.confirms = {}


def _signed(remote: Remote, envelope: bytes) -> Written:
    signature = None if remote.token is None else Signer(remote.token).sign(envelope)
    return Written("", msgspec.Raw(envelope), signature)


def _problem(error: HttpRefused) -> Problem:
    try:
        return msgspec.convert(error.problem, Problem)
    except msgspec.ValidationError:
        return Problem("E_HUB_001", str(error)[:200])
