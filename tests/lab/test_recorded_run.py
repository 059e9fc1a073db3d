"""A recorded run: SDK agents on a real journal with the real clock, replayed in the lab."""

import asyncio
from pathlib import Path

from tests.lab.histories import settings
from tocsin import Tocsin
from tocsin.client import Agent
from tocsin.lab.experiment import Candidate, Experiment
from tocsin.lab.report.document import Report, compare
from tocsin.lab.runners import LocalRunner
from tocsin.policies import parse_policy

POLICY = """
contracts: {CUSTOM_TASK: {ack: required, timeout_s: 0.3, retries_max: 2, backoff_s: [0.05, 0.1]}}
bucket: {capacity: 300, refill_per_s: 200}
aging: {threshold_s: 0.2}
delivery: {receipt_timeout_s: {push: 0.5}, window_default: 4}
"""


async def worker(agent: Agent, tasks: int) -> None:
    """Answer what is asked, in the thread that it came in; leave every seventh without an ACK."""
    done = 0
    async for message in agent.inbox():
        if message.type != "CUSTOM_TASK":
            continue
        done += 1
        if done % 7:
            await message.acknowledge("processed")
            await message.reply({"n": done}, type="CUSTOM_DONE")
        if done >= tasks:
            return


async def happen(folder: Path) -> None:
    async with (
        await Tocsin.open(folder, policy=parse_policy(POLICY)) as bus,
        bus.join("lead", role="director") as lead,
        bus.join("ann") as ann,
        bus.join("bob") as bob,
    ):
        working = [asyncio.create_task(worker(agent, 30)) for agent in (ann, bob)]
        lease = await ann.acquire("src/**")
        for number in range(60):
            to = ("ann", "bob")[number % 2]
            await lead.send(to=to, type="CUSTOM_TASK", payload={"n": number}, correlation_id=f"t{number}")
            await ann.send(to="bob", type="StatusUpdate", payload={"n": number})
        await lease.release()
        await asyncio.gather(*working)


async def replayed(tmp_path: Path, *candidates: Candidate) -> Report:
    await happen(tmp_path / "team")
    experiment = Experiment(tmp_path / "lab", LocalRunner(), settings())
    experiment.record(next((tmp_path / "team").rglob("journal.db")))
    return compare(experiment, candidates)


async def test_what_really_happened_is_replayed_faithfully(tmp_path: Path) -> None:
    strict = Candidate.of(
        "strict", parse_policy(POLICY + "custom_contract: {priority: Info}\nlimits: {mailbox_depth_max: 1}")
    )
    report = await replayed(tmp_path, strict)
    assert report.fidelity is not None
    assert report.fidelity.unfaithful == []
    assert (report.fidelity.open_outcomes, report.fidelity.open_steps) == (1.0, 1.0)
    assert report.fidelity.messages > 150
    assert [policy.name for policy in report.policies] == ["in force", "strict"]
