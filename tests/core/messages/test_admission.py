"""What a sender may spend: LIMINAL's costs, quotas, privileges and gaming, with the design's minimum to judge from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.conftest import NewTeam
from tests.core.driver import Team
from tocsin.core import commands as cmd
from tocsin.core import events as ev
from tocsin.core.errors import Problem
from tocsin.core.messages.admission import levels


def left(team: Team, agent: str) -> tuple[float, float, float]:
    """Return the tokens, Critical quota and Blocking quota that an agent has."""
    return levels(team.exchange.state.agents[agent], team.exchange.state.policy, team.now)


def send(team: Team, sender: str, priority: str) -> cmd.Receipt:
    return team.send(sender, "impl_002", "CUSTOM_NOTE", priority=priority)


def refused(team: Team, sender: str, priority: str) -> Problem:
    return team.refused_send(sender, "impl_002", "CUSTOM_NOTE", priority=priority)


@pytest.mark.parametrize(("priority", "cost"), [("Info", 1), ("Coordinate", 5), ("Blocking", 20), ("Critical", 100)])
def test_what_a_message_costs(team: Team, priority: str, cost: float) -> None:
    send(team, "impl_001", priority)
    assert left(team, "impl_001")[0] == 1000 - cost


def test_an_override_costs_nothing(team: Team) -> None:
    for _ in range(50):
        send(team, "boss", "DirectorOverride")
    assert len(team.happened(ev.MessageAccepted)) == 50
    assert {event.tokens for event in team.happened(ev.MessageAccepted)} == {None}


@pytest.mark.parametrize(
    ("role", "tokens", "critical", "blocking"), [("primary", 1000, 5, 20), ("clone", 500, 2.5, 10)]
)
def test_what_a_role_starts_with(team: Team, role: str, tokens: float, critical: float, blocking: float) -> None:
    team.register("newcomer", role=role)
    assert left(team, "newcomer") == (tokens, critical, blocking)


def test_an_empty_bucket_refuses_and_says_when_to_try_again(new_team: NewTeam) -> None:
    team = crew(new_team, "bucket: {capacity: 10, refill_per_s: 2}")
    send(team, "impl_001", "Coordinate")
    send(team, "impl_001", "Coordinate")
    problem = refused(team, "impl_001", "Coordinate")
    assert (problem.code, problem.retryable, problem.retry_after_s) == ("E_ADMISSION_001", True, 2.5)
    assert problem.entry.status == 429
    team.advance(2.499)
    refused(team, "impl_001", "Coordinate")
    team.advance(0.001)
    send(team, "impl_001", "Coordinate")


def test_a_message_that_no_bucket_ever_holds_is_refused_for_good(new_team: NewTeam) -> None:
    team = crew(new_team, "bucket: {capacity: 10}")
    problem = refused(team, "impl_001", "Critical")
    assert (problem.code, problem.retryable, problem.retry_after_s) == ("E_ADMISSION_001", False, None)


def test_five_critical_and_then_one_in_ten_seconds(new_team: NewTeam) -> None:
    team = crew(new_team, "gaming: {high_priority_ratio: 1}")
    for _ in range(5):
        send(team, "impl_001", "Critical")
    problem = refused(team, "impl_001", "Critical")
    assert (problem.code, problem.retryable) == ("E_ADMISSION_002", True)
    assert problem.retry_after_s == pytest.approx(10)
    team.advance(9.9)
    refused(team, "impl_001", "Critical")
    team.advance(0.2)
    send(team, "impl_001", "Critical")
    assert refused(team, "impl_001", "Critical").code == "E_ADMISSION_002"


def test_twenty_blocking_and_then_one_a_second(new_team: NewTeam) -> None:
    team = crew(new_team, "gaming: {high_priority_ratio: 1}")
    for _ in range(20):
        send(team, "impl_001", "Blocking")
    problem = refused(team, "impl_001", "Blocking")
    assert problem.code == "E_ADMISSION_003"
    assert problem.retry_after_s == pytest.approx(1)
    team.advance(1.1)
    send(team, "impl_001", "Blocking")
    assert refused(team, "impl_001", "Blocking").code == "E_ADMISSION_003"


@pytest.mark.parametrize(("role", "share"), [("primary", 1.0), ("clone", 0.5)])
def test_a_bucket_comes_back_up_to_the_share_of_its_role(new_team: NewTeam, role: str, share: float) -> None:
    team = new_team("roles: {clone: {max_priority: Critical}}")
    team.register("ann", role=role)
    team.register("impl_002")
    send(team, "ann", "Info")
    team.advance(3600)
    assert left(team, "ann") == (1000 * share, 5 * share, 20 * share)


def test_quotas_come_back_up_to_their_caps(new_team: NewTeam) -> None:
    team = crew(new_team, "gaming: {high_priority_ratio: 1}")
    for _ in range(5):
        send(team, "impl_001", "Critical")
        send(team, "impl_001", "Blocking")
    team.advance(3600)
    assert left(team, "impl_001") == (1000, 5, 20)


def test_a_refused_message_costs_nothing(team: Team) -> None:
    before = left(team, "impl_001")
    team.refused_send("impl_001", "nobody", "CUSTOM_NOTE", priority="Critical")
    assert left(team, "impl_001") == before


def test_a_broadcast_costs_its_priority_once_and_info_for_each_further_copy(team: Team) -> None:
    copies = len(team.broadcast("impl_001", "CUSTOM_NOTE", priority="Blocking").receipts)
    assert copies == 4
    assert left(team, "impl_001") == (1000 - 20 - 3, 5, 19)


def test_a_critical_to_a_team_of_fifty_is_possible(new_team: NewTeam) -> None:
    team = new_team()
    team.register("a")
    for number in range(50):
        team.register(f"peer_{number:02d}")
    team.broadcast("a", "CUSTOM_NOTE", priority="Critical")
    assert left(team, "a") == (1000 - 100 - 49, 4, 20)


def test_a_broadcast_to_more_than_the_bucket_holds_is_refused_for_good(new_team: NewTeam) -> None:
    team = new_team("bucket: {capacity: 10}")
    team.register("a")
    for number in range(11):
        team.register(f"peer_{number:02d}")
    problem = team.refused_send("a", "*", "StatusUpdate")
    assert (problem.code, problem.retryable) == ("E_ADMISSION_001", False)
    assert "to 11 agents costs 11" in problem.detail
    assert not team.exchange.state.messages


def test_broadcasts_make_no_more_copies_than_the_bucket_allows(new_team: NewTeam) -> None:
    """300 broadcasts of a primary to 62 agents made 18,600 copies; its bucket allows 1,000 and 100 a second."""
    team = new_team()
    team.register("a")
    for number in range(62):
        team.register(f"peer_{number:02d}")
    refused: list[Problem] = []
    for _ in range(300):
        reply = team.handle(cmd.Send(team.envelope("a", "*")), team.caller("a")).reply
        refused += [reply] if isinstance(reply, Problem) else []
        team.advance(0.01)
    assert len(team.exchange.state.messages) <= 1000 + 300 * 0.01 * 100
    assert len(refused) > 270
    assert {(problem.code, problem.retryable) for problem in refused} == {("E_ADMISSION_001", True)}
    assert 0 < (refused[0].retry_after_s or 0) <= 0.62


def test_a_duplicate_costs_nothing(team: Team) -> None:
    for _ in range(3):
        team.send("impl_001", "impl_002", "CUSTOM_NOTE", priority="Blocking", message_id="msg_1_a")
    assert left(team, "impl_001") == (980, 5, 19)


@pytest.mark.parametrize(
    ("role", "asked", "granted"),
    [
        ("director", "DirectorOverride", "DirectorOverride"),
        ("director", "Info", "Info"),
        ("human", "DirectorOverride", "DirectorOverride"),
        ("primary", "Critical", "Critical"),
        ("primary", "Info", "Info"),
        ("clone", "Info", "Info"),
        ("clone", "Coordinate", "Coordinate"),
        ("clone", "Blocking", "Coordinate"),
        ("clone", "Critical", "Coordinate"),
        ("clone", "DirectorOverride", "Coordinate"),
    ],
)
def test_what_a_role_is_granted(team: Team, role: str, asked: str, granted: str) -> None:
    team.register("newcomer", role=role)
    receipt = send(team, "newcomer", asked)
    assert (receipt.requested_priority, receipt.priority) == (asked, granted)
    rule = team.happened(ev.MessageAccepted)[-1].rule
    assert rule == ("as_requested" if asked == granted else "role_cap")


def test_a_primary_may_not_override(team: Team) -> None:
    problem = refused(team, "impl_001", "DirectorOverride")
    assert (problem.code, problem.field, problem.retryable) == ("E_ADMISSION_004", "$.priority", False)
    assert (problem.found, problem.expected) == ("DirectorOverride", "at most Critical")
    assert problem.entry.status == 403


def test_the_contract_decides_where_the_sender_does_not(team: Team) -> None:
    team.attach("impl_002")
    receipt = team.send("impl_001", "impl_002", "Blocker")
    assert receipt.priority == "Critical"
    assert team.happened(ev.MessageAccepted)[-1].rule == "contract_default"


def test_four_blocking_of_four_are_too_few_to_judge(team: Team) -> None:
    for _ in range(4):
        send(team, "impl_001", "Blocking")
    assert send(team, "impl_001", "Blocking").priority == "Blocking"
    assert not team.happened(ev.GamingDetected)


def test_five_blocking_of_five_are_gaming(team: Team) -> None:
    for _ in range(5):
        assert send(team, "impl_001", "Blocking").priority == "Blocking"
    receipt = send(team, "impl_001", "Blocking")
    assert (receipt.requested_priority, receipt.priority) == ("Blocking", "Info")
    accepted = team.happened(ev.MessageAccepted)
    (last,) = (event for event in accepted if event.message_id == receipt.message_id)
    assert (last.rule, last.high, last.messages, last.limit, last.window_s) == ("gaming", 5, 5, 0.5, 60)
    (detected,) = team.happened(ev.GamingDetected)
    assert (detected.agent, detected.messages, detected.high) == ("impl_001", 5, 5)
    assert (detected.threshold, detected.window_s) == (0.5, 60)


@pytest.mark.parametrize(("low", "high", "gaming"), [(3, 3, False), (3, 4, True), (4, 3, False), (2, 3, True)])
def test_more_than_half_is_gaming(team: Team, low: int, high: int, gaming: bool) -> None:
    for _ in range(low):
        send(team, "impl_001", "Info")
    for _ in range(high):
        send(team, "impl_001", "Critical")
    granted = send(team, "impl_001", "Coordinate").priority
    assert granted == ("Info" if gaming else "Coordinate")
    assert bool(team.happened(ev.GamingDetected)) is gaming


def test_the_directors_are_told_once(team: Team) -> None:
    for _ in range(12):
        send(team, "impl_001", "Blocking")
    notices = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    assert [(notice.recipient, notice.message_type) for notice in notices] == [("boss", "ERROR_REPORT")]
    assert b"impl_001" in notices[0].payload


def test_humans_are_told_where_there_is_no_director(new_team: NewTeam) -> None:
    team = crew(new_team)
    team.register("anna", "Human", "human")
    for _ in range(6):
        send(team, "impl_001", "Blocking")
    notices = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    assert [notice.recipient for notice in notices] == ["anna"]


def test_gaming_ends_with_the_window(team: Team) -> None:
    for _ in range(6):
        send(team, "impl_001", "Blocking")
    team.advance(59)
    assert send(team, "impl_001", "Blocking").priority == "Info"
    team.advance(1)
    assert send(team, "impl_001", "Blocking").priority == "Blocking"
    (cleared,) = team.happened(ev.GamingCleared)
    assert cleared.agent == "impl_001"


def test_what_a_gamer_asks_for_still_counts(team: Team) -> None:
    for _ in range(10):
        send(team, "impl_001", "Blocking")
    assert team.exchange.state.agents["impl_001"].gaming
    for _ in range(10):
        send(team, "impl_001", "Info")
    assert send(team, "impl_001", "Blocking").priority == "Blocking"
    assert len(team.happened(ev.GamingCleared)) == 1


@pytest.mark.parametrize("sender", ["boss", "twin"])
def test_directors_and_clones_are_not_watched(team: Team, sender: str) -> None:
    for _ in range(10):
        send(team, sender, "Blocking")
    assert not team.happened(ev.GamingDetected)


def test_a_downgraded_message_costs_what_it_is_granted(team: Team) -> None:
    for _ in range(5):
        send(team, "impl_001", "Blocking")
    before = left(team, "impl_001")
    send(team, "impl_001", "Critical")
    after = left(team, "impl_001")
    assert (before[0] - after[0], after[1:]) == (1 + 1, before[1:]), "Info, and the notice to the director"


def test_a_lesser_role_keeps_no_more_than_its_share(team: Team) -> None:
    send(team, "impl_001", "Info")
    team.register("impl_001", role="clone")
    assert left(team, "impl_001") == (500, 2.5, 10)


def test_a_token_whose_role_changed_must_register_again(team: Team) -> None:
    team.register("impl_001")
    command = cmd.Send(team.envelope("impl_001", "impl_002"))
    reply = team.handle(command, cmd.Caller("impl_001", "director")).reply
    assert isinstance(reply, Problem)
    assert reply.code == "E_AUTH_007"


def crew(new_team: NewTeam, policy: str | None = None) -> Team:
    team = new_team(policy)
    team.register("impl_001")
    team.register("impl_002")
    return team


ACTIONS = st.lists(
    st.tuples(st.sampled_from(["Info", "Coordinate", "Blocking", "Critical"]), st.floats(0, 20)), max_size=60
)
#: Tokens by priority.
COSTS = {"Info": 1, "Coordinate": 5, "Blocking": 20, "Critical": 100}


@given(ACTIONS, st.sampled_from(["primary", "clone"]))
def test_nobody_spends_more_than_it_has(actions: list[tuple[str, float]], role: str) -> None:
    team = Team("gaming: {high_priority_ratio: 1}\nbucket: {capacity: 300, refill_per_s: 7}")
    team.register("impl_001", role=role)
    team.register("impl_002")
    share = 1 if role == "primary" else 0.5
    spent = 0.0
    start = team.now
    for priority, pause_s in actions:
        command = cmd.Send(team.envelope("impl_001", "impl_002", "CUSTOM_NOTE", priority=priority))
        reply = team.handle(command, team.caller("impl_001")).reply
        tokens, critical, blocking = left(team, "impl_001")
        assert 0 <= tokens <= 300 * share
        assert 0 <= critical <= 5 * share
        assert 0 <= blocking <= 20 * share
        if isinstance(reply, cmd.Receipt):
            spent += COSTS[reply.priority]
            assert spent <= (300 + 7 * (team.now - start) / 1_000_000) * share + 1e-6
        elif isinstance(reply, Problem) and reply.retry_after_s is not None:
            assert reply.retry_after_s > 0
            before = team.now
            team.now += round(reply.retry_after_s * 1_000_000) + 1
            again = cmd.Send(team.envelope("impl_001", "impl_002", "CUSTOM_NOTE", priority=priority))
            outcome = team.handle(again, team.caller("impl_001")).reply
            assert not isinstance(outcome, Problem) or outcome.code != reply.code, "come back when it said"
            if isinstance(outcome, cmd.Receipt):
                spent += COSTS[outcome.priority]
            assert team.now > before
        team.now += round(pause_s * 1_000_000)
    team.check_replay()


def test_humans_are_left_alone_where_there_is_a_director(team: Team) -> None:
    team.register("anna", "Human", "human")
    for _ in range(6):
        send(team, "impl_001", "Blocking")
    notices = [event for event in team.happened(ev.MessageAccepted) if event.sender == "tocsin"]
    assert [notice.recipient for notice in notices] == ["boss"]
