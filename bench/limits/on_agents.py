"""Cases with the most agents and tokens: lists, summaries, broadcasts, the policy and the end of an agent."""

import asyncio

from bench.limits.cases import Step, case, ground, work
from bench.limits.ground import Ground
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller
from tocsin.gateways.dashboard.live_updates import LiveUpdates
from tocsin.policies import default_policy

_AGENTS = 89_000
_MAILBOX = 100_000
_COPIES = default_policy().limits.broadcast_recipients_max


def _last(g: Ground) -> str:
    return f"agent-{g.some(_AGENTS) - 600:06d}"


@ground("agents")
async def fill(g: Ground) -> None:
    """Register the most agents, with a message for each."""
    number = g.some(_AGENTS, 700)
    await g.agents("agent", number)
    await g.agents("team", g.some(_COPIES), "Team")
    await g.one(cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller("keeper", "primary"))
    await g.do(g.send(f"agent-{each:06d}") for each in range(number))


@case("agents", "list_agents", "99,000 agents, the last page")
async def list_agents(g: Ground) -> Step:
    return g.ask("list_agents", after=_last(g), limit=500)


@case("agents", "get_agent", "one of 99,000")
async def get_agent(g: Ground) -> Step:
    return g.ask("get_agent", agent=_last(g))


@case("agents", "list_roster", "99,000 agents, part of a name")
async def list_roster(g: Ground) -> Step:
    return g.ask("list_roster", q="9", limit=500)


@case("agents", "get_status", "99,000 agents and messages")
async def get_status(g: Ground) -> Step:
    return g.ask("get_status")


@case("agents", "get_overview", "99,000 agents and messages")
async def get_overview(g: Ground) -> Step:
    return g.ask("get_overview")


@case("agents", "report_health", "99,000 agents with waiting messages")
async def report_health(g: Ground) -> Step:
    return g.ask("report_health", values={"clone_spawn_p99_s": 1.0})


@work("agents", "the metrics", "`/metrics` with 99,000 agents")
async def metrics(g: Ground) -> Step:
    return g.request("GET", "/metrics", agent="admin")


@work("agents", "the dashboard's summary", "one tick with 99,000 agents")
async def summary(g: Ground) -> Step:
    updates = LiveUpdates(g.hub, "")

    async def tick() -> None:
        viewer = updates.join()
        await viewer.next()
        await asyncio.sleep(0.4)
        await updates.close()

    return tick


@case("agents", "list_tokens", "100,000 tokens, the last page")
async def list_tokens(g: Ground) -> Step:
    return g.ask("list_tokens", after=f"{g.some(_AGENTS) - 500}:", limit=500)


@case("agents", "list_tokens: of one agent", "100,000 tokens")
async def list_tokens_of(g: Ground) -> Step:
    return g.ask("list_tokens", agent="boss")


@case("agents", "issue_token", "100,000 tokens")
async def issue_token(g: Ground) -> Step:
    return g.ask("issue_token", "admin", agent=f"new-{next(g.numbers)}")


@case("agents", "rotate_tokens", "100,000 tokens")
async def rotate_tokens(g: Ground) -> Step:
    return g.ask("rotate_tokens", "admin", agent="holder-000001")


@case("agents", "revoke_tokens", "100,000 tokens, 8 of the agent")
async def revoke_tokens(g: Ground) -> Step:
    g.kept["revoked"] = g.kept.get("revoked", 1) + 1
    return g.ask("revoke_tokens", "admin", agent=f"holder-{g.kept['revoked']:06d}")


@case("agents", "register_agent", "500 capabilities of 64 characters, 99,000 agents")
async def register_agent(g: Ground) -> Step:
    names = [f"Type{next(g.numbers):060d}" for _ in range(500)]
    return g.ask("register_agent", "primus", type="Implementation", capabilities=names)


@case("agents", "send_message: broadcast", f"to a team of {_COPIES:,} agents")
async def broadcast(g: Ground) -> Step:
    receiver = {"agentId": "*", "type": "Team"}
    return g.ask("send_message", envelope=g.envelope("*", receiver=receiver))


