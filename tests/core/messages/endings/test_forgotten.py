"""What the live state forgets is gone from all its lookups."""

from tests.core.conftest import NewTeam
from tocsin.core import commands as cmd
from tocsin.core import events as ev

REPORT = {"errorType": "SystemError", "errorMessage": "broken", "severity": "high"}


def test_an_acknowledged_message_is_forgotten_after_its_time(new_team: NewTeam) -> None:
    """It waits longer to be processed than an ended message is kept; its id can be used again then."""
    team = new_team("retention: {settled_s: 100, acknowledged_s: 500}")
    team.register("lead", "Manager")
    team.register("one")
    team.attach("lead")
    for message in ("msg_1_a", "msg_2_a"):
        team.send("one", "lead", "ERROR_REPORT", payload=REPORT, message_id=message)
        team.ack("lead", message)
    team.done("lead", "msg_2_a")
    team.advance(200, beating=True)
    assert [message.message_id for message in team.exchange.state.messages.values()] == ["msg_1_a"]
    team.advance(400, beating=True)
    assert not team.exchange.state.messages
    assert not team.exchange.state.ids
    forgotten = [(event.settled, event.acknowledged) for event in team.happened(ev.MessagesForgotten)]
    assert [sum(column) for column in zip(*forgotten, strict=True)] == [1, 2], "one had left its list before"
    assert team.refused(cmd.MarkProcessed("msg_1_a"), "lead").code == "E_STATE_001"
    assert not team.send("one", "lead", "ERROR_REPORT", payload=REPORT, message_id="msg_1_a").duplicate
