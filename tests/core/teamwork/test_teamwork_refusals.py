"""Refusals of requests, approvals, discussions, topics, health reports and escalations: every field of each problem."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tests.core.refusals import LONG, Refusal, check, ids_of
from tocsin.core import commands as cmd
from tocsin.core.commands import Command
from tocsin.core.errors import Problem


class Ask:
    """Ask one thing of a fresh team."""

    def __init__(self, command: Command, agent: str = "impl_001") -> None:
        self.command, self.agent = command, agent

    def __call__(self, team: Team) -> Problem:
        return team.refused(self.command, self.agent)


def request(team: Team, timeout_s: float | None = None, thread: str | None = "t-1", **parts: object) -> cmd.SendRequest:
    receiver, kind = str(parts.pop("receiver", "impl_002")), str(parts.pop("kind", "CUSTOM_ASK"))
    return cmd.SendRequest(team.envelope("impl_001", receiver, kind, correlation_id=thread), timeout_s)


def request_within(timeout_s: float) -> Callable[[Team], Problem]:
    def ask(team: Team) -> Problem:
        team.ask(request(team, 86400), "impl_001", cmd.Requested)
        return team.refused(request(team, timeout_s, "t-2"), "impl_001")

    return ask


def request_to(team: Team, receiver: str) -> Problem:
    return team.refused(request(team, receiver=receiver), "impl_001")


def same_thread(team: Team) -> Problem:
    team.ask(request(team), "impl_001", cmd.Requested)
    return team.refused(request(team), "impl_001")


def one_request_more(team: Team) -> Problem:
    team.ask(request(team), "impl_001", cmd.Requested)
    return team.refused(request(team, thread="t-2"), "impl_001")


def of_another(team: Team, command: type[cmd.CancelRequest | cmd.ExtendRequest]) -> Problem:
    asked = team.ask(request(team), "impl_001", cmd.Requested).request
    return team.refused(command(asked), "impl_002")


def ask_approval(team: Team, agent: str = "impl_001", subject: str = "merge it") -> str:
    return team.ask(cmd.RequestApproval("pre_merge_review", subject), agent, cmd.ApprovalRequested).approval


def one_approval_more(team: Team) -> Problem:
    ask_approval(team)
    return team.refused(cmd.RequestApproval("pre_merge_review", "another"), "impl_001")


def one_approval_more_of_the_project(team: Team) -> Problem:
    ask_approval(team, "impl_002")
    return team.refused(cmd.RequestApproval("pre_merge_review", "another"), "impl_001")


def decide(team: Team, verdict: str, **parts: object) -> Problem:
    name = ask_approval(team)
    return team.refused(cmd.DecideApproval(name, verdict, **parts), "boss")  # type: ignore[arg-type]


def held_plan(team: Team) -> str:
    team.send("impl_001", "impl_002", "CUSTOM_PLAN", payload={"a": 1})
    (approval,) = team.exchange.state.approvals
    return approval


def decide_held(team: Team, payload: dict[str, object]) -> Problem:
    return team.refused(cmd.DecideApproval(held_plan(team), "approve", payload=payload), "boss")


def withdraw_held(team: Team) -> Problem:
    return team.refused(cmd.WithdrawApproval(held_plan(team)), "impl_001")


def withdraw_of_another(team: Team) -> Problem:
    ask_approval(team)
    return team.refused(cmd.WithdrawApproval(LONG), "impl_002")


def discuss(team: Team, **parts: object) -> str:
    command = cmd.OpenDiscussion("tabs?", ("impl_001", "impl_002"), **parts)  # type: ignore[arg-type]
    return team.ask(command, "manager_001", cmd.Discussed).discussion


def one_discussion_more(team: Team) -> Problem:
    discuss(team)
    return team.refused(cmd.OpenDiscussion("spaces?", ("impl_001", "impl_002")), "manager_001")


def one_discussion_more_of_the_project(team: Team) -> Problem:
    discuss(team)
    return team.refused(cmd.OpenDiscussion("spaces?", ("impl_001", "impl_002")), "boss")


def one_contribution_more(team: Team) -> Problem:
    name = discuss(team)
    team.ask(cmd.Speak(name, "tabs"), "impl_001", cmd.Discussed)
    return team.refused(cmd.Speak(name, "spaces"), "impl_002")


def vote_for_no_option(team: Team) -> Problem:
    return team.refused(cmd.Vote(discuss(team), LONG), "impl_001")


def vote_as_the_opener(team: Team) -> Problem:
    discuss(team)
    return team.refused(cmd.Vote(LONG, "agree"), "manager_001")


def speak_while_it_is_ratified(team: Team) -> Problem:
    name = discuss(team)
    for agent in ("impl_001", "impl_002"):
        team.ask(cmd.Vote(name, "agree"), agent, cmd.Discussed)
    return team.refused(cmd.Speak(name, "wait"), "impl_001")


def opening(field: str, expected: str, policy: str | None = None, **parts: object) -> Refusal:
    wanted = {"question": "tabs?", "participants": ("impl_001", "impl_002")} | parts
    command = cmd.OpenDiscussion(**wanted)  # type: ignore[arg-type]
    name = f"a discussion with {sorted(parts)}: {expected}"
    return Refusal(
        name, Ask(command, "manager_001"), "E_VALIDATION_004", (field, expected), field, None, expected, policy=policy
    )


def subscribe(team: Team, agent: str, topic: str) -> None:
    team.ask(cmd.Subscribe(topic), agent, cmd.Subscriptions)


def one_topic_more(team: Team) -> Problem:
    subscribe(team, "impl_001", "builds")
    subscribe(team, "impl_002", "builds")
    return team.refused(cmd.Subscribe("tests"), "impl_002")


def one_subscriber_more(team: Team) -> Problem:
    subscribe(team, "impl_001", "builds")
    subscribe(team, "impl_001", "builds")
    return team.refused(cmd.Subscribe("builds"), "impl_002")


def one_subscription_more(team: Team) -> Problem:
    subscribe(team, "impl_001", "builds")
    return team.refused(cmd.Subscribe("tests"), "impl_001")


def publish_to_one(team: Team) -> Problem:
    return team.refused(cmd.Publish("builds", team.envelope("impl_001", "impl_002")), "impl_001")


def publish_an_ack(team: Team) -> Problem:
    payload = {"acknowledgedMessageId": "msg_1_a", "status": "received"}
    envelope = team.envelope("impl_001", "*", "ACK", payload=payload, correlation_id="msg_1_a")
    return team.refused(cmd.Publish("builds", envelope), "impl_001")


def escalated(team: Team) -> str:
    """Escalate a request that nobody answered; it is with the directors then."""
    team.ask(request(team, 1), "impl_001", cmd.Requested)
    team.advance(2)
    (name,) = team.exchange.state.open_escalations
    return name


def escalate_twice(team: Team) -> Problem:
    name = escalated(team)
    team.ask(cmd.EscalateToHuman(name), "boss", cmd.Escalated)
    return team.refused(cmd.EscalateToHuman(name), "boss")


def resolve_twice(team: Team) -> Problem:
    name = escalated(team)
    team.ask(cmd.ResolveEscalation(name, "asked again"), "boss", cmd.Escalated)
    return team.refused(cmd.ResolveEscalation(name, "asked again"), "boss")


TOPIC = "up to 128 letters, digits, dots, dashes, slashes, underscores"
METRICS = (
    "one of blocking_delivery_s, blocking_queue_depth, clone_spawn_p99_s, critical_delivery_s, critical_queue_depth, "
    "deadlock_resolution_s, escalation_latency_s, escalations_per_minute, message_routing_p99_s"
)

ROWS = [
    *(
        Refusal(
            f"a timeout of {timeout_s:g} s",
            request_within(timeout_s),
            "E_VALIDATION_004",
            (f"{timeout_s:g} s", "86400 s"),
            "$.timeout_s",
            f"{timeout_s:g}",
            "more than 0, at most 86400",
        )
        for timeout_s in (0.0, 86401.0)
    ),
    *(
        Refusal(
            f"a request to {receiver}",
            partial(request_to, receiver=receiver),
            "E_ROUTING_002",
            ("one other agent",),
            "$.receiver.agentId",
            receiver,
            "one other agent",
        )
        for receiver in ("*", "impl_001")
    ),
    Refusal(
        "a request without a response",
        lambda team: team.refused(request(team, kind="STATE_SYNC"), "impl_001"),
        "E_VALIDATION_003",
        ("STATE_SYNC",),
        "$.messageType",
        "STATE_SYNC",
        "a type whose contract names a response",
    ),
    Refusal(
        "a request without a thread",
        lambda team: team.refused(request(team, thread=None), "impl_001"),
        "E_VALIDATION_001",
        ("$.correlationId",),
        "$.correlationId",
        "nothing",
        "an id",
    ),
    Refusal("a second request in a thread", same_thread, "E_STATE_002", ("impl_001", "impl_002")),
    Refusal(
        "one request more",
        one_request_more,
        "E_ADMISSION_008",
        ("impl_001", "limit of 1 "),
        policy="requests: {open_max: 1}",
    ),
    Refusal("cancel nothing", Ask(cmd.CancelRequest(LONG)), "E_STATE_001", (f"{LONG[:128]} is", "impl_001")),
    Refusal("extend nothing", Ask(cmd.ExtendRequest(LONG)), "E_STATE_001", (f"{LONG[:128]} is", "impl_001")),
    Refusal("cancel for another", lambda team: of_another(team, cmd.CancelRequest), "E_STATE_001", ("impl_002",)),
    Refusal("extend for another", lambda team: of_another(team, cmd.ExtendRequest), "E_STATE_001", ("impl_002",)),
    Refusal(
        "an unknown handoff",
        Ask(cmd.RequestApproval(LONG, "merge")),  # type: ignore[arg-type]
        "E_VALIDATION_003",
        (LONG[:64],),
        "$.handoff",
        LONG[:64],
        "one of lease_override, plan_approval, pre_merge_review",
    ),
    Refusal(
        "a handoff that is switched off",
        Ask(cmd.RequestApproval("ratification", "merge")),
        "E_VALIDATION_003",
        ("ratification",),
        "$.handoff",
        "ratification",
        "one of lease_override, plan_approval, pre_merge_review",
    ),
    Refusal(
        "override of no lease",
        Ask(cmd.RequestApproval("lease_override", LONG)),
        "E_LEASE_001",
        (LONG[:64],),
        "$.subject",
        LONG[:64],
        "the id of a lease that is held",
    ),
    Refusal(
        "one approval more",
        one_approval_more,
        "E_ADMISSION_008",
        ("impl_001", "limit of 1 "),
        policy="approvals: {per_agent_max: 1}",
    ),
    Refusal(
        "one approval more of the project",
        one_approval_more_of_the_project,
        "E_ADMISSION_008",
        ("project", "limit of 1 "),
        policy="approvals: {open_max: 1}",
    ),
    Refusal(
        "decide as a primary",
        Ask(cmd.DecideApproval("any", "approve")),
        "E_AUTH_003",
        ("impl_001", "decide an approval"),
    ),
    Refusal(
        "decide nothing",
        Ask(cmd.DecideApproval(LONG, "approve"), "boss"),
        "E_STATE_001",
        (LONG[:64],),
        found=LONG[:64],
    ),
    Refusal(
        "refuse without a reason",
        lambda team: decide(team, "refuse"),
        "E_VALIDATION_001",
        ("$.reason",),
        "$.reason",
    ),
    Refusal(
        "refuse with a payload",
        lambda team: decide(team, "refuse", reason="no", payload={}),
        "E_VALIDATION_004",
        ("$.payload",),
        "$.payload",
    ),
    Refusal(
        "a payload for an action",
        lambda team: decide(team, "approve", payload={}),
        "E_STATE_002",
        ("apr_", "payload"),
    ),
    Refusal(
        "a payload that is no JSON",
        lambda team: decide_held(team, {"a": "\ud800"}),
        "E_VALIDATION_002",
        ("$.payload", "surrogates"),
        "$.payload",
    ),
    Refusal(
        "a payload that is too large",
        lambda team: decide_held(team, {"a": "x" * 2000}),
        "E_VALIDATION_005",
        ("payload",),
        "$.payload",
        policy="limits: {message_bytes_max: 1024}",
    ),
    Refusal("withdraw a held message", withdraw_held, "E_STATE_002", ("apr_", "msg_000001_impl_001")),
    Refusal("withdraw for another", withdraw_of_another, "E_STATE_001", (LONG[:64],), found=LONG[:64]),
    Refusal(
        "discuss with a stranger",
        Ask(cmd.OpenDiscussion("tabs?", ("impl_001", LONG))),
        "E_ROUTING_001",
        (f"agent {LONG[:64]} in",),
        "$.participants",
    ),
    Refusal(
        "one discussion more",
        one_discussion_more,
        "E_ADMISSION_008",
        ("manager_001", "limit of 1 "),
        policy="discussions: {per_agent_max: 1}",
    ),
    Refusal(
        "one discussion more of the project",
        one_discussion_more_of_the_project,
        "E_ADMISSION_008",
        ("project", "limit of 1 "),
        policy="discussions: {open_max: 1}",
    ),
    opening(
        "$.participants", "a list that names each participant once", participants=("impl_001", "impl_001", "impl_002")
    ),
    opening("$.participants", "at least the 2 who must vote", participants=("impl_001",)),
    opening("$.participants", "at least the 3 who must vote", voters_min=3),
    opening("$.participants", "at least the 1 who must vote", voters_min=0),
    opening("$.participants", "at most 1 agents", "discussions: {participants_max: 1}"),
    opening("$.options", "at least two different options", options=("tabs",)),
    opening("$.options", "at least two different options", options=("tabs", "tabs", "spaces")),
    opening("$.options", "at most 2 options", "discussions: {options_max: 2}", options=("tabs", "spaces", "both")),
    opening("$.max_s", "more than 0, at most 300", max_s=0),
    opening("$.max_s", "more than 0, at most 300", max_s=301),
    Refusal(
        "an option that is too long",
        Ask(cmd.OpenDiscussion("tabs?", ("impl_001", "impl_002"), ("x" * 64, "x" * 65)), "manager_001"),
        "E_VALIDATION_004",
        ("$.options", "65", "64"),
        "$.options",
        "65 characters",
        "at most 64 characters",
    ),
    Refusal(
        "one contribution more",
        one_contribution_more,
        "E_ADMISSION_008",
        ("dis_", "limit of 1 "),
        retryable=False,
        policy="discussions: {contributions_max: 1}",
    ),
    Refusal(
        "a vote for no option",
        vote_for_no_option,
        "E_VALIDATION_003",
        (LONG[:64],),
        "$.option",
        LONG[:64],
        "one of agree, disagree",
    ),
    Refusal("a vote of one who takes no part", vote_as_the_opener, "E_STATE_001", (LONG[:64],), found=LONG[:64]),
    Refusal(
        "speak while it is ratified",
        speak_while_it_is_ratified,
        "E_STATE_002",
        ("dis_", "ratifying"),
        policy="approvals: {handoffs: {ratification: {enabled: true}}}",
    ),
    Refusal(
        "an invalid topic", Ask(cmd.Subscribe(LONG)), "E_VALIDATION_004", (LONG[:64],), "$.topic", LONG[:64], TOPIC
    ),
    Refusal(
        "one topic more", one_topic_more, "E_ADMISSION_008", ("limit of 1 topics",), policy="topics: {topics_max: 1}"
    ),
    Refusal(
        "one subscriber more",
        one_subscriber_more,
        "E_ADMISSION_008",
        ("builds", "limit of 1 "),
        policy="topics: {subscribers_max: 1}",
    ),
    Refusal(
        "one subscription more",
        one_subscription_more,
        "E_ADMISSION_008",
        ("impl_001", "limit of 1 "),
        policy="topics: {subscriptions_max: 1}",
    ),
    Refusal(
        "unsubscribe from nothing",
        Ask(cmd.Unsubscribe(LONG)),
        "E_STATE_001",
        ("impl_001", LONG[:128]),
        found=LONG[:128],
    ),
    Refusal(
        "publish to one agent",
        publish_to_one,
        "E_ROUTING_002",
        ("builds", "*"),
        "$.receiver.agentId",
        "impl_002",
        "*",
    ),
    Refusal("publish an ACK", publish_an_ack, "E_ROUTING_002", ("ACK",), "$.messageType"),
    Refusal("report health as a primary", Ask(cmd.ReportHealth({})), "E_AUTH_003", ("impl_001", "report health")),
    Refusal(
        "report an unknown metric",
        Ask(cmd.ReportHealth({LONG: 1.0}), "boss"),
        "E_VALIDATION_003",
        (LONG[:64],),
        "$.values",
        LONG[:64],
        METRICS,
    ),
    Refusal(
        "resolve as a primary",
        Ask(cmd.ResolveEscalation("any", "")),
        "E_AUTH_003",
        ("impl_001", "resolve an escalation"),
    ),
    Refusal(
        "escalate as a primary", Ask(cmd.EscalateToHuman("any")), "E_AUTH_003", ("impl_001", "escalate to a human")
    ),
    Refusal(
        "resolve nothing",
        Ask(cmd.ResolveEscalation(LONG, ""), "boss"),
        "E_STATE_001",
        (LONG[:64],),
        found=LONG[:64],
    ),
    Refusal("escalate twice", escalate_twice, "E_STATE_002", ("esc_", "human")),
    Refusal("resolve twice", resolve_twice, "E_STATE_002", ("esc_", "asked again")),
]


@pytest.mark.parametrize("row", ROWS, ids=ids_of(ROWS))
def test_a_refusal_names_what_is_wrong(new_team: NewTeam, row: Refusal) -> None:
    check(new_team, row)


def test_a_discussion_may_use_its_limits_to_the_full(new_team: NewTeam) -> None:
    team = new_team("discussions: {participants_max: 2, options_max: 2, max_s: 60}")
    for agent in ("manager_001", "impl_001", "impl_002"):
        team.register(agent)
    assert discuss(team, options=("x" * 64, "y"), max_s=60, voters_min=2)
    assert discuss(team, voters_min=1)