@case("agents", "recall_message", f"{_COPIES:,} copies of a broadcast")
async def recall_message(g: Ground) -> Step:
    (receipt,) = await g.do([g.send("*", receiver={"agentId": "*", "type": "Team"})])
    return g.ask("recall_message", message_id=receipt.broadcast_id)


@case("agents", "get_message", f"{_COPIES:,} copies of 20 kB: one page")
async def get_message(g: Ground) -> Step:
    receiver = {"agentId": "*", "type": "Team"}
    (receipt,) = await g.do([g.send("*", receiver=receiver, payload={"text": "x" * 20_000})])
    await g.rest()
    return g.ask("get_message", message_id=receipt.broadcast_id, limit=500)


@case("agents", "adopt_policy", "99,000 agents, each with a waiting message, and broadcasts")
async def adopt_policy(g: Ground) -> Step:
    return g.ask("adopt_policy", policy={"aging": {"threshold_s": 60.0 + next(g.numbers) % 7}}, scope="change")


@case("agents", "retire_agent", "100,000 messages in its mailbox")
async def retire_agent(g: Ground) -> Step:
    agent = Caller(f"leaver-{next(g.numbers)}", "primary")
    await g.one(cmd.RegisterAgent("Implementation", ("1.1.0",)), agent)
    await g.do(g.send(agent.agent) for _ in range(g.some(_MAILBOX)))
    return g.ask("retire_agent", agent=agent.agent)


@work("agents", "the end of a TTL", "10,000 messages expire at once")
async def expire(g: Ground) -> Step:
    number, before = g.some(10_000), len(g.state.settled)
    await g.do(g.send("keeper", metadata={"ttl": 100}) for _ in range(number))

    async def pass_by() -> None:
        await g.let_pass(200)
        await g.until(lambda: len(g.state.settled) >= before + number)

    return pass_by


@work("agents", "the loss of sessions", "5,000 sessions lapse at once, with 20 offers each")
async def lapse(g: Ground) -> Step:
    names = [f"agent-{each:06d}" for each in range(g.some(5000))]
    await g.do((cmd.OpenSession("push", 20), Caller(name, "primary")) for name in names)
    await g.do(g.send(name) for name in names for _ in range(19))

    async def pass_by() -> None:
        await g.let_pass(3 * 3600)
        await g.until(lambda: not any(g.state.agents[name].sessions for name in names))

    return pass_by


@work("agents", "the loss of full sessions", "300 sessions with 1,024 offers each lapse at once")
async def lapse_full(g: Ground) -> Step:
    names = [f"full-{next(g.numbers)}" for _ in range(g.some(300))]
    await g.do((cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller(name, "primary")) for name in names)
    await g.do((cmd.OpenSession("push", 1024), Caller(name, "primary")) for name in names)
    await g.do(g.send(name, messageType="CUSTOM_NOTE") for name in names for _ in range(g.some(1024)))

    async def pass_by() -> None:
        await g.let_pass(3 * 3600)
        await g.until(lambda: not any(g.state.agents[name].sessions for name in names))

    return pass_by


@work("agents", "the director's end", "a director retires: 100 directors, their waits and approvals")
async def director_leaves(g: Ground) -> Step:
    await g.agents("chief", 100, "Manager", "director")
    return g.ask("retire_agent", agent=f"chief-{next(g.numbers) % 100:06d}")


@work("agents", "the start of sessions", "5,000 agents attach at once, with a message each")
async def storm(g: Ground) -> Step:
    names = [f"agent-{g.some(5000) + each:06d}" for each in range(g.some(5000, 10))]

    async def attach() -> None:
        opened = await g.do((cmd.OpenSession("push", 32), Caller(name, "primary")) for name in names)
        g.kept["opened"] = list(zip(names, opened, strict=True))

    return attach


@work("agents", "the policy of the project", "the same, and a setting that no timer depends on")
async def adopt_limits(g: Ground) -> Step:
    document = {"topics": {"topics_max": 10_000 + next(g.numbers)}}
    return g.ask("adopt_policy", policy=document, scope="change")
