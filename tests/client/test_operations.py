"""Operations are called and refused alike over every transport, and every operation has its place in the SDK."""

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_origin

import msgspec
import pytest

from tests.client.grounds import KINDS, POLICY, calling, ground_of, sync_ground_of
from tests.patience import PATIENCE_S
from tocsin.client import Agent, Message, NoResponse, SyncAgent, SyncMessage
from tocsin.client.operations import Operations
from tocsin.core.commands import SendRequest
from tocsin.core.errors import NotPermitted, StateConflict, ValidationFailed
from tocsin.wire.operation import Access, NamedPage
from tocsin.wire.table import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]
NOTE = "CUSTOM_NOTE"
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
async def test_a_request_is_escalated_by_default(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada") as ada,
        ground.join("bob"),
        ground.join("dora", role="director") as dora,
    ):
        options: tuple[tuple[dict[str, Any], int], ...] = (({"escalate": False}, 0), ({}, 1))
        for option, opened in options:
            name = f"msg_unanswered_{opened}"
            with pytest.raises(NoResponse):
                await ada.request("bob", NOTE, timeout_s=0.1, message_id=name, **option)
            escalations = await dora.list_escalations(closed=True)
            assert len([row for row in escalations if row.subject == name]) == opened


def test_the_default_of_escalate_is_the_hubs() -> None:
    default = next(field.default for field in msgspec.structs.fields(SendRequest) if field.name == "escalate")
    for agent in (Agent, SyncAgent):
        assert inspect.signature(agent.request).parameters["escalate"].default == default


@each_kind
async def test_leases_are_listed_up_to_the_limit(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        held = [await ada.acquire(f"res {number}") for number in range(3)]
        waiting = [asyncio.ensure_future(_wait(bob, f"res {number}")) for number in range(3)]
        while len((await bob.list_leases(agent="bob")).waiting) < 3:
            await asyncio.sleep(0.01)
        listed = await ada.list_leases(limit=2)
        assert [record.lease for record in listed.held] == [lease.lease for lease in held[:2]]
        assert listed.waiting == []
        rest = await ada.list_leases(limit=4, after=listed.next or "")
        assert [record.lease for record in rest.held] == [held[2].lease]
        assert (len(rest.waiting), rest.next) == (3, None)
        for limit in (0, 10_001):
            with pytest.raises(ValidationFailed) as refused:
                await ada.list_leases(limit=limit)
            assert (refused.value.code, refused.value.problem.field) == ("E_VALIDATION_004", "$.limit")
        for lease in held:
            await lease.release()
        await asyncio.gather(*waiting)


async def _wait(agent: Agent, resource: str) -> None:
    async with agent.acquire(resource):
        pass


@each_kind
async def test_a_daemon_session_is_shown_apart(kind: str, tmp_path: Path) -> None:
    async with (
        ground_of(kind, tmp_path) as ground,
        ground.join("ada", daemon=True) as listener,
        ground.join("ada") as ada,
    ):
        assert (await ada.get_agent("ada")).sessions == {"daemon": 1, "push": 1}
        inbox = listener.inbox()
        sent = await ada.send(to="ada", type=NOTE)
        assert (await anext(inbox)).message_id == sent.message_id


@each_kind
async def test_a_request_can_be_cancelled_by_its_id(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada, ground.join("bob") as bob:
        asking = asyncio.create_task(ada.request("bob", NOTE, message_id="msg_asked_1"))
        while not (known := await bob.list_requests()):
            await asyncio.sleep(0.01)
        assert known[0].request == "msg_asked_1"
        await ada.cancel_request("msg_asked_1")
        assert await bob.list_requests() == []
        await (await anext(bob.inbox())).reply({"late": True})
        assert (await asking).payload == {"late": True}, "the message was delivered, and its answer counts"


#: Wrong arguments, and the code and field of their refusal.
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str, str]] = [
    ("get_agent", ("",), {}, "E_VALIDATION_004", "$.agent"),
    ("get_agent", (7,), {}, "E_VALIDATION_002", "$.agent"),
    ("vote", ("dis_1", ["yes"]), {}, "E_VALIDATION_002", "$.option"),
    ("redrive_dead_letters", ("msg_1",), {}, "E_VALIDATION_002", "$.signal_ids"),
    ("redrive_dead_letters", ((1, 2),), {}, "E_VALIDATION_002", "$.signal_ids[0]"),
    ("open_discussion", ("why?", ("bob",)), {"consensus": "most"}, "E_VALIDATION_003", "$.consensus"),
    ("request_approval", ("no_handoff", "x"), {}, "E_VALIDATION_003", "$.handoff"),
    ("report_health", ({"metric": "fast"},), {}, "E_VALIDATION_002", "$.values.metric"),
    ("list_thread", ("thr_1",), {"after": -1}, "E_VALIDATION_004", "$.after"),
    ("renew_lease", ("lse_1",), {"ttl_s": "long"}, "E_VALIDATION_002", "$.ttl_s"),
    ("renew_lease", ("lse_1",), {"ttl_s": object()}, "E_VALIDATION_002", "$"),
]


