"""Health: LIMINAL's limits one by one, 60 s before an alert, hysteresis, and what the exchange knows by itself."""

import pytest

from tests.core.conftest import NewTeam
from tests.core.driver import SECOND, Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.policies import default_policy

ROUTING = "message_routing_p99_s"


@pytest.mark.parametrize(
    ("metric", "limit"),
    [
        ("message_routing_p99_s", 0.001),
        ("critical_delivery_s", 0.010),
        ("blocking_delivery_s", 0.050),
        ("escalation_latency_s", 0.5),
        ("deadlock_resolution_s", 5),
        ("clone_spawn_p99_s", 0.015),
        ("critical_queue_depth", 10),
        ("blocking_queue_depth", 50),
    ],
)
def test_liminals_limits_and_60_s_before_each_alert(new_team: NewTeam, metric: str, limit: float) -> None:
    policy = default_policy().health
    assert (policy.limits[metric], policy.sustained_s) == (limit, 60)
    team = new_team("quotas: {critical: {cap: 1000}, blocking: {cap: 1000}}\naging: {enabled: false}")
    team.register("boss", "Director", "director")
    team.register("impl_001")
    if metric.endswith("_depth"):
        priority = metric.split("_")[0].capitalize()
        for _ in range(int(limit) + 1):
            team.send("boss", "impl_001", "CUSTOM_NOTE", priority=priority)
        values: dict[str, float] = {}
    else:
        values = {metric: limit * 1.01}
    report(team, values)
    team.now += 59 * SECOND
    assert report(team, values) == ()
    team.now += 1 * SECOND
    assert report(team, values) == (metric,)
    (raised,) = team.happened(ev.AlertRaised)
    assert (raised.metric, raised.limit, raised.threshold_s) == (metric, limit, 60)


def report(team: Team, values: dict[str, float] | None = None, by: str | None = None) -> tuple[str, ...]:
    return team.ask(cmd.ReportHealth(values or {}), by, cmd.HealthReported).alerts


def degraded(team: Team) -> None:
    report(team, {ROUTING: 0.002})
    team.now += 60 * SECOND
    report(team, {ROUTING: 0.002})


def test_at_the_limit_is_not_over_it(team: Team) -> None:
    report(team, {ROUTING: 0.001})
    assert not team.happened(ev.HealthBreached)


def test_a_breach_that_passes_raises_nothing(team: Team) -> None:
    report(team, {ROUTING: 0.002})
    team.now += 59 * SECOND
    report(team, {ROUTING: 0.0005})
    team.now += 10 * SECOND
    assert report(team, {ROUTING: 0.002}) == ()
    assert [type(event) for event in team.events[-3:]] == [ev.HealthBreached, ev.HealthRecovered, ev.HealthBreached]


def test_an_alert_is_escalated_once_and_closed_when_it_is_cleared(team: Team) -> None:
    degraded(team)
    for _ in range(5):
        team.now += 5 * SECOND
        report(team, {ROUTING: 0.005})
    (escalation,) = team.exchange.state.escalations.values()
    assert (escalation.trigger, escalation.subject) == ("health_degraded", ROUTING)
    assert [step.state for step in escalation.steps] == ["health_escalation", "critical_alert"]
    report(team, {ROUTING: 0.0001})
    team.now += 60 * SECOND
    assert report(team, {ROUTING: 0.0001}) == ()
    assert escalation.state == "normal"
    assert not team.exchange.state.alerts


def test_a_value_that_swings_raises_one_alert(team: Team) -> None:
    degraded(team)
    for _ in range(10):
        team.now += 30 * SECOND
        assert report(team, {ROUTING: 0.0007}) == (ROUTING,), "well under, but not for long enough"
        team.now += 30 * SECOND
        assert report(team, {ROUTING: 0.0009}) == (ROUTING,), "under the limit is not well under it"
    assert len(team.happened(ev.AlertRaised)) == 1
    assert len(team.happened(ev.AlertEased)) == len(team.happened(ev.AlertWorsened)) == 10


def test_only_changes_are_events(team: Team) -> None:
    degraded(team)
    before = len(team.events)
    for _ in range(20):
        report(team, {ROUTING: 0.003})
    assert len(team.events) == before


def test_the_rate_of_escalations_counts(new_team: NewTeam) -> None:
    team = new_team("health: {sustained_s: 1, limits: {escalations_per_minute: 2}}")
    for name, role in (("impl_001", "primary"), ("impl_002", "primary"), ("boss", "director")):
        team.register(name, role=role)
    for _ in range(3):
        payload = {"errorType": "TaskFailure", "errorMessage": "broken", "severity": "critical"}
        team.send("impl_001", "boss", "ERROR_REPORT", payload=payload)
    report(team)
    team.now += SECOND
    assert report(team) == ("escalations_per_minute",)


def test_who_may_report_what(team: Team) -> None:
    assert team.refused(cmd.ReportHealth({ROUTING: 1.0}), "impl_001").code == "E_AUTH_003"
    assert team.refused(cmd.ReportHealth({"mood": 1.0}), "boss").code == "E_VALIDATION_003"
    report(team, {"clone_spawn_p99_s": 1.0}, "boss")
    assert team.happened(ev.HealthBreached)[-1].metric == "clone_spawn_p99_s"
