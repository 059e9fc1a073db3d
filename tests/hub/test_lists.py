"""Lists: every one has pages, on every interface, and none holds the event loop for more than a turn's rows."""

import asyncio
from pathlib import Path
from typing import Any, get_origin

import msgspec
import pytest

from tests.envelopes import envelope
from tests.gateways.hubs import QUICK, HubTeam, team_at
from tocsin.core.commands import Caller, RegisterAgent
from tocsin.core.teamwork.health import known_values
from tocsin.form import package_form
from tocsin.hub.operations import Call, perform
from tocsin.wire.operation import NO_REQUEST, NamedPage, Operation, Page
from tocsin.wire.table import OPERATIONS

#: Replies with a list whose length has a bound that is not the caller's choice.
BOUNDED = {
    "send_messages": "one for each envelope of a batch",
    "revoke_tokens": "the tokens of one agent",
    "check_paths": "the leases on the given paths",
    "count_dead_letters": "one for each reason and code",
    "list_pending": "dashboard.pending_max",
    "list_conversations": "dashboard.conversations_max",
    "get_overview": "label_values_max",
    "get_archive": "the tables of the pipeline",
    "get_advice": "the rules of the advice",
}
AGENTS = 3000
PER_TURN = 50
CALLERS = 8


def _has_list(reply: Any) -> bool:
    if get_origin(reply) in (list, Page, NamedPage):
        return True
    if not (isinstance(reply, type) and issubclass(reply, msgspec.Struct)):
        return False
    shapes = [field.type for field in msgspec.structs.fields(reply)]
    return any(get_origin(shape) is list for shape in shapes)


@pytest.mark.parametrize("row", [row for row in OPERATIONS.values() if _has_list(row.reply)], ids=lambda row: row.name)
def test_every_list_has_a_limit_and_a_cursor(row: Operation) -> None:
    if row.name in BOUNDED:
        return
    fields = set(row.request.__struct_fields__)
    assert "limit" in fields, f"{row.name} has no limit"
    if row.name in ("get_message", "trace_message", "fetch_inbox", "peek_inbox"):
        return  # copies of one message, found by their ids; a drain goes on where it ended, a look shows the first
    assert "after" in fields, f"{row.name} has no cursor"
    reply: Any = get_origin(row.reply) or row.reply
    assert "next" in reply.__struct_fields__, f"{row.name} does not tell where the next page begins"


class _Watched:
    """An agent of the state that reports each access to it."""

    def __init__(self, agent: Any, seen: set[str]) -> None:
        self._agent, self._seen = agent, seen

    def __getattr__(self, name: str) -> Any:
        self._seen.add(self._agent.agent)
        return getattr(self._agent, name)


class _WatchedAgents(dict[str, Any]):
    """The agents of the state, where every row that is listed is counted."""

    def __init__(self, agents: dict[str, Any], seen: set[str]) -> None:
        super().__init__(agents)
        self._rows_seen = seen

    def values(self) -> Any:
        return [_Watched(agent, self._rows_seen) for agent in super().values()]


