"""Escalation of a wake that failed, under rules that have nothing to raise."""

import pytest

from tests.core.driver import Team
from tests.core.wake.test_wakes import LATE_S, sleeping_team
from tocsin.core import commands as cmd


def failed(actions: str) -> Team:
    """Return a team with an agent that could not be woken."""
    policy = (
        "wake: {after_s: 1, grace_s: 5, retries_max: 0}\n"
        f"escalation: {{rules: {{wake_failed: {{actions: [{actions}]}}}}}}"
    )
    team = sleeping_team("bob", policy=policy)
    team.register("boss", "Manager", "director")
    team.send("ada", "bob", priority="Blocking")
    team.advance(10 + LATE_S)
    return team


@pytest.mark.parametrize("actions", ["boost", "interrupt_recipient", "boost, escalate_to_human"])
def test_a_director_can_resolve_it_whatever_the_rule_does(actions: str) -> None:
    team = failed(actions)
    (escalation,) = [known for known in team.exchange.state.escalations.values() if known.trigger == "wake_failed"]
    resolved = team.ask(cmd.ResolveEscalation(escalation.escalation, "done"), "boss", cmd.Escalated)
    assert resolved.state == "normal"
    team.check_replay()
