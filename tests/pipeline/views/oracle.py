"""Expected gold tables, computed in plain Python from a history, for the differential test."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from tests.pipeline.history import History, Life
from tests.pipeline.rows import Row, S, day_of
from tests.pipeline.views.latencies import spread
from tocsin.core import events as ev

__all__ = ["ORACLE"]

MINUTE, HOUR = 60 * S, 3600 * S
LEVELS = ("info", "coordinate", "blocking", "critical", "director_override")
DELIVERED = ("delivered", "acknowledged", "processed")


def start(at: int, length: int) -> int:
    return at - at % length


def grouped(items: Iterable[Any], key: Callable[[Any], Row]) -> list[tuple[Row, list[Any]]]:
    """Group items by the result of a function."""
    groups: dict[str, tuple[Row, list[Any]]] = {}
    for item in items:
        row = key(item)
        groups.setdefault(repr(row), (row, []))[1].append(item)
    return list(groups.values())


def count(lives: list[Life], condition: Callable[[Life], bool]) -> int:
    return sum(map(condition, lives))


def having(name: str, value: object) -> Callable[[Life], bool]:
    return lambda life: bool(life[name] == value)


def cohort(*names: str, every: int, unit: str) -> Callable[[Life], Row]:
    def key(life: Life) -> Row:
        row = {"project": life["project"], "date": life["date"], unit: start(life["created_at"], every)}
        return row | {name: life[name] for name in names}

    return key


def waits(lives: list[Life]) -> Row:
    return spread(*(life["first_waited_us"] for life in lives if life["first_waited_us"] is not None))


def signal_state(history: History) -> list[Row]:
    def pushed(life: Life) -> bool:
        return life["publish_path"] == "pushed_to_ws" or life["broadcast"] is not None

    def there(life: Life) -> bool:
        return bool(life["recipient_state"] == "available")

    none = ("accepted", "available_now", "drained", "pending_pickup", "waiting", "held", "expired", "recalled", "dead")
    found = []
    for key, lives in grouped(
        history.lives.values(), cohort("message_type", "sender", "publish_path", every=MINUTE, unit="minute")
    ):
        found.append(
            key
            | {
                "accepted": len(lives),
                "available_now": count(lives, lambda life: life["state"] in DELIVERED and pushed(life)),
                "drained": count(lives, lambda life: life["state"] in DELIVERED and not pushed(life)),
                "pending_pickup": count(lives, lambda life: life["state"] in ("queued", "offered") and not there(life)),
                "waiting": count(lives, lambda life: life["state"] in ("queued", "offered") and there(life)),
                **{state: count(lives, having("state", state))
                   for state in ("held", "expired", "recalled", "dead")},
                "undeliverable": 0,
            }
        )  # fmt: skip
    refused = [event for event in history.events if isinstance(event, ev.SendRefused) and event.code == "E_ROUTING_001"]
    for key, events in grouped(refused, occurrence(history, "message_type", "sender")):
        found.append(key | {"publish_path": "none"} | dict.fromkeys(none, 0) | {"undeliverable": len(events)})
    return found


def occurrence(history: History, *names: str) -> Callable[[Any], Row]:
    def key(event: Any) -> Row:
        row = {"project": history.project, "date": day_of(event.at), "minute": start(event.at, MINUTE)}
        return row | {name: getattr(event, name) for name in names}

    return key


def time_to_drain(history: History) -> list[Row]:
    key = cohort("message_type", "publish_path", every=HOUR, unit="hour")
    return [row | {"messages": len(lives)} | waits(lives) for row, lives in grouped(history.lives.values(), key)]


def recall(history: History) -> list[Row]:
    outcomes = [
        (event, "recalled" if isinstance(event, ev.MessageRecalled) else event.outcome)
        for event in history.events
        if isinstance(event, ev.MessageRecalled | ev.RecallRefused)
    ]
    key = occurrence(history)
    return [
        row | {"recalls": len(items)}
        for row, items in grouped(outcomes, lambda item: key(item[0]) | {"outcome": item[1]})
    ]


def promised(history: History, life: Life) -> int:
    """Return the latency target of a message at its acceptance."""
    adopted = history.policy_at(life["created_at"])
    if adopted is None:
        return 100_000 if life["priority"] < 2 else 50_000 if life["priority"] == 2 else 10_000
    limits = json.loads(adopted.policy)["health"]["limits"]
    if life["priority"] < 2:
        return 100_000
    limit: float = limits["blocking_delivery_s" if life["priority"] == 2 else "critical_delivery_s"]
    return round(limit * S)


def sustained(history: History, life: Life) -> int:
    """Return the length of a sustained breach at a message's acceptance."""
    adopted = history.policy_at(life["created_at"])
    return 60 * S if adopted is None else round(json.loads(adopted.policy)["health"]["sustained_s"] * S)


