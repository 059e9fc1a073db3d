"""Cases with the most requests, topics, discussions, approvals and escalations, and a hundred directors."""

from bench.limits.cases import Step, case, ground, work
from bench.limits.ground import BOSS, Ground
from tocsin.core import commands as cmd
from tocsin.core.commands import Caller
from tocsin.core.escalation.paths import Place
from tocsin.core.protocol.parsing import parse_envelope

_DIRECTORS = 100
_OPEN = 1000
_REQUESTERS = 1000
_SUBSCRIBERS = 1000
_VOTERS = 100


def _chief(number: int) -> Caller:
    return Caller(f"chief-{number % _DIRECTORS:06d}", "director")


def _voters() -> tuple[str, ...]:
    return tuple(f"voter-{each:06d}" for each in range(_VOTERS))


@ground("teamwork")
async def fill(g: Ground) -> None:
    """Open as many requests, discussions, approvals and escalations as may be open."""
    await g.agents("chief", _DIRECTORS, "Manager", "director")
    await g.agents("voter", _VOTERS)
    await g.agents("reader", g.some(_SUBSCRIBERS))
    requesters = g.some(_REQUESTERS, 110)
    await g.agents("asker", requesters + 100)
    for name in ("ada", "bob"):
        await g.one(cmd.RegisterAgent("Implementation", ("1.1.0",)), Caller(name, "primary"))
    await g.do(
        (cmd.Subscribe(f"topic/{number:05d}"), Caller(f"reader-{number // 90 % g.some(_SUBSCRIBERS):06d}", "primary"))
        for number in range(g.some(9_000))
    )
    await g.do(
        (cmd.Subscribe("everybody"), Caller(f"reader-{number:06d}", "primary"))
        for number in range(g.some(_SUBSCRIBERS))
    )
    await g.do((_discussion(number), _chief(number // 90)) for number in range(g.some(_OPEN - 10)))
    await g.do((_approval(), _chief(number // 90)) for number in range(g.some(_OPEN - 10)))
    # Each waits for the hundred after it, who do not wait yet: so no circle closes, and none is looked for.
    for one in range(requesters):
        caller = Caller(f"asker-{one:06d}", "primary")
        await g.do((_request(g, one, one + each + 1), caller) for each in range(100))
    await g.do(_alarm(g) for _ in range(g.some(2 * _OPEN - 10)))


def _discussion(number: int) -> cmd.OpenDiscussion:
    options = tuple(f"option {each}" for each in range(20))
    return cmd.OpenDiscussion(f"{number} " + "q" * 4000, _voters(), options, voters_min=_VOTERS)


def _approval() -> cmd.RequestApproval:
    return cmd.RequestApproval("plan_approval", "s" * 4000, "d" * 4000)


def _request(g: Ground, one: int, other: int) -> cmd.SendRequest:
    number = next(g.numbers)
    written = g.envelope(f"asker-{other:06d}", f"asker-{one:06d}", priority="Info", correlationId=f"ask-{number}")
    return cmd.SendRequest(parse_envelope(written, 1 << 20), timeout_s=86_400)


def _alarm(g: Ground) -> tuple[cmd.Command, Caller]:
    payload = {
        "errorType": "SystemError",
        "errorCode": "E_TASK_001",
        "errorMessage": "broken",
        "severity": "critical",
        "context": {},
    }
    return g.send("boss", messageType="ERROR_REPORT", payload=payload)


@case("teamwork", "send_request", "100,000 requests are open")
async def send_request(g: Ground) -> Step:
    written = g.envelope("ada", correlationId=f"ask-{next(g.numbers)}")
    return g.ask("send_request", envelope=written, timeout_s=3600)


@case("teamwork", "send_request: a long way", "of the first of 1,000 agents that wait for 100 others each")
async def send_first_request(g: Ground) -> Step:
    back = g.envelope("asker-000000", "ada", correlationId=f"ask-{next(g.numbers)}")
    await g.one(
        cmd.SendRequest(parse_envelope(g.envelope("ada", "bob", correlationId=f"ask-{next(g.numbers)}"), 1 << 20)),
        Caller("bob", "primary"),
    )
    return g.ask("send_request", "ada", envelope=back, timeout_s=3600)


@case("teamwork", "list_requests", "100,000 requests")
async def list_requests(g: Ground) -> Step:
    return g.ask("list_requests", limit=500)


@case("teamwork", "cancel_request", "one of 100,000")
async def cancel_request(g: Ground) -> Step:
    written = g.envelope("ada", correlationId=f"ask-{next(g.numbers)}")
    await g.one(cmd.SendRequest(parse_envelope(written, 1 << 20)), BOSS)
    return g.ask("cancel_request", request=parse_envelope(written, 1 << 20).message_id)


@case("teamwork", "list_topics", "9,000 topics")
async def list_topics(g: Ground) -> Step:
    return g.ask("list_topics", limit=500)


@case("teamwork", "subscribe_topic", "10,000 topics")
async def subscribe(g: Ground) -> Step:
    return g.ask("subscribe_topic", topic=f"new/{next(g.numbers)}")


@case("teamwork", "unsubscribe_topic", "10,000 topics")
async def unsubscribe(g: Ground) -> Step:
    await g.one(cmd.Subscribe("for/now"), BOSS)
    return g.ask("unsubscribe_topic", topic="for/now")


@case("teamwork", "publish_topic", "1,000 subscribers")
async def publish(g: Ground) -> Step:
    receiver = {"agentId": "*", "type": "*"}
    return g.ask("publish_topic", envelope=g.envelope("*", receiver=receiver), topic="everybody")


@case("teamwork", "open_discussion", "100 participants, 990 discussions open")
async def open_discussion(g: Ground) -> Step:
    await _cancel_own(g)
    command = _discussion(next(g.numbers))
    return g.ask(
        "open_discussion", question=command.question, participants=command.participants, options=command.options
    )


async def _cancel_own(g: Ground) -> None:
    own = [row.discussion for row in g.state.discussions.values() if row.opener == "boss"]
    await g.do((cmd.CancelDiscussion(name), BOSS) for name in own)


async def _opened(g: Ground) -> str:
    await _cancel_own(g)
    return str((await g.one(_discussion(next(g.numbers)))).discussion)


@case("teamwork", "list_discussions", "990 of 100 participants, questions of 4,000 characters")
async def list_discussions(g: Ground) -> Step:
    return g.ask("list_discussions", limit=500)


@case("teamwork", "speak_in_discussion", "100 participants, 4,096 characters")
async def speak(g: Ground) -> Step:
    return g.ask("speak_in_discussion", discussion=await _opened(g), text="x" * 4096)


@case("teamwork", "vote", "the last of 100 votes")
async def vote(g: Ground) -> Step:
    name = await _opened(g)
    voters = [voter for voter in _voters() if voter != "voter-000000"]
    await g.do((cmd.Vote(name, "option 1"), Caller(voter, "primary")) for voter in voters)
    return g.ask("vote", "voter-000000", discussion=name, option="option 2")


@case("teamwork", "cancel_discussion", "100 participants")
async def cancel_discussion(g: Ground) -> Step:
    return g.ask("cancel_discussion", discussion=await _opened(g))


@case("teamwork", "list_approvals", "990 approvals of 8,000 characters")
async def list_approvals(g: Ground) -> Step:
    return g.ask("list_approvals", limit=500)


@case("teamwork", "request_approval", "100 directors, 990 approvals open")
async def request_approval(g: Ground) -> Step:
    own = [row.approval for row in g.state.approvals.values() if row.asker == "boss"]
    await g.do((cmd.WithdrawApproval(name), BOSS) for name in own)
    return g.ask("request_approval", handoff="plan_approval", subject="s" * 4000, details="d" * 4000)


@case("teamwork", "decide_approval", "990 approvals open, a payload of 1 MB")
async def decide_approval(g: Ground) -> Step:
    await g.do([g.send("bob", Caller("ada", "primary"), messageType="CUSTOM_PLAN")])
    name = next(row.approval for row in g.state.approvals.values() if row.asker == "ada")
    return g.ask("decide_approval", approval=name, verdict="approve", payload={"n": [[1, 2, 3]] * 120_000})


@case("teamwork", "withdraw_approval", "990 approvals open")
async def withdraw_approval(g: Ground) -> Step:
    own = [row.approval for row in g.state.approvals.values() if row.asker == "boss"]
    await g.do((cmd.WithdrawApproval(name), BOSS) for name in own)
    return g.ask("withdraw_approval", approval=(await g.one(_approval())).approval)


@case("teamwork", "list_escalations", "1,000 open and 1,000 closed ones")
async def list_escalations(g: Ground) -> Step:
    return g.ask("list_escalations", closed=True, limit=500)


@case("teamwork", "resolve_escalation", "1,000 open ones and others that wait for room")
async def resolve(g: Ground) -> Step:
    return g.ask("resolve_escalation", escalation=next(iter(g.state.open_escalations)), resolution="x" * 4000)


@case("teamwork", "escalate_to_human", "1,000 open ones")
async def to_human(g: Ground) -> Step:
    known = g.state.escalations
    name = next(name for name in g.state.open_escalations if known[name].state != Place.HUMAN)
    return g.ask("escalate_to_human", escalation=name, reason="x" * 4000)


@case("teamwork", "register_agent: director", "all that is open is shown to a new director")
async def new_director(g: Ground) -> Step:
    async def register() -> None:
        await g.one(cmd.RegisterAgent("Manager", ("1.1.0",)), Caller(f"new-{next(g.numbers)}", "director"))

    return register


@case("teamwork", "list_waits: largest", "100,000 waits of requests, 990 of discussions")
async def list_waits(g: Ground) -> Step:
    return g.ask("list_waits", limit=500)


@work("teamwork", "the end of requests", "100,000 requests time out at once")
async def requests_end(g: Ground) -> Step:
    async def pass_by() -> None:
        await g.let_pass(86_400)
        await g.until(lambda: len(g.state.requests) < 10)

    return pass_by


@work("teamwork", "the end of discussions", "990 discussions of 100 agents end at once")
async def discussions_end(g: Ground) -> Step:
    await g.do((_discussion(number), _chief(number // 90)) for number in range(g.some(_OPEN - 10)))

    async def pass_by() -> None:
        await g.let_pass(400)
        await g.until(lambda: not g.state.discussions)

    return pass_by


@case("teamwork", "retire_agent: of every discussion", "it takes part in 990 discussions of 100 agents")
async def voter_leaves(g: Ground) -> Step:
    await g.agents("voter", _VOTERS)  # One has left in an earlier round.
    await g.do((_discussion(number), _chief(number // 90)) for number in range(g.some(_OPEN - 10)))
    name = f"voter-{next(g.numbers) % 50 + 50:06d}"
    return g.ask("retire_agent", agent=name)
