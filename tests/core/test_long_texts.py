"""Free texts of commands: each is refused by its path when it is longer than the policy allows."""

import pytest

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd
from tocsin.core.commands import Command

LONG, FULL = "x" * 21, "x" * 20


def texts(text: str, names: dict[str, str]) -> dict[str, tuple[str, Command, str]]:
    """Return the agent, the command and the path for each free text."""
    message, lease, approval = names["message"], names["lease"], names["approval"]
    return {
        "retire": ("one", cmd.RetireAgent("one", text), "$.reason"),
        "subject": ("one", cmd.RequestApproval("pre_merge_review", text), "$.subject"),
        "details": ("one", cmd.RequestApproval("pre_merge_review", "it", text), "$.details"),
        "decide": ("boss", cmd.DecideApproval(approval, "approve", text), "$.reason"),
        "reject": ("one", cmd.Reject(message, text), "$.reason"),
        "code": ("one", cmd.Reject(message, "no", text), "$.code"),
        "fix": ("one", cmd.Reject(message, "no", "", False, text), "$.suggestedFix"),
        "notes": ("one", cmd.Acknowledge(message, "received", text), "$.notes"),
        "force": ("boss", cmd.ForceRelease(lease, text), "$.reason"),
        "resolve": ("boss", cmd.ResolveEscalation(names["escalation"], text), "$.resolution"),
        "escalate": ("boss", cmd.EscalateToHuman(names["escalation"], text), "$.reason"),
        "question": ("one", cmd.OpenDiscussion(text, ("two", "three")), "$.question"),
        "speak": ("one", cmd.Speak(names["discussion"], text), "$.text"),
    }


CASES = list(texts("", dict.fromkeys(("message", "lease", "approval", "escalation", "discussion"), "any")))


@pytest.mark.parametrize("case", CASES)
def test_a_text_that_is_too_long_is_refused_by_its_path(new_team: NewTeam, case: str) -> None:
    team = new_team("limits: {text_max: 20}")
    for agent in ("one", "two", "three"):
        team.register(agent)
    team.register("boss", "Director", "director")
    names = {}
    envelope = team.envelope("two", "three", "CUSTOM_ASK", correlation_id="t-1")
    team.ask(cmd.SendRequest(envelope, 1), "two", cmd.Requested)
    team.advance(2)
    (names["escalation"],) = team.exchange.state.open_escalations
    team.attach("one")
    names["message"] = team.send("two", "one").message_id
    names["lease"] = team.hold(cmd.AcquireLease(("a",)), "two").lease
    names["approval"] = team.ask(cmd.RequestApproval("pre_merge_review", "it"), "two", cmd.ApprovalRequested).approval
    names["discussion"] = team.ask(cmd.OpenDiscussion("tabs?", ("two", "three")), "one", cmd.Discussed).discussion
    agent, command, path = texts(LONG, names)[case]
    problem = team.refused(command, agent)
    assert (problem.code, problem.field, problem.found) == ("E_VALIDATION_004", path, "21 characters")
    _, command, _ = texts(FULL, names)[case]
    reply = team.handle(command, team.caller(agent)).reply
    assert getattr(reply, "code", None) is None, "as long as it may be"