def delivery_sla(history: History) -> list[Row]:
    found = []
    minutely = cohort("priority", "publish_path", every=MINUTE, unit="minute")
    for row, lives in grouped(
        history.lives.values(), lambda life: minutely(life) | {"target_us": promised(history, life)}
    ):
        target = row["target_us"]
        within = sum(life["first_waited_us"] is not None and life["first_waited_us"] <= target for life in lives)
        found.append(row | {"messages": len(lives), "within_target": within} | waits(lives))
    return found


def sla_breach(history: History) -> list[Row]:
    pushed = [
        life
        for life in history.lives.values()
        if life["publish_path"] == "pushed_to_ws" and life["first_waited_us"] is not None
    ]
    found = []
    key = cohort("priority", every=10 * S, unit="slot")
    days = grouped(
        sorted(grouped(pushed, key), key=lambda group: group[0]["slot"]),
        lambda group: {name: group[0][name] for name in ("project", "date", "priority")},
    )
    for row, slots in days:
        runs: list[list[tuple[int, list[tuple[int, int, int]]]]] = []
        last: tuple[int, bool] | None = None
        for slot, lives in slots:
            times = [(life["first_waited_us"], promised(history, life), sustained(history, life)) for life in lives]
            broken = sum(us > target for us, target, _ in times) > 0.01 * len(times)
            if broken:
                enough = max(time[2] for time in times)
                if last is None or not last[1] or slot["slot"] - last[0] - 10 * S >= enough:
                    runs.append([])
                runs[-1].append((slot["slot"], times))
            last = (slot["slot"], broken)
        for run in runs:
            began, ended = run[0][0], run[-1][0] + 10 * S
            times = [time for _, slot in run for time in slot]
            worst, target, enough = map(max, zip(*times, strict=True))
            if ended - began >= enough:
                late = sum(us > target for us, target, _ in times)
                found.append(
                    row | {"began_at": began, "ended_at": ended, "lasted_us": ended - began, "messages": len(times)}
                    | {"late": late, "worst_us": worst, "target_us": target}
                )  # fmt: skip
    return found


