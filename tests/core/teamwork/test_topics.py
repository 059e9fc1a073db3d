"""Topics: at least once into every subscriber's mailbox, bounded, to each or to all."""

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.messages.model import State


def subscribe(team: Team, agent: str, topic: str = "build/main") -> tuple[str, ...]:
    return team.ask(cmd.Subscribe(topic), agent, cmd.Subscriptions).topics


def publish(team: Team, sender: str = "manager_001", topic: str = "build/main", **parts: object) -> cmd.Published:
    guarantee = parts.pop("guarantee", "each")
    envelope = team.envelope(sender, "*", "CUSTOM_BUILD", **parts)  # type: ignore[arg-type]
    return team.ask(cmd.Publish(topic, envelope, guarantee), sender, cmd.Published)  # type: ignore[arg-type]


def test_every_subscriber_gets_it_attached_or_not(team: Team) -> None:
    subscribe(team, "impl_001")
    subscribe(team, "impl_002")
    subscribe(team, "manager_001")
    team.attach("impl_001")
    published = publish(team)
    assert [receipt.recipient for receipt in published.receipts] == ["impl_001", "impl_002"], "not oneself"
    states = {copy.recipient: copy.state for copy in team.exchange.state.copies_of(published.receipts[0].message_id)}
    assert states == {"impl_001": State.OFFERED, "impl_002": State.QUEUED}
    (event,) = team.happened(ev.TopicPublished)
    assert (event.topic, event.reached, event.missed) == ("build/main", 2, 0)


def test_it_is_delivered_at_least_once(team: Team) -> None:
    subscribe(team, "impl_001")
    session = team.attach("impl_001")
    published = publish(team)
    team.detach(session)
    again = team.attach("impl_001", "piggyback")
    assert team.drain(again) == [f"{published.receipts[0].message_id}:impl_001"]


def test_only_its_own_topic_and_only_while_subscribed(team: Team) -> None:
    assert subscribe(team, "impl_001") == ("build/main",)
    assert subscribe(team, "impl_001", "tests") == ("build/main", "tests")
    assert team.ask(cmd.Unsubscribe("build/main"), "impl_001", cmd.Subscriptions).topics == ("tests",)
    assert publish(team) == cmd.Published("build/main")
    assert team.happened(ev.TopicPublished)[-1].reached == 0
    assert list(team.exchange.state.topics) == ["tests"]


def test_subscribing_twice_is_once_and_leaving_what_is_not_held_is_refused(team: Team) -> None:
    subscribe(team, "impl_001")
    subscribe(team, "impl_001")
    assert len(team.happened(ev.Subscribed)) == 1
    assert team.refused(cmd.Unsubscribe("tests"), "impl_001").code == "E_STATE_001"
    assert team.refused(cmd.Unsubscribe("build/main"), "impl_002").code == "E_STATE_001"


def full(new_team: NewTeam) -> Team:
    team = new_team("limits: {mailbox_depth_max: 1}")
    for name in ("manager_001", "impl_001", "impl_002"):
        team.register(name)
        if name != "manager_001":
            subscribe(team, name)
    team.send("manager_001", "impl_001", "CUSTOM_NOTE")
    return team


def test_each_reaches_whom_it_can_and_names_the_others(new_team: NewTeam) -> None:
    published = publish(full(new_team))
    assert [receipt.recipient for receipt in published.receipts] == ["impl_002"]
    assert list(published.failed) == ["impl_001"]


def test_all_reaches_all_or_none(new_team: NewTeam) -> None:
    team = full(new_team)
    envelope = team.envelope("manager_001", "*", "CUSTOM_BUILD")
    problem = team.refused(cmd.Publish("build/main", envelope, "all"), "manager_001")
    assert problem.code == "E_ROUTING_004"
    assert not team.exchange.state.broadcasts
    session = team.attach("impl_001", "piggyback")
    team.drain(session)
    publish(team, guarantee="all")
    assert team.happened(ev.TopicPublished)[-1].reached == 2


def test_the_same_publication_again_changes_nothing(team: Team) -> None:
    subscribe(team, "impl_001")
    envelope = team.envelope("manager_001", "*", "CUSTOM_BUILD")
    team.ask(cmd.Publish("build/main", envelope), "manager_001", cmd.Published)
    before = len(team.events)
    again = team.ask(cmd.Publish("build/main", envelope), "manager_001", cmd.Published)
    assert [receipt.duplicate for receipt in again.receipts] == [True]
    assert len(team.events) == before


def test_a_retired_agent_is_subscribed_to_nothing(team: Team) -> None:
    subscribe(team, "impl_001")
    team.ask(cmd.RetireAgent("impl_001"), "boss", cmd.Done)
    assert not team.exchange.state.topics
    assert team.happened(ev.Unsubscribed)[-1].reason == "retired"


@pytest.mark.parametrize("topic", ["", "a b", "*", "/x", "x" * 129])
def test_names_that_cannot_be(team: Team, topic: str) -> None:
    assert team.refused(cmd.Subscribe(topic), "impl_001").code == "E_VALIDATION_004"


def test_what_cannot_be_published(team: Team) -> None:
    subscribe(team, "impl_002")
    one = team.envelope("impl_001", "impl_002", "CUSTOM_BUILD")
    assert team.refused(cmd.Publish("build/main", one), "impl_001").code == "E_ROUTING_002"
    other = team.envelope("impl_002", "*", "CUSTOM_BUILD")
    assert team.refused(cmd.Publish("build/main", other), "impl_001").code == "E_AUTH_002"
    assert team.refused(cmd.Publish("empty", other), "impl_001").code == "E_AUTH_002"
    unknown = team.envelope("impl_001", "*", "NONSENSE")
    assert team.refused(cmd.Publish("empty", unknown), "impl_001").code == "E_VALIDATION_003"


@pytest.mark.parametrize("limit", ["subscribers_max", "subscriptions_max", "topics_max"])
def test_limits(new_team: NewTeam, limit: str) -> None:
    team = new_team(f"topics: {{{limit}: 1}}")
    team.register("impl_001")
    team.register("impl_002")
    subscribe(team, "impl_001", "one")
    who, topic = ("impl_002", "one") if limit == "subscribers_max" else ("impl_001", "two")
    assert team.refused(cmd.Subscribe(topic), who).code == "E_ADMISSION_008"
