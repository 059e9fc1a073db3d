"""One command being decided: the state it sees, who asks, when, and the events so far."""

from collections.abc import Callable
from typing import Any, cast

from tocsin.core.commands import SYSTEM, Caller
from tocsin.core.errors import refusal
from tocsin.core.events import Event
from tocsin.core.policy import Policy, Role
from tocsin.core.state import Agent, IdSource, ProjectState

__all__ = ["Apply", "Decision", "bounded_text"]

#: What a project has before its first policy: only the bus itself may decide anything then.
_NO_POLICY = cast("Policy", None)

Apply = Callable[[ProjectState, Any], None]


class Decision:
    """Decide, then apply: `emit` is the only way from a decision to the state."""

    __slots__ = ("_apply", "caller", "events", "ids", "now", "policy", "state")

    def __init__(
        self, state: ProjectState, apply: Callable[[Event], None], caller: Caller, now: int, ids: IdSource
    ) -> None:
        self.state = state
        #: The policy in force: a decision that adopts another one goes on by that.
        self.policy: Policy = state.policy if state.has_policy else _NO_POLICY
        self.caller = caller
        self.now = now
        self.ids = ids
        self.events: list[Event] = []
        self._apply = apply

    def emit(self, event: Event) -> None:
        """Record that something happened, and let the state follow."""
        self._apply(event)
        self.events.append(event)

    @property
    def role(self) -> Role | None:
        """Return what the caller's role may do; the bus itself has none and may do all."""
        return None if self.caller == SYSTEM else self.policy.roles.get(self.caller.role)

    def me(self) -> Agent:
        """Return the calling agent, or refuse one that is not registered."""
        agent = self.state.agents.get(self.caller.agent)
        if agent is None:
            raise refusal("E_AUTH_007", f"{self.caller.agent} is not registered in this project: register first")
        if agent.role != self.caller.role:
            raise refusal(
                "E_AUTH_007",
                f"{agent.agent} registered as {agent.role} and its token now says {self.caller.role}: register again",
            )
        return agent

    def directs(self) -> bool:
        """Tell whether the caller may do what a director may."""
        return self.caller == SYSTEM or ((role := self.role) is not None and role.directs)

    def must_direct(self, what: str) -> None:
        """Refuse a caller that is no director, human or the bus itself."""
        if not self.directs():
            raise refusal("E_AUTH_003", f"{self.caller.agent} may not {what}: a director or a human may")

    def text(self, value: str, field: str) -> str:
        """Refuse a free text that is too long."""
        return bounded_text(value, field, self.policy.limits.text_max)


def bounded_text(value: str, field: str, limit: int) -> str:
    """Refuse a text of more than `limit` characters."""
    if len(value) > limit:
        raise refusal(
            "E_VALIDATION_004",
            f"{field} has {len(value)} characters: at most {limit} are taken",
            field=field,
            found=f"{len(value)} characters",
            expected=f"at most {limit} characters",
        )
    return value
