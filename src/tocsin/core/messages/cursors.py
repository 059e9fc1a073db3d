"""Cursors of drains: each names the offers of one answer, so that a receipt can quote what was received.

Theory of operation. A cursor contains the number of each message, the number of its offer, and a check value. Nothing
about it is stored, so it is valid for as long as its messages are kept: after a restart, after the messages have
returned to the queue, and after the session has ended. The check value covers the agent and its registration. A cursor
of another agent or of another project is unknown, and so is one that was changed on the way. A cursor that an agent
forges can name only messages that the agent may confirm one by one as well.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Final

from tocsin.core.messages.message import Message
from tocsin.core.state import Agent

__all__ = ["cursor_of", "offers_of"]

_CHECK_BYTES: Final = 3
_LOW_BITS: Final = 0x7F
_MORE: Final = 0x80


def cursor_of(agent: Agent, messages: Sequence[Message]) -> str:
    """Return the cursor of the messages that one answer hands out; empty if there are none."""
    body = bytearray()
    before = 0
    for message in messages if len(messages) == 1 else sorted(messages, key=attrgetter("seq")):
        # The lowest bit tells whether the number of the offer follows: it is mostly 1.
        _append(body, message.seq - before << 1 | (message.offers != 1))
        if message.offers != 1:
            _append(body, message.offers)
        before = message.seq
    if not body:
        return ""
    return urlsafe_b64encode(_check(agent, bytes(body)) + bytes(body)).decode().rstrip("=")


def offers_of(agent: Agent, cursor: str, offers_max: int) -> dict[int, int] | None:
    """Return the offer of each message that a cursor names; null if it is not the agent's or names too many."""
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (Error, ValueError):
        return None
    check, body = data[:_CHECK_BYTES], data[_CHECK_BYTES:]
    if not body or body[-1] > _LOW_BITS or check != _check(agent, body):
        return None
    values = iter(_values(body))
    offers: dict[int, int] = {}
    number = 0
    for value in values:
        number += value >> 1
        offers[number] = next(values, 0) if value & 1 else 1
    return offers if len(offers) <= offers_max else None


def _append(body: bytearray, value: int) -> None:
    """Append a number, seven bits to a byte, the lowest first; the high bit of a byte tells that more follow."""
    while value > _LOW_BITS:
        body.append(value & _LOW_BITS | _MORE)
        value >>= 7
    body.append(value)


def _values(body: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in body:
        value |= (byte & _LOW_BITS) << shift
        shift += 7
        if byte <= _LOW_BITS:
            yield value
            value = shift = 0


def _check(agent: Agent, body: bytes) -> bytes:
    owner = f"{agent.agent} {agent.registered_at} ".encode()
    return blake2b(owner + body, digest_size=_CHECK_BYTES).digest()
