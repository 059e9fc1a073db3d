"""Scenarios: teams and loads described, not recorded, so that a policy can be sized before there is any history.

A scenario is a mapping: teams of agents and how they treat what they get, loads that they put on each other, leases
that they fight over. Out of it and a seed come traces like those of history, with arrivals as steps, consumers as
habits, and sessions that call again and again. Several runs with seeds of their own are the windows that policies are
compared on.
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
    """A duration that varies: around a mean (exponentially), or evenly between two ends."""

    mean: Seconds | None = None
    low: Seconds | None = None
    high: Seconds | None = None

    def __post_init__(self) -> None:
        between = self.low is not None and self.high is not None and self.low <= self.high
        if (self.mean is None) == (not between):
            raise ValueError("say mean, or low and high")


Duration = Seconds | RandomDuration


class Handling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent does with a message of some type."""

    #: From the offer to the receipt, seconds; null where it gives none, and its next call confirms.
    receipt_s: Duration | None = 0.02
    #: Work on it, seconds; one thing after another. Null where it does not work on it.
    work_s: Duration | None = None
    #: What it says when the work is done.
    ack: Literal["none", "received", "processed", "reject"] = "processed"
    #: Share of such messages that it answers.
    answers: Share = 0.0
    #: Type of the answer.
    answer_type: str = "CUSTOM_ANSWER"
    #: From the end of the work to the answer, seconds.
    think_s: Duration = 1.0


class Team(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Agents that are alike, named `team-1`, `team-2` and so on."""

    #: How many.
    agents: Count = 1
    #: What they may do.
    role: Literal["director", "primary", "clone", "human"] = "primary"
    #: What they are for routing.
    type: Name = "AdHoc"
    #: `push`, `piggyback`, `daemon`, or `none` for agents that are never there.
    session: Literal["push", "piggyback", "daemon", "none"] = "push"
    #: Offers without receipt that it takes at a time; null is the policy's.
    window: Count | None = None
    #: Of piggyback agents: time from when one is free to its next call, seconds.
    poll_s: Seconds = 5.0
    #: Of piggyback agents: messages taken at a time.
    takes: Count = 50
    #: Of others: between signs of life, seconds.
    heartbeat_s: Annotated[float, Meta(gt=0, le=3.2e9)] = 30.0
    #: What they do with messages, by type; `*` for all others.
    handles: dict[str, Handling] = {}


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """Messages that one team sends to another."""

    #: A team, or one agent of it (`team-3`).
    sender: str
    #: The same; nobody sends to itself.
    to: str
    #: Message type.
    type: str = "CUSTOM_NOTE"
    #: Any name of the wire; null is the contract's.
    priority: str | None = None
    #: Messages a second, of all its senders together.
    per_s: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    #: `steady` spaces them evenly, `random` draws the gaps, `burst` sends `size` at once every `every_s`.
    pattern: Literal["steady", "random", "burst"] = "random"
    #: Messages of a burst.
    size: Count = 1
    #: Between bursts, seconds.
    every_s: Annotated[float, Meta(gt=0, le=3.2e9)] = 60.0
    #: When it begins, seconds.
    start_s: Seconds = 0.0
    #: When it ends; null is the end of the scenario.
    stop_s: Seconds | None = None
    #: Null is the contract's.
    ttl_s: Annotated[float, Meta(gt=0, le=3.2e9)] | None = None
    #: 1 to 10; null is the policy's.
    importance: Annotated[int, Meta(ge=1, le=10)] | None = None


class LeaseContention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two agents that take the same two leases in opposite order, again and again: prone to deadlock."""

    #: Both.
    agents: tuple[str, str]
    #: What they fight over.
    resources: tuple[str, str] = ("left", "right")
    #: Between fights, seconds.
    every_s: Annotated[float, Meta(gt=0, le=3.2e9)] = 60.0
    #: Between taking the first and wanting the second, seconds.
    gap_s: Seconds = 1.0
    #: How long whoever has both keeps them, seconds.
    hold_s: Seconds = 5.0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that happens, as described."""

    #: What the project is called in reports.
    name: Name
    #: Teams by name.
    teams: dict[Name, Team]
    #: What they send.
    loads: list[Load] = []
    #: What they fight over.
    leases: list[LeaseContention] = []
    #: How long it lasts, seconds.
    duration_s: Annotated[float, Meta(gt=0, le=3.2e7)] = 3600.0
    #: Runs with seeds of their own.
    runs: Annotated[int, Meta(ge=1, le=1000)] = 3

    @property
    def agents(self) -> int:
        """Return how many agents take part."""
        return sum(team.agents for team in self.teams.values())

    def members(self, who: str) -> list[str]:
        """Return the agents that a name means: a team's, or one of them."""
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
                raise refusal("E_LAB_003", f"{load.sender} cannot send to itself alone")
            if load.priority is not None and load.priority not in VOCABULARY:
                raise refusal("E_LAB_003", f"{load.priority!r} is no priority", expected=", ".join(VOCABULARY))
        for contention in self.leases:
            for agent in contention.agents:
                if self.members(agent) != [agent]:
                    raise refusal("E_LAB_003", f"{agent} is a team: a lease is one agent's")


def load_scenario(path: Path) -> Scenario:
    """Read a scenario from a YAML file."""
    return parse_scenario(path.read_text(encoding="utf-8"))


def parse_scenario(text: str) -> Scenario:
    """Read a scenario, or say which key is wrong and what would be right."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise refusal("E_LAB_003", f"not YAML: {error}") from None
    try:
        return msgspec.convert(document, Scenario)
    except msgspec.ValidationError as error:
        if not isinstance(document, dict):
            raise refusal("E_LAB_003", "a scenario is a mapping with a name and teams") from None
        try:
            wrong = explain(Scenario, document)
        except (KeyError, IndexError, AttributeError, TypeError):
            raise refusal("E_LAB_003", str(error)) from None
        expected = f" (expected {wrong.expected})" if wrong.expected else ""
        raise refusal("E_LAB_003", f"{wrong.field}: {wrong.detail}{expected}", field=wrong.field) from None