class _Turns:
    """Counts the rows that are looked at in each turn of the event loop."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.most = self.turns = 0
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._next)

    def _next(self) -> None:
        self.most = max(self.most, len(self.seen))
        self.turns += 1
        self.seen.clear()
        self._handle = self._loop.call_soon(self._next)

    def end(self) -> None:
        self._handle.cancel()


async def _crowd(team: HubTeam) -> None:
    commands = [
        team.hub.host.submit(RegisterAgent("AdHoc"), Caller(f"agent-{number:05}", "primary"))
        for number in range(AGENTS)
    ]
    await asyncio.gather(*commands)


@pytest.mark.skipif(package_form() == "compiled", reason="the compiled form takes no agent that a test watches")
@pytest.mark.parametrize(
    ("operation", "arguments"),
    [("list_agents", {"limit": 500}), ("list_roster", {"q": "agent-", "limit": 500})],
)
async def test_no_list_of_many_agents_holds_the_loop(tmp_path: Path, operation: str, arguments: dict[str, Any]) -> None:
    async with team_at(tmp_path, QUICK, rows_per_turn=PER_TURN) as team:
        await team.register("ada")
        await team.register("boss", "director")
        await _crowd(team)
        turns, state = _Turns(), team.hub.host.exchange.state
        agents = state.agents
        state.agents = _WatchedAgents(agents, turns.seen)
        try:
            call = Call(team.hub.project, Caller("boss", "director"))
            row = OPERATIONS[operation]
            lists = [asyncio.ensure_future(perform(call, row, call.read(row, arguments))) for _ in range(CALLERS)]
            urgent = envelope(1, "boss", "ada", priority="Critical")
            sending = asyncio.ensure_future(team.post("boss", "/v1/messages", urgent))
            while "msg_1_x" not in state.ids:  # Its commit takes as long as the disk does.
                await asyncio.sleep(0)
            assert not all(reply.done() for reply in lists), "the send is decided before the lists are done"
            replies = await asyncio.gather(*lists)
            assert (await sending).status_code == 200
        finally:
            state.agents = agents
            turns.end()
        assert {len(reply.items) for reply in replies} == {500}
        assert turns.turns > CALLERS * AGENTS / PER_TURN
        assert 0 < turns.most <= PER_TURN, f"{turns.most} rows in one turn of the loop"


async def test_pages_continue_where_the_last_one_ended_whatever_happens_in_between(tmp_path: Path) -> None:
    async with team_at(tmp_path, QUICK, rows_per_turn=7, page_max=10) as team:
        await team.register("boss", "director")
        for number in range(35):
            await team.register(f"agent-{number:02}")
        found: list[str] = []
        path: str | None = "/v1/agents?limit=1000"
        while path is not None:
            page = (await team.get("boss", path)).json()
            assert len(page["items"]) <= 10, "the hub's own limit counts"
            found += [row["agent"] for row in page["items"]]
            path = None if page["next"] is None else f"/v1/agents?limit=1000&after={page['next']}"
            if len(found) == 10:
                await team.call("DELETE", "boss", "/v1/agents/agent-03")
                await team.register("agent-99")
        assert found == [*(f"agent-{number:02}" for number in range(35)), "agent-99", "boss"]
        wrong = (await team.get("boss", "/v1/agents?after=x:y")).json()
        assert (wrong["code"], wrong["field"]) == ("E_VALIDATION_004", "$.after")


async def test_requests_are_listed_oldest_first_page_by_page(tmp_path: Path) -> None:
    async with team_at(tmp_path, QUICK, rows_per_turn=2) as team:
        for agent in ("ada", "bob", "eve"):
            await team.register(agent)
        for number in (3, 1, 2, 5, 4):
            question = envelope(number, messageType="Question", correlationId=f"q{number}")
            question["qos"] = {"deliveryClass": "async"}
            assert (await team.post("ada", "/v1/requests?timeout_s=600", question)).status_code == 200
        first = (await team.get("bob", "/v1/requests?limit=3")).json()
        second = (await team.get("bob", f"/v1/requests?limit=3&after={first['next']}")).json()
        listed = [row["request"] for page in (first, second) for row in page["items"]]
        assert listed == [f"msg_{number}_x" for number in (3, 1, 2, 5, 4)]
        assert (await team.get("eve", "/v1/requests")).json() == {"items": [], "next": None}
        one = (await team.get("ada", "/v1/requests?request=msg_5_x")).json()["items"]
        assert [row["request"] for row in one] == ["msg_5_x"]


@pytest.mark.skipif(package_form() == "compiled", reason="the compiled form takes no dictionary that a test watches")
async def test_counts_of_waiting_messages_look_at_no_agent(tmp_path: Path) -> None:
    async with team_at(tmp_path) as team:
        await team.register("ada")
        await team.register("boss", "director")
        for number in range(3):
            await team.post("boss", "/v1/messages", envelope(number, "boss", "ada", priority="Blocking"))
        turns, state = _Turns(), team.hub.host.exchange.state
        agents = state.agents
        state.agents = _WatchedAgents(agents, turns.seen)
        try:
            status = await perform(
                Call(team.hub.project, Caller("boss", "director")), OPERATIONS["get_status"], NO_REQUEST()
            )
            assert status.waiting["Blocking"] == known_values(state, 0)["blocking_queue_depth"] == 3
            assert b'queue_depth{priority="Blocking"} 3.0' in team.hub.metrics.expose(state)
            assert not turns.seen
        finally:
            state.agents = agents
            turns.end()


async def test_a_page_of_large_messages_ends_early_and_the_next_one_continues(tmp_path: Path) -> None:
    async with team_at(tmp_path, QUICK, page_bytes_max=3500) as team:
        await team.register("ada")
        await team.register("boss", "director")
        for number in range(7):
            sent = envelope(number, "boss", "ada", payload={"text": "word " + "x" * 1000}, correlationId="large")
            assert (await team.post("boss", "/v1/messages", sent)).status_code == 200
        for path in ("/v1/inbox?states=queued&", "/v1/threads/large?"):
            pages: list[list[str]] = []
            after: int | None = 0
            while after is not None:
                page = (await team.get("ada", f"{path}after={after}")).json()
                pages.append([row["message_id"] for row in page["items"]])
                after = page["next"]
            assert [len(names) for names in pages] == [2, 2, 2, 1]
            assert [name for names in pages for name in names] == [f"msg_{number}_x" for number in range(7)]
        large = envelope(7, "boss", "ada", payload={"text": "x" * 3000}, correlationId="alone")
        assert (await team.post("boss", "/v1/messages", large)).status_code == 200
        assert len((await team.get("ada", "/v1/threads/alone")).json()["items"]) == 1, "the first one always fits"
