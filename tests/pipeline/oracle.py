"""Expected `message_life`, computed in plain Python from one project's events."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tocsin.core import events as ev
from tocsin.core.events import Event
from tocsin.pipeline.tables.schemas import STEPS, step_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stamp(at: int) -> datetime:
    """Return a time as Spark returns it: in UTC, without a time zone."""
    return (_EPOCH + timedelta(microseconds=at)).replace(tzinfo=None)


def lives(project: str, events: Iterable[Event]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the expected rows of `message_life`."""
    found: dict[int, dict[str, Any]] = {}
    for seq, event in enumerate(events, 1):
        if isinstance(event, ev.MessageAccepted):
            found[seq] = _born(project, seq, event)
            continue
        if not isinstance(getattr(event, "message", None), int):
            continue
        life = found[event.message]  # type: ignore[union-attr]
        life["last_seq"], life["last_at"] = seq, stamp(event.at)
        if step_of(type(event)) in STEPS:
            life["path"][step_of(type(event))] = seq
        _step(life, event)
    for life in found.values():
        waits = life["state"] == "delivered" and life["ack_required"]
        life["is_open"] = waits or life["state"] in ("held", "queued", "offered")
    return {(project, seq): life for seq, life in found.items()}


def _born(project: str, seq: int, event: ev.MessageAccepted) -> dict[str, Any]:
    names = (
        "message_id", "sender", "recipient", "message_type", "requested", "priority", "rule", "importance",
        "decay_rate", "ack_required", "version", "correlation_id", "opens_thread", "broadcast", "resolved_session",
        "held",
    )  # fmt: skip
    never = (
        "first_offered_at", "offered_at", "delivered_at", "acked_at", "processed_at", "expired_at", "recalled_at",
        "dead_at", "redriven_at", "purged_at", "reason", "code", "delivered_how", "ack_status", "processed_how",
        "first_waited_us", "ack_latency_us", "processing_latency_us",
    )  # fmt: skip
    counts = ("offers", "attempts", "requeues", "rejections", "boosts", "redrives")
    return {
        "project": project,
        "date": stamp(event.at).date(),
        "message": seq,
        **{name: getattr(event, name) for name in names},
        "level": event.priority,
        "delivery_class": str(event.delivery_class),
        "recipient_state": str(event.recipient_state),
        "publish_path": str(event.publish_path),
        "created_at": stamp(event.at),
        "sent_at": stamp(event.sent_at),
        "expires_at": stamp(event.expires_at),
        **dict.fromkeys(never),
        **dict.fromkeys(counts, 0),
        "state": "held" if event.held else "queued",
        "path": dict.fromkeys(STEPS),
        "last_seq": seq,
        "last_at": stamp(event.at),
    }


def _step(life: dict[str, Any], event: Event) -> None:
    now = stamp(event.at)
    match event:
        case ev.MessageReleased():
            life |= {"expires_at": stamp(event.expires_at), "state": "queued"}
        case ev.MessageOffered():
            if event.offer == 1:
                life |= {"first_offered_at": now, "first_waited_us": event.waited_us}
            life |= {"offered_at": now, "offers": event.offer, "state": "offered"}
        case ev.MessageDelivered():
            life |= {"delivered_at": now, "delivered_how": event.how, "state": "delivered"}
        case ev.MessageAcknowledged():
            life |= {"acked_at": now, "ack_status": event.status, "ack_latency_us": event.latency_us}
            life["state"] = "acknowledged"
        case ev.MessageProcessed():
            life |= {"processed_at": now, "processed_how": event.how, "processing_latency_us": event.latency_us}
            life["state"] = "processed"
        case ev.MessageRejected():
            life["rejections"] += 1
        case ev.MessageRequeued():
            life |= {"delivered_at": None, "attempts": event.attempts, "state": "queued"}
            life["requeues"] += 1
        case ev.MessageBoosted():
            own = event.new_level if event.own_level is None else event.own_level
            life |= {"level": own, "boosts": event.boosts}
        case ev.MessageExpired():
            life |= {"expired_at": now, "reason": event.reason, "state": "expired"}
        case ev.MessageRecalled():
            life |= {"recalled_at": now, "state": "recalled"}
        case ev.MessageDied():
            life |= {"delivered_at": None, "dead_at": now, "reason": event.reason, "code": event.code}
            life |= {"attempts": event.attempts, "state": "dead"}
        case ev.DeadLetterRedriven():
            life |= {"dead_at": None, "redriven_at": now, "expires_at": stamp(event.expires_at), "state": "queued"}
            life |= {"level": life["priority"], "attempts": 0, "boosts": 0}
            life["redrives"] += 1
        case ev.DeadLetterPurged():
            life["purged_at"] = now
