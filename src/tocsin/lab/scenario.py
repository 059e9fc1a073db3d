"""Scenarios: described teams and loads, to evaluate a policy without recorded history.

A scenario has teams of agents and how they handle messages, loads between the teams, and leases that agents compete
for. From it and a seed, `scenario_traces` builds traces like recorded ones: sends as steps, consumer models, and
sessions that poll. Each run has its own seed and is one window in a comparison of policies.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta

from tocsin.core.errors import refusal
from tocsin.core.protocol.priority import VOCABULARY
from tocsin.core.protocol.validation import explain

__all__ = [
    "Handling",
    "LeaseContention",
    "Load",
    "RandomDuration",
    "Scenario",
    "Team",
    "load_scenario",
    "parse_scenario",
]

Count = Annotated[int, Meta(ge=1, le=10**9)]
Seconds = Annotated[float, Meta(ge=0, le=3.2e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9_\-]{0,40}\Z")]


class RandomDuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A random duration: exponential with a mean, or uniform between two ends."""

    mean: Seconds | None = None
    low: Seconds | None = None
    high: Seconds | None = None

    def __post_init__(self) -> None:
        between = self.low is not None and self.high is not None and self.low <= self.high
        if (self.mean is None) == (not between):
            raise ValueError("give mean, or low and high")


Duration = Seconds | RandomDuration


class Handling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an agent handles messages of a type."""

    #: Time from the offer to the receipt, seconds; null for no receipt of its own: the next call quotes the cursor.
    receipt_s: Duration | None = 0.02
    #: Time to work on a message, seconds; one message after another. Null for no work.
    work_s: Duration | None = None
    #: Confirmation after the work.
    ack: Literal["none", "received", "processed", "reject"] = "processed"
    #: Share of the messages that it answers.
    answers: Share = 0.0
    #: Message type of the answer.
    answer_type: str = "CUSTOM_ANSWER"
    #: Time from the end of the work to the answer, seconds.
    think_s: Duration = 1.0


class Team(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of equal agents, named `team-1`, `team-2` and so on."""

    #: Number of agents.
    agents: Count = 1
    #: Role of the agents, which sets their privileges.
    role: Literal["director", "primary", "clone", "human"] = "primary"
    #: Agent type, for routing.
    type: Name = "AdHoc"
    #: Kind of session: `push`, `piggyback`, `daemon`, or `none` for agents that never attach.
    session: Literal["push", "piggyback", "daemon", "none"] = "push"
    #: Largest number of unconfirmed offers; null for the policy's default.
    window: Count | None = None
    #: Piggyback agents: time from the end of work to the next call, seconds.
    poll_s: Seconds = 5.0
    #: Piggyback agents: largest number of messages per call.
    takes: Count = 50
    #: Other agents: time between heartbeats, seconds.
    heartbeat_s: Annotated[float, Meta(gt=0, le=3.2e9)] = 30.0
    #: How they handle messages, by message type; `*` for all others.
    handles: dict[str, Handling] = {}


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """Messages that one team sends to another."""

    #: Sender: a team, or one agent of it (`team-3`).
    sender: str
    #: Recipient: a team or an agent. Agents do not send to themselves.
    to: str
    #: Message type.
    type: str = "CUSTOM_NOTE"
    #: Name of a priority; null for the contract's default.
    priority: str | None = None
    #: Messages per second, of all senders together.
    per_s: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    #: `steady` for even gaps, `random` for random ones, `burst` for `size` messages at once every `every_s`.
    pattern: Literal["steady", "random", "burst"] = "random"
    #: Number of messages in a burst.
    size: Count = 1
    #: Time between bursts, seconds.
    every_s: Annotated[float, Meta(gt=0, le=3.2e9)] = 60.0
    #: Start, seconds after the scenario's.
    start_s: Seconds = 0.0
    #: End, seconds after the scenario's start; null for the end of the scenario.
    stop_s: Seconds | None = None
    #: TTL, seconds; null for the contract's.
    ttl_s: Annotated[float, Meta(gt=0, le=3.2e9)] | None = None
    #: Importance, 1 to 10; null for the policy's default.
    importance: Annotated[int, Meta(ge=1, le=10)] | None = None


class LeaseContention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two agents that repeatedly acquire the same two leases in opposite order, which can cause a deadlock."""

    #: The two agents.
    agents: tuple[str, str]
    #: The two resources.
    resources: tuple[str, str] = ("left", "right")
    #: Time between attempts, seconds.
    every_s: Annotated[float, Meta(gt=0, le=3.2e9)] = 60.0
    #: Time between acquiring the first and requesting the second, seconds.
    gap_s: Seconds = 1.0
    #: Time for which an agent holds both, seconds.
    hold_s: Seconds = 5.0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario file."""

    #: Name of the project in reports.
    name: Name
    #: Teams by name.
    teams: dict[Name, Team]
    #: Messages that teams send.
    loads: list[Load] = []
    #: Leases that agents compete for.
    leases: list[LeaseContention] = []
    #: Duration, seconds.
    duration_s: Annotated[float, Meta(gt=0, le=3.2e7)] = 3600.0
    #: Number of runs, each with its own seed.
    runs: Annotated[int, Meta(ge=1, le=1000)] = 3

    @property
    def agents(self) -> int:
        """Return the number of agents."""
        return sum(team.agents for team in self.teams.values())

    def members(self, who: str) -> list[str]:
        """Return the agents of a team, or the named agent of a team."""
        if who in self.teams:
            return [f"{who}-{number}" for number in range(1, self.teams[who].agents + 1)]
        team, _, number = who.rpartition("-")
        if team in self.teams and number.isdigit() and 1 <= int(number) <= self.teams[team].agents:
            return [who]
        raise refusal(
            "E_LAB_003", f"there is no team or agent {who}", found=who, expected="one of " + ", ".join(self.teams)
        )

    def __post_init__(self) -> None:
        for load in self.loads:
            senders, recipients = self.members(load.sender), self.members(load.to)
            if senders == recipients and len(senders) == 1:
                raise refusal("E_LAB_003", f"{load.sender} has no recipient but itself")
            if load.priority is not None and load.priority not in VOCABULARY:
                raise refusal("E_LAB_003", f"{load.priority!r} is not a priority", expected=", ".join(VOCABULARY))
        for contention in self.leases:
            for agent in contention.agents:
                if self.members(agent) != [agent]:
                    raise refusal("E_LAB_003", f"{agent} is a team: name one agent of it, such as {agent}-1")


def load_scenario(path: Path) -> Scenario:
    """Read a scenario from a YAML file."""
    return parse_scenario(path.read_text(encoding="utf-8"))


def parse_scenario(text: str) -> Scenario:
    """Parse a scenario; an error names the invalid key and what was expected."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise refusal("E_LAB_003", f"not YAML: {error}") from None
    try:
        return msgspec.convert(document, Scenario)
    except msgspec.ValidationError as error:
        if not isinstance(document, dict):
            raise refusal("E_LAB_003", "a scenario must be a mapping with a name and teams") from None
        try:
            wrong = explain(Scenario, document)
        except (KeyError, IndexError, AttributeError, TypeError):
            raise refusal("E_LAB_003", str(error)) from None
        expected = f" (expected {wrong.expected})" if wrong.expected else ""
        raise refusal("E_LAB_003", f"{wrong.field}: {wrong.detail}{expected}", field=wrong.field) from None