def aging_wait(history: History) -> list[Row]:
    def wait(life: Life) -> int | None:
        if life["first_waited_us"] is not None:
            return int(life["first_waited_us"])
        ended = life["expired_at"] or life["recalled_at"] or life["dead_at"]
        return None if ended is None else max(0, ended - life["created_at"])

    def bound(life: Life) -> int | None:
        adopted = history.policy_at(life["created_at"])
        if adopted is None:
            return None
        aging = json.loads(adopted.policy)["aging"]
        top = ["Info", "Coordinate", "Blocking", "Critical"].index(aging["top"])
        if not aging["enabled"] or life["priority"] > top:
            return None
        boosts: int = -(-(top - life["priority"]) // aging["boost_levels"]) + 1
        threshold_us: int = round(aging["threshold_s"] * S)
        return boosts * threshold_us

    hourly = cohort("priority", every=HOUR, unit="hour")
    found = []
    for row, lives in grouped(history.lives.values(), lambda life: hourly(life) | {"bound_us": bound(life)}):
        limit = row["bound_us"]
        times = [(wait(life), life["recipient_state"]) for life in lives]
        over = [state for us, state in times if limit is not None and us is not None and us > limit]
        found.append(
            row
            | {
                "messages": len(lives),
                "boosted": count(lives, lambda life: life["boosts"] > 0),
                "boosts": sum(life["boosts"] for life in lives),
                "waiting": sum(us is None for us, _ in times),
                "over_bound": len(over),
                "over_bound_available": over.count("available"),
            }
            | spread(*(us for us, _ in times if us is not None))
        )
    return found


def boost(history: History) -> list[Row]:
    boosts = [event for event in history.events if isinstance(event, ev.MessageBoosted)]
    return [
        row
        | {
            "boosts": len(events),
            "overdue": sum(event.overdue for event in events),
            "age_max_us": max(event.age_us for event in events),
        }
        for row, events in grouped(boosts, occurrence(history, "rule", "old_level", "new_level"))
    ]


def priority_mix(history: History) -> list[Row]:
    found = []
    asked = [life for life in history.lives.values() if life["rule"] != "confirmation" and life["sender"] != "tocsin"]
    for row, lives in grouped(
        asked, lambda life: {"project": life["project"], "date": life["date"], "agent": life["sender"]}
    ):
        firsts = {start(life["created_at"], 10 * S) - step * 10 * S for life in lives for step in range(6)}
        for first in firsts:
            inside = [life for life in lives if first <= life["created_at"] < first + 60 * S]
            adopted = history.policy_at(first + 60 * S)
            gaming = json.loads(adopted.policy)["gaming"] if adopted else {"messages_min": 1}
            if len(inside) < gaming["messages_min"]:
                continue
            high = count(inside, lambda life: life["requested"] >= 2)
            found.append(
                {
                    "project": row["project"], "date": row["date"], "window_start": first, "agent": row["agent"],
                    "messages": len(inside),
                    **{f"asked_{name}": count(inside, having("requested", level))
                       for level, name in enumerate(LEVELS)},
                    "high": high,
                    "lowered": count(inside, lambda life: life["rule"] == "gaming"),
                    "high_share": high / len(inside),
                    "threshold": gaming["high_priority_ratio"],
                    "over": high > gaming["high_priority_ratio"] * len(inside),
                }
            )  # fmt: skip
    return found


def refusal(history: History) -> list[Row]:
    refused: list[tuple[Any, str, str, bool, float | None]] = []
    for event in history.events:
        if isinstance(event, ev.SendRefused):
            refused.append((event, event.code, "send", event.requested >= 2, event.retry_after_s))
        elif isinstance(event, ev.BroadcastAccepted):
            refused += [(event, entry.split("=")[1], "copy", False, None) for entry in event.failed]
    key = occurrence(history, "sender", "message_type")
    rate = ("E_ADMISSION_001", "E_ADMISSION_002", "E_ADMISSION_003")
    found = []
    for row, items in grouped(refused, lambda item: key(item[0]) | {"code": item[1], "scope": item[2]}):
        retries = [round(item[4] * S) for item in items if item[4] is not None]
        found.append(
            row
            | {
                "refusals": len(items),
                "rate_limited": len(items) if row["code"] in rate else 0,
                "high": sum(item[3] for item in items),
                "retry_after_max_us": max(retries, default=None),
            }
        )
    return found


def retry(history: History) -> list[Row]:
    found = []
    for row, lives in grouped(history.lives.values(), cohort("message_type", "recipient", every=HOUR, unit="hour")):
        found.append(
            row
            | {
                "messages": len(lives),
                "offered": count(lives, lambda life: life["offers"] > 0),
                "offers": sum(life["offers"] for life in lives),
                "requeued": count(lives, lambda life: life["requeues"] > 0),
                "requeues": sum(life["requeues"] for life in lives),
                "rejections": sum(life["rejections"] for life in lives),
                "redriven": count(lives, lambda life: life["redrives"] > 0),
                "redrives": sum(life["redrives"] for life in lives),
                "dead": count(lives, lambda life: life["state"] == "dead"),
                "purged": count(lives, lambda life: life["purged_at"] is not None),
            }
        )
    return found


def dead_letter(history: History) -> list[Row]:
    names = ("project", "date", "message_type", "recipient", "reason", "code")
    dead = [life for life in history.lives.values() if life["state"] == "dead"]
    return [
        row
        | {
            "letters": len(lives),
            "purged": count(lives, lambda life: life["purged_at"] is not None),
            "attempts": sum(life["attempts"] for life in lives),
            "oldest_at": min(life["dead_at"] for life in lives),
            "newest_at": max(life["dead_at"] for life in lives),
        }
        for row, lives in grouped(dead, lambda life: {name: life[name] for name in names})
    ]


def queue_flow(history: History) -> list[Row]:
    minutes: defaultdict[tuple[int, int], dict[int, Counter[str]]] = defaultdict(dict)
    for (second, level), steps in history.steps.items():
        minutes[start(second * S, MINUTE), level][second] = steps
    found = []
    for (minute, level), seconds in minutes.items():
        running = peak = 0
        for _, steps in sorted(seconds.items()):
            running += steps["entered"] - steps["left"]
            peak = max(peak, running)
        found.append(
            {
                "project": history.project,
                "date": day_of(minute),
                "minute": minute,
                "level": level,
                "entered": sum(steps["entered"] for steps in seconds.values()),
                "left": sum(steps["left"] for steps in seconds.values()),
                "peak": peak,
            }
        )
    return found


def queue_depth(history: History) -> list[Row]:
    """Return the depths of the mailboxes at the end of every second of a minute with a change."""
    ends = {at // S: depths for at, depths in history.depths}
    found = []
    touched: dict[tuple[int, int], None] = {}
    for second, level in history.steps:
        touched[start(second * S, MINUTE), level] = None
    for minute, level in touched:
        before = [depths for second, depths in ends.items() if second * S < minute]
        inside = [depths[level] for second, depths in ends.items() if minute <= second * S < minute + MINUTE]
        opening = before[-1][level] if before else 0
        found.append(
            {
                "project": history.project,
                "date": day_of(minute),
                "minute": minute,
                "level": level,
                "depth_start": opening,
                "depth_max": max(opening, *inside),
                "depth_end": inside[-1],
            }
        )
    return found


def processing_latency(history: History) -> list[Row]:
    def latency(life: Life) -> int | None:
        if life["ack_required"]:
            return None if life["ack_latency_us"] is None else int(life["ack_latency_us"])
        if life["delivered_at"] is None or life["offered_at"] is None:
            return None
        return max(0, int(life["delivered_at"] - life["offered_at"]))

    found = []
    for row, lives in grouped(history.lives.values(), cohort("message_type", every=MINUTE, unit="minute")):
        times = [us for us in map(latency, lives) if us is not None]
        found.append(
            row
            | {
                "messages": len(lives),
                "decaying": count(lives, lambda life: life["decay_rate"] > 0),
                "decay_rate_sum_ppm": sum(round(life["decay_rate"] * 1_000_000) for life in lives),
                "stale": count(lives, lambda life: life["state"] == "expired" and life["reason"] == "stale"),
            }
            | spread(*times)
        )
    return found


def decay_rate(history: History) -> list[Row]:
    return [
        {
            "project": history.project,
            "date": day_of(event.at),
            "seq": seq,
            "changed_at": event.at,
            "old_rate": event.old_rate,
            "new_rate": event.new_rate,
            "average_us": math.floor(event.average_s * S + 0.5),
            "samples": event.samples,
            "threshold_us": math.floor(event.threshold_s * S + 0.5),
            "rule": event.rule,
        }
        for seq, event in enumerate(history.events, 1)
        if isinstance(event, ev.DecayRateChanged)
    ]


def session_changes(history: History) -> list[tuple[int, str, str, str]]:
    changes = []
    for session in history.sessions.values():
        who = (session["agent"], session["session_kind"])
        changes.append((session["opened_at"], *who, "opened"))
        for since, until in session["stale"]:
            changes.append((since, *who, "stale"))
            if until is not None:
                changes.append((until, *who, "fresh"))
        if session["closed_at"] is not None:
            changes.append((session["closed_at"], *who, "closed"))
    return changes


LIVE = {"opened": 1, "stale": -1, "fresh": 1, "closed": -1}
STALE = {"opened": 0, "stale": 1, "fresh": -1, "closed": 0}


def session_count(history: History) -> list[Row]:
    found = []
    changes = session_changes(history)
    for kind in {change[2] for change in changes}:
        ours = [change for change in changes if change[2] == kind]
        for minute in {start(change[0], MINUTE) for change in ours}:
            inside = Counter(change[3] for change in ours if start(change[0], MINUTE) == minute)
            until = [change[3] for change in ours if change[0] < minute + MINUTE]
            found.append(
                {
                    "project": history.project,
                    "date": day_of(minute),
                    "minute": minute,
                    "session_kind": kind,
                    "opened": inside["opened"],
                    "closed": inside["closed"],
                    "went_stale": inside["stale"],
                    "live": sum(LIVE[what] for what in until),
                    "stale": sum(STALE[what] for what in until),
                }
            )
    return found


def agent_attachment(history: History) -> list[Row]:
    found = []
    changes = session_changes(history)
    for agent in {change[1] for change in changes}:
        ours = [change for change in changes if change[1] == agent]
        for minute in {start(change[0], MINUTE) for change in ours}:
            until = [change for change in ours if change[0] < minute + MINUTE]
            daemons = sum(LIVE[what] for _, _, kind, what in until if kind == "daemon")
            shims = sum(LIVE[what] for _, _, kind, what in until if kind != "daemon")
            stale = sum(STALE[what] for _, _, kind, what in until if kind == "daemon")
            attachment = "attached" if daemons else "daemonless" if shims else "absent"
            found.append(
                {
                    "project": history.project,
                    "date": day_of(minute),
                    "minute": minute,
                    "agent": agent,
                    "shims": shims,
                    "daemons": daemons,
                    "stale_daemons": stale,
                    "attachment": attachment,
                }
            )
    return found


def traffic(history: History) -> list[Row]:
    found = []
    for row, lives in grouped(
        history.lives.values(), cohort("sender", "recipient", "message_type", every=HOUR, unit="hour")
    ):  # fmt: skip
        found.append(
            row
            | {
                "messages": len(lives),
                **{name: count(lives, having("priority", level))
                   for level, name in enumerate(LEVELS)},
                "broadcast_copies": count(lives, lambda life: life["broadcast"] is not None),
                "lowered": count(lives, lambda life: life["priority"] < life["requested"]),
                "delivered": count(lives, lambda life: life["state"] in DELIVERED),
                "unread": count(lives, lambda life: life["state"] in ("expired", "recalled", "dead")),
            }
        )  # fmt: skip
    return found


def thread(history: History) -> list[Row]:
    threads: dict[int, list[Life]] = {}
    current: dict[str, int] = {}
    last: dict[str, tuple[Any, str]] = {}
    for seq, life in history.lives.items():
        correlation = life["correlation_id"]
        if correlation is None:
            continue
        another_copy = last.get(correlation) == (life["date"], life["message_id"])
        last[correlation] = (life["date"], life["message_id"])
        if life["opens_thread"] and not another_copy:
            current[correlation] = seq
            threads[seq] = []
        if correlation in current:
            threads[current[correlation]].append(life)
    return [_thread(history, seq, lives) for seq, lives in threads.items()]


def _thread(history: History, seq: int, lives: list[Life]) -> Row:
    opening = lives[0]
    copies = [life for life in lives if life["opens_thread"]]
    updates = [life for life in lives if life["message_type"] == "TASK_UPDATE"]
    responses = [
        life
        for life in lives
        if not life["opens_thread"]
        and life["message_type"] not in ("ACK", "NACK")
        and life["recipient"] == opening["sender"]
    ]

    def first(some: list[Life], stamp: str) -> int | None:
        return min((life[stamp] for life in some if life[stamp] is not None), default=None)

    completed_at = first(copies, "processed_at")
    lost = all(life["state"] in ("expired", "recalled", "dead") for life in copies)
    kinds = {"TASK_ASSIGNMENT": "task", "HANDOFF_REQUEST": "handoff"}
    return {
        "project": history.project,
        "date": opening["date"],
        "thread": seq,
        "correlation_id": opening["correlation_id"],
        "thread_kind": kinds.get(opening["message_type"], "request"),
        "message_type": opening["message_type"],
        "requester": opening["sender"],
        "responder": opening["recipient"] if len(copies) == 1 else None,
        "copies": len(copies),
        "messages": len(lives),
        "updates": len(updates),
        "responses": len(responses),
        "opened_at": opening["created_at"],
        "delivered_at": first(copies, "delivered_at"),
        "acked_at": first(copies, "acked_at"),
        "first_update_at": first(updates, "created_at"),
        "first_response_at": first(responses, "created_at"),
        "completed_at": completed_at,
        "last_at": max(life["created_at"] for life in lives),
        "outcome": "completed" if completed_at is not None else "lost" if lost else "open",
    }


def lead_time(history: History) -> list[Row]:
    measures = {
        "to_delivery": "delivered_at",
        "to_first_update": "first_update_at",
        "to_response": "first_response_at",
        "to_completion": "completed_at",
    }
    leads = [
        (row, measure, max(0, row[stamp] - row["opened_at"]))
        for row in thread(history)
        for measure, stamp in measures.items()
        if row[stamp] is not None
    ]
    names = ("project", "date", "thread_kind", "message_type", "responder")
    return [
        row | spread(*(item[2] for item in items))
        for row, items in grouped(leads, lambda item: {n: item[0][n] for n in names} | {"measure": item[1]})
    ]


def thread_outcome(history: History) -> list[Row]:
    names = ("project", "date", "thread_kind", "message_type", "requester", "responder")
    return [
        row
        | {"threads": len(items)}
        | {outcome: sum(item["outcome"] == outcome for item in items) for outcome in ("completed", "lost", "open")}
        | {name: sum(item[name] for item in items) for name in ("messages", "updates", "responses")}
        for row, items in grouped(thread(history), lambda item: {name: item[name] for name in names})
    ]


def agent_session(history: History) -> list[Row]:
    found = []
    for session in history.sessions.values():
        stale = session["stale"]
        ended = [max(0, until - since) for since, until in stale if until is not None]
        lasting = len(ended) < len(stale)
        row = {name: value for name, value in session.items() if name != "stale"}
        found.append(
            row
            | {
                "project": history.project,
                "date": day_of(session["opened_at"]),
                "state": "closed" if session["closed_at"] is not None else "stale" if lasting else "live",
                "stales": len(stale),
                "stale_us": sum(ended),
                "stale_from": [since for since, _ in stale],
                "stale_to": [until for _, until in stale],
            }
        )
    return found


def policy_span(history: History) -> list[Row]:
    found = []
    numbered = [(seq, event) for seq, event in enumerate(history.events, 1) if isinstance(event, ev.PolicyAdopted)]
    for number, (seq, event) in enumerate(numbered):
        document = json.loads(event.policy)
        later = numbered[number + 1 :]
        found.append(
            {
                "project": history.project,
                "version": event.version,
                "adopted_seq": seq,
                "adopted_at": event.at,
                "replaced_at": later[0][1].at if later else None,
                "by": event.by,
                "reason": event.reason,
                "aging_enabled": document["aging"]["enabled"],
                "aging_threshold_us": round(document["aging"]["threshold_s"] * S),
                "aging_boost_levels": document["aging"]["boost_levels"],
                "aging_top": ["Info", "Coordinate", "Blocking", "Critical"].index(document["aging"]["top"]),
                "gaming_messages_min": document["gaming"]["messages_min"],
                "gaming_ratio": document["gaming"]["high_priority_ratio"],
                "critical_delivery_us": round(document["health"]["limits"]["critical_delivery_s"] * S),
                "blocking_delivery_us": round(document["health"]["limits"]["blocking_delivery_s"] * S),
                "breach_sustained_us": round(document["health"]["sustained_s"] * S),
                "policy": event.policy.decode(),
            }
        )
    return found


def ttl_use(history: History) -> list[Row]:
    found = []
    fresh = [life for life in history.lives.values() if life["redrives"] == 0]
    for row, lives in grouped(fresh, lambda life: by_day(life, "message_type") | {"ttl_us": ttl(life)}):
        found.append(
            row
            | {
                "messages": len(lives),
                "expired": count(lives, lambda life: life["state"] == "expired" and life["reason"] == "ttl"),
                "stale": count(lives, lambda life: life["state"] == "expired" and life["reason"] == "stale"),
                "waiting": count(lives, lambda life: life["state"] == "queued" and life["offers"] == 0),
            }
            | waits(lives)
        )
    return found


def by_day(life: Life, *names: str) -> Row:
    return {name: life[name] for name in ("project", "date", *names)}


def ttl(life: Life) -> int:
    return int(life["expires_at"] - life["created_at"])


def expired_unseen(life: Life) -> bool:
    ended = life["state"] == "expired" and life["reason"] == "ttl"
    return bool(ended and life["offers"] == 0 and life["redrives"] == 0)


def pickup(history: History) -> list[Row]:
    taken = [life for life in history.lives.values() if life["first_offered_at"] is not None]
    lost = [life for life in history.lives.values() if expired_unseen(life)]
    offered = grouped(
        taken, lambda life: by_day(life, "recipient") | {"minute": start(life["first_offered_at"], MINUTE)}
    )
    expired = grouped(
        lost,
        lambda life: (
            by_day(life, "recipient", "message_type")
            | {"minute": start(life["expired_at"], MINUTE), "ttl_us": ttl(life)}
        ),
    )
    return [
        *(row | {"message_type": None, "ttl_us": None, "offered": len(x), "expired": 0} for row, x in offered),
        *(row | {"offered": 0, "expired": len(x)} for row, x in expired),
    ]


def late_pickup(history: History) -> list[Row]:
    found = []
    lost = [life for life in history.lives.values() if expired_unseen(life)]
    for row, lives in grouped(
        lost, lambda life: {n: life[n] for n in ("project", "message_type")} | {"ttl_us": ttl(life)}
    ):
        late = []
        for life in lives:
            minute = start(life["expired_at"], MINUTE)
            taken = [
                start(other["first_offered_at"], MINUTE)
                for other in history.lives.values()
                if other["recipient"] == life["recipient"] and other["first_offered_at"] is not None
            ]
            late += [min(at - minute for at in taken if at >= minute)] if any(at >= minute for at in taken) else []
        found.append(row | {"expired": len(lives)} | spread(*late))
    return found


def level_use(history: History) -> list[Row]:
    found = []
    asked = [life for life in history.lives.values() if life["rule"] != "confirmation"]
    for row, lives in grouped(asked, lambda life: by_day(life, "message_type", "requested")):
        reactions = []
        for life in lives:
            stamps = [life[name] for name in ("acked_at", "processed_at") if life[name] is not None]
            if stamps and life["delivered_at"] is not None:
                reactions.append(max(0, min(stamps) - life["delivered_at"]))
        found.append(
            row
            | {
                "messages": len(lives),
                "by_default": count(lives, having("rule", "contract_default")),
                "lowered": count(lives, lambda life: life["priority"] < life["requested"]),
            }
            | spread(*reactions)
        )
    return found


def recipient_load(history: History) -> list[Row]:
    pushed = [life for life in history.lives.values() if life["publish_path"] == "pushed_to_ws"]
    return [
        row
        | {
            "messages": len(lives),
            "held_back": sum(bool(life["first_waited_us"]) for life in lives),
        }
        | waits(lives)
        for row, lives in grouped(pushed, lambda life: by_day(life, "recipient"))
    ]


def lease_span(history: History) -> list[Row]:
    spans: dict[str, Row] = {}
    left: dict[str, int] = {}
    blank = dict.fromkeys(("granted_at", "ended_at", "waited_us", "held_us", "place", "end_reason"))
    for event in history.events:
        if isinstance(event, ev.LeaseQueued | ev.LeaseGranted) and event.lease not in spans:
            spans[event.lease] = {
                "project": history.project,
                "date": day_of(event.at),
                "lease": event.lease,
                "agent": event.agent if isinstance(event, ev.LeaseQueued) else event.holder,
                "exclusive": list(event.exclusive),
                "shared": list(event.shared),
                "level": event.level,
                "asked_at": event.at,
                **blank,
                "renewals": 0,
                "warnings": 0,
                "state": "waiting",
            }
            left[event.lease] = len(event.exclusive) + len(event.shared)
        match event:
            case ev.LeaseQueued():
                spans[event.lease]["place"] = event.place
            case ev.LeaseGranted():
                spans[event.lease] |= {"granted_at": event.at, "waited_us": event.waited_us, "state": "held"}
            case ev.LeaseRenewed():
                spans[event.lease]["renewals"] += 1
            case ev.LeaseExpiring():
                spans[event.lease]["warnings"] += 1
            case ev.LeaseWaitEnded():
                spans[event.lease] |= {"ended_at": event.at, "waited_us": event.waited_us, "state": "given_up"}
                spans[event.lease]["end_reason"] = event.reason
            case ev.LeaseReleased() | ev.LeaseLapsed() | ev.LeaseReclaimed():
                left[event.lease] -= len(event.resources)
                if left[event.lease] <= 0:
                    ends = {ev.LeaseLapsed: "lapsed", ev.LeaseReclaimed: "reclaimed"}
                    span = spans[event.lease]
                    reason = event.reason if isinstance(event, ev.LeaseReleased) else ends[type(event)]
                    span |= {"ended_at": event.at, "end_reason": reason, "state": "ended"}
                    span["held_us"] = max(0, event.at - span["granted_at"])
    return list(spans.values())


#: Reasons for which a lease ends against its holder's intention.
AGAINST = ("forced", "deadlock", "lapsed", "reclaimed")


def lease_wait(history: History) -> list[Row]:
    found = []
    for row, spans in grouped(
        lease_span(history),
        lambda span: (
            {name: span[name] for name in ("project", "date", "agent")} | {"hour": start(span["asked_at"], HOUR)}
        ),
    ):
        found.append(
            row
            | {
                "leases": len(spans),
                "granted": count(spans, lambda span: span["granted_at"] is not None),
                "in_line": count(spans, lambda span: span["place"] is not None),
                "given_up": count(spans, having("state", "given_up")),
                "lost": count(spans, lambda span: span["granted_at"] is not None and span["end_reason"] in AGAINST),
                "held_us": sum(span["held_us"] or 0 for span in spans),
            }
            | spread(*(span["waited_us"] for span in spans if span["waited_us"] is not None))
        )
    return found


def escalation(history: History) -> list[Row]:
    found: dict[str, Row] = {}
    for event in history.events:
        if isinstance(event, ev.EscalationOpened):
            found[event.escalation] = {
                "project": history.project,
                "date": day_of(event.at),
                **{name: getattr(event, name) for name in ("escalation", "rule", "trigger", "subject", "cause")},
                "message": event.about or None,
                "threshold": event.threshold,
                "opened_at": event.at,
                **dict.fromkeys(("director_at", "human_at", "closed_at", "open_us")),
                "moves": 0,
                "state": "opened",
                "resolved_by": None,
            }
        elif isinstance(event, ev.EscalationMoved):
            row = found[event.escalation]
            row["moves"] += 1
            row |= {"state": event.new_state, "resolved_by": event.by}
            if event.new_state in ("director_notified", "critical_alert"):
                row["director_at"] = row["director_at"] or event.at
            if event.new_state == "human_escalation":
                row["human_at"] = row["human_at"] or event.at
            over = event.new_state == "normal"
            row["closed_at"] = event.at if over else None
            row["open_us"] = max(0, event.at - row["opened_at"]) if over else None
    return list(found.values())


def escalation_outcome(history: History) -> list[Row]:
    return [
        row
        | {
            "escalations": len(some),
            "to_director": count(some, lambda one: one["director_at"] is not None),
            "to_human": count(some, lambda one: one["human_at"] is not None),
            "closed": count(some, lambda one: one["closed_at"] is not None),
        }
        | spread(*(one["open_us"] for one in some if one["open_us"] is not None))
        for row, some in grouped(
            escalation(history),
            lambda one: (
                {name: one[name] for name in ("project", "date", "rule", "trigger")}
                | {"hour": start(one["opened_at"], HOUR)}
            ),
        )
    ]


def deadlock(history: History) -> list[Row]:
    return [
        {
            "project": history.project,
            "date": day_of(event.at),
            "seq": seq,
            "found_at": event.at,
            "cycle": list(event.cycle),
            "agents": len(event.cycle),
            "waits": list(event.waits),
            "victim": event.victim,
            "refused": event.refused,
        }
        for seq, event in enumerate(history.events, 1)
        if isinstance(event, ev.DeadlockFound)
    ]


def inversion(history: History) -> list[Row]:
    lent = [event for event in history.events if isinstance(event, ev.PriorityInherited | ev.PriorityRestored)]
    found = []
    for row, some in grouped(lent, occurrence(history, "agent")):
        rises = [event for event in some if isinstance(event, ev.PriorityInherited)]
        found.append(
            row
            | {
                "raised": len(rises),
                "restored": len(some) - len(rises),
                "highest": max((event.new_level for event in rises), default=None),
                "messages": sum(len(event.raised) for event in rises),
            }
        )
    return found


def agent_wake(history: History) -> list[Row]:
    found: dict[str, Row] = {}
    for event in history.events:
        if isinstance(event, ev.AgentWakeRequested):
            life = history.lives[event.message]
            found[event.wake] = {
                "project": history.project,
                "date": day_of(event.at),
                **{name: getattr(event, name) for name in ("wake", "agent", "message", "level", "attempt")},
                "message_id": life["message_id"],
                "outcome": "under_way",
                "given_up": False,
                "accepted_at": life["created_at"],
                "requested_at": event.at,
                **dict.fromkeys(("ended_at", "delivered_at", "to_woken_us", "to_delivered_us")),
                "to_request_us": max(0, event.at - life["created_at"]),
            }
        elif isinstance(event, ev.AgentWakeFailed):
            found[event.wake] |= {"outcome": event.reason, "given_up": event.final, "ended_at": event.at}
        elif isinstance(event, ev.AgentWoken):
            row, delivered_at = found[event.wake], history.lives[event.message]["delivered_at"]
            row |= {"outcome": "woken", "ended_at": event.at}
            row["to_woken_us"] = max(0, event.at - row["accepted_at"])
            if delivered_at is not None and delivered_at >= event.at:
                row["delivered_at"] = delivered_at
                row["to_delivered_us"] = max(0, delivered_at - row["accepted_at"])
    return list(found.values())


#: The function for each table.
ORACLE: dict[str, Callable[[History], list[Row]]] = {
    function.__name__: function
    for function in (
        policy_span, agent_session, thread, signal_state, time_to_drain, recall, delivery_sla, sla_breach, aging_wait,
        boost, priority_mix, refusal, retry, dead_letter, queue_flow, queue_depth, processing_latency, decay_rate,
        session_count, agent_attachment, traffic, lead_time, thread_outcome, ttl_use, pickup,
        late_pickup, level_use, recipient_load, lease_span, lease_wait, escalation, escalation_outcome, deadlock,
        inversion, agent_wake,
    )
}  # fmt: skip
