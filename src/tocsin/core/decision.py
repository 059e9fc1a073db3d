"""The decision of one command: the state it reads, its caller, its time, and the events emitted so far."""

from collections.abc import Callable
from typing import Any, cast

from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.core.policy import Policy, Role
from tocsin.core.state import Agent, IdSource, ProjectState

__all__ = ["Apply", "Decision", "bounded_text"]

#: Policy of a project before its first one; only the bus itself may decide anything then.
_NO_POLICY = cast("Policy", None)

Apply = Callable[[ProjectState, Any], None]


class Decision:
    """One command being decided; `emit` is the only way in which it changes the state."""

    __slots__ = ("_apply", "caller", "events", "ids", "now", "owed", "policy", "state")

    def __init__(
        self, state: ProjectState, apply: Callable[[Event], None], caller: Caller, now: int, ids: IdSource
    ) -> None:
        self.state = state
        #: Policy in force; after a policy is adopted, the rest of the decision uses the new one.
        self.policy: Policy = state.policy if state.has_policy else _NO_POLICY
        self.caller = caller
        self.now = now
        self.ids = ids
        self.events: list[Event] = []
        #: Copies that agents caused without a charge that could have been refused, by agent; charged at the end.
        self.owed: dict[str, int] = {}
        self._apply = apply

    def emit(self, event: Event) -> None:
        """Record an event and apply it to the state."""
        self._apply(event)
        self.events.append(event)

    @property
    def role(self) -> Role | None:
        """Return the policy of the caller's role; null for the bus itself, which may do everything."""
        return None if self.caller == SYSTEM else self.policy.roles.get(self.caller.role)

    def me(self) -> Agent:
        """Return the calling agent; refuse a caller that is not registered."""
        agent = self.state.agents.get(self.caller.agent)
        if agent is None:
            raise refusal("E_AUTH_007", f"{self.caller.agent} is not registered in this project: register first")
        if agent.role != self.caller.role:
            raise refusal(
                "E_AUTH_007",
                f"{agent.agent} is registered as {agent.role} but its token is for {self.caller.role}: register again",
            )
        return agent

    def directs(self) -> bool:
        """Return whether the caller may do what a director may."""
        return self.caller == SYSTEM or ((role := self.role) is not None and role.directs)

    def must_direct(self, what: str) -> None:
        """Refuse a caller that is not a director, a human or the bus itself."""
        if not self.directs():
            raise refusal("E_AUTH_003", f"{self.caller.agent} may not {what}: only a director or a human may")

    def text(self, value: str, field: str) -> str:
        """Return a free text; refuse one that is too long."""
        return bounded_text(value, field, self.policy.limits.text_max)


def bounded_text(value: str, field: str, limit: int) -> str:
    """Return a text; refuse one of more than `limit` characters."""
    if len(value) > limit:
        raise refusal(
            "E_VALIDATION_004",
            f"{field} has {len(value)} characters: at most {limit} are allowed",
            field=field,
            found=f"{len(value)} characters",
            expected=f"at most {limit} characters",
        )
    return value
