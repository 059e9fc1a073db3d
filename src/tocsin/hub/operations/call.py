"""One call of an operation: its caller, its project, and the one way from arguments to a reply.

Theory of operation. A gateway authenticates the caller and makes a `Call`. `perform` checks the access rule of the row,
converts the arguments to the row's request, and runs the handler of the row. A command without a handler of its own is
decided by the exchange as it is. Refusals are raised as `TocsinError`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tocsin.core.commands import Caller, Command, Reply
from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.protocol.envelope import Envelope
from tocsin.core.protocol.parsing import parse_envelope
from tocsin.core.state import ProjectState
from tocsin.hub.auth.signatures import check_signature
from tocsin.hub.auth.tokens import Grant
from tocsin.hub.project import Project
from tocsin.wire.arguments import read_arguments
from tocsin.wire.operation import Access, Operation, Where
from tocsin.wire.traces import carry

if TYPE_CHECKING:
    from tocsin.hub.service import Hub

__all__ = ["Call", "Handler"]


class Call:
    """One call of one caller."""

    def __init__(
        self,
        project: Project,
        caller: Caller,
        grant: Grant | None = None,
        *,
        trace: Mapping[str, str] | None = None,
    ) -> None:
        self.project = project
        self.caller = caller
        #: What the caller's token grants; null on an embedded bus, which does not authenticate.
        self.grant = grant
        #: Headers that may name the trace that the call belongs to.
        self.trace: Mapping[str, str] = trace or {}
        #: Whether the signature of what is sent has been checked.
        self.signature_checked = False

    @property
    def state(self) -> ProjectState:
        """Return the live state of the project."""
        return self.project.state

    @property
    def hub(self) -> "Hub":
        """Return the hub; operations of an embedded bus never ask for it."""
        if self.project.hub is None:
            raise refusal("E_STATE_004", "only a hub serves this operation", expected="a hub")
        return self.project.hub

    @property
    def agent(self) -> str:
        """Return the caller's name."""
        return self.caller.agent

    @property
    def directs(self) -> bool:
        """Tell whether the caller may see what is not its own."""
        role = self.state.policy.roles.get(self.caller.role)
        return role is not None and role.directs

    async def submit(self, command: Command) -> Any:
        """Let the exchange decide a command; a refusal is raised."""
        reply = await self.project.host.submit(command, self.caller)
        if isinstance(reply, Problem):
            raise error_for(reply)
        return reply

    async def durable(self) -> None:
        """Wait until everything in the live state is durable; raise if it never will be."""
        reply: Reply = await self.project.host.durable()
        if isinstance(reply, Problem):
            raise error_for(reply)

    def has_access(self, access: Access) -> bool:
        """Tell whether the caller is among those that an access rule admits."""
        if access is Access.AGENT:
            return True
        admin = self.grant is not None and self.grant.admin
        return {
            Access.DIRECTOR: self.directs,
            Access.OVERSEER: self.directs or admin,
            Access.ADMIN: admin,
        }[access]

    def check_access(self, operation: Operation) -> None:
        """Refuse a caller that may not use an operation, and an operation that is not served here."""
        if operation.where is Where.HUB and self.project.hub is None:
            raise refusal("E_STATE_004", f"only a hub serves {operation.name}", found=operation.name, expected="a hub")
        if not self.has_access(operation.access):
            who = "an admin token" if operation.access is Access.ADMIN else "a director or a human"
            raise refusal("E_AUTH_003", f"{self.agent} may not use {operation.name}: it needs {who}", expected=who)

    def check_signature(self, raw: bytes, signature: str | None) -> None:
        """Check the signature of an envelope or a batch; an embedded bus has no tokens to sign with."""
        if self.grant is not None:
            check_signature(self.grant, raw, signature, required=self.state.policy.security.require_signatures)
        self.signature_checked = True

    def check_words(self, operation: Operation) -> None:
        """Refuse words for other agents that are not signed where signatures are required."""
        if not operation.signed or self.signature_checked or self.grant is None:
            return
        if self.state.policy.security.require_signatures:
            detail = f"this hub accepts signed messages only, and {operation.name} is not signed"
            raise refusal("E_AUTH_006", detail, expected="v1=<hex of HMAC-SHA256>")

    def read_envelope(self, raw: bytes) -> Envelope:
        """Parse an envelope, and add the trace of the call."""
        return carry(parse_envelope(raw, self.state.policy.limits.message_bytes_max), self.trace)

    def read(
        self,
        operation: Operation,
        arguments: dict[str, Any],
        envelope: bytes | None = None,
        signature: str | None = None,
        *,
        strict: bool = True,
    ) -> Any:
        """Convert arguments, and an envelope where the operation takes one, to the operation's request."""
        parsed = None
        if operation.takes_envelope and envelope:
            self.check_signature(envelope, signature)
            parsed = self.read_envelope(envelope)
        return read_arguments(operation, arguments, parsed, strict=strict)


Handler: TypeAlias = Callable[[Call, Any], Awaitable[Any]]