@each_kind
async def test_wrong_arguments_are_refused_alike(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada", "director") as ada:
        for name, arguments, options, code, field in WRONG:
            with pytest.raises(ValidationFailed) as refused:
                await getattr(ada, name)(*arguments, **options)
            assert (refused.value.code, refused.value.problem.field) == (code, field), name
        await ada.send(to="ada", type="CUSTOM_TRIED")
        message = await anext(ada.inbox())
        with pytest.raises(ValidationFailed) as refused:
            await message.acknowledge("seen")  # type: ignore[arg-type]
        assert (refused.value.code, refused.value.problem.field) == ("E_VALIDATION_003", "$.status")
        async with calling(ground, "ada", "director") as caller:
            with pytest.raises(ValidationFailed) as refused:
                await caller.call("list_lease", {}, msgspec.json.Decoder(Any))
            assert "did you mean 'list_leases'?" in refused.value.problem.detail
            with pytest.raises(ValidationFailed) as refused:
                await caller.call("register_agent", {"agent_type": "Manager"}, msgspec.json.Decoder(Any))
            assert "it is called 'type'" in refused.value.problem.detail
        assert (await ada.get_agent("ada")).agent == "ada", "the connection is as it was"


@each_kind
async def test_an_old_spelling_is_refused_with_the_new_one(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground:
        with pytest.raises(TypeError, match="connect has no argument 'agent_type'; it is called 'type'"):
            ground.join("ada", agent_type="Manager")


@each_kind
def test_an_old_spelling_is_refused_with_the_new_one_without_a_loop(kind: str, tmp_path: Path) -> None:
    with sync_ground_of(kind, tmp_path) as ground, pytest.raises(TypeError, match="it is called 'type'"):
        SyncAgent.connect(ground.target, agent="ada", agent_type="Manager")  # type: ignore[arg-type]


@each_kind
async def test_access_is_checked_alike(kind: str, tmp_path: Path) -> None:
    async with ground_of(kind, tmp_path) as ground, ground.join("ada") as ada:
        for call in (ada.list_waits(), ada.count_dead_letters(), ada.list_escalations(), ada.list_roster()):
            with pytest.raises(NotPermitted, match="E_AUTH_003"):
                await call
        if kind == "embedded":
            with pytest.raises(StateConflict, match="only a hub serves get_me"):
                await ada.get_me()
        else:
            assert (await ada.get_me()).agent == "ada"


@each_kind
async def test_questions_of_a_director(kind: str, tmp_path: Path) -> None:
    """Call the operations that list and count, so that every reply is read once."""
    async with ground_of(kind, tmp_path, POLICY) as ground, ground.join("ada", "director") as ada:
        await ada.send(to="ada", type=NOTE, payload={"n": 1}, message_id="msg_found_1")
        found = await ada.find_messages(sender="ada", states="queued")
        assert "msg_found_1" in [row.message_id for row in found.items]
        assert "msg_found_1" in [row.message_id for row in (await ada.list_inbox()).items]
        assert (await ada.list_waits()).waits == []
        assert await ada.check_paths(["src/a.py"]) == []
        assert (await ada.get_status()).agents >= 1
        assert (await ada.get_policy()).version >= 1
        assert (await ada.check_policy({"limits": {"window_max": -1}})).valid is False
        assert "ada" in [row.agent for row in (await ada.list_roster()).items]
        assert (await ada.find_dead_letters(reason="none")).items == []
        assert (await ada.redrive_matching(reason="none")).redriven == ()
        assert await ada.count_dead_letters(reason="none") == []


def test_every_operation_has_its_place_in_the_sdk() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        from generate_client import RICHER
    finally:
        sys.path.remove(str(ROOT / "tools"))
    for name, operation in OPERATIONS.items():
        if operation.access is Access.ADMIN:
            assert not hasattr(Agent, name), f"{name} needs an admin token"
        elif name in RICHER:
            owner, verb = RICHER[name].split(".")
            assert callable(getattr({"Agent": Agent, "Message": Message}[owner], verb))
            assert callable(getattr({"Agent": SyncAgent, "Message": SyncMessage}[owner], verb))
        else:
            method = getattr(Operations, name)
            fields = sorted(msgspec.structs.fields(operation.request), key=lambda field: not field.required)
            names = [field.name for field in fields]
            if get_origin(operation.reply) is NamedPage:
                names = [*(name for name in names if name not in ("after", "limit")), "limit"]
            assert list(inspect.signature(method).parameters)[1:] == names
            assert operation.summary in (method.__doc__ or "")
            assert inspect.signature(getattr(SyncAgent, name)).parameters.keys() == (
                inspect.signature(method).parameters.keys()
            )
            assert getattr(SyncAgent, name).__doc__ == method.__doc__


def test_the_generated_modules_are_fresh() -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(ROOT / "tools" / "generate_client.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
