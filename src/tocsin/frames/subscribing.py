"""Validation of `subscribe` calls, and creation of the subscription.

Ids, options and passed channels are checked against the policy and against each other, not against other subscribers.
"""

import asyncio
import math
from typing import Any

import msgspec

from tocsin.frames.channel import Channel
from tocsin.frames.errors import InvalidSubscriberError, UnfitChannelError
from tocsin.frames.foreign import LoopQueuePort, QueuePort, bound_of, is_closed
from tocsin.frames.policy import FramesPolicy, OnFull, Priority
from tocsin.frames.port import Port
from tocsin.frames.subscription import Subscription
from tocsin.frames.waiting import running_loop


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of a `subscribe` call."""

    #: The subscriber's id.
    id: str
    #: Channel that the caller passes; None if the bus creates one.
    channel: Any
    #: Its priority.
    priority: Priority
    #: What to do with a frame when the channel is full.
    on_full: OnFull
    #: Time that a publisher waits for it, seconds; None for the policy's.
    timeout_s: float | None
    #: Frames that its channel holds; None for the channel's or the policy's.
    capacity: int | None


def open_subscription(request: Request, policy: FramesPolicy, joined: int) -> Subscription[Any]:
    """Return the requested subscription, not yet attached to its port."""
    if not request.id.strip():
        raise InvalidSubscriberError(request.id, "the id must be a string that is not blank")
    if request.priority not in tuple(Priority):
        raise InvalidSubscriberError(request.id, f"{request.priority!r} is not a priority")
    return Subscription(
        request.id,
        _port(request, policy),
        Priority(request.priority),
        request.on_full,
        _wait_s(request, policy),
        policy,
        joined,
        keeps_channel=request.channel is not None,
    )


def calm_mark(subscription: Subscription[Any], lowest: Priority, policy: FramesPolicy) -> int:
    """Return the number of waiting frames from which subscribers down to the lowest priority may be shed."""
    capacity = subscription.port.capacity
    if not subscription.exerts_pressure or subscription.priority >= lowest:
        return capacity
    threshold = policy.shedding.threshold(lowest)
    return next(
        depth for depth in range(math.floor(threshold * capacity), capacity + 1) if depth / capacity >= threshold
    )


def _wait_s(request: Request, policy: FramesPolicy) -> float:
    critical = request.priority == Priority.CRITICAL
    blocks = request.on_full is OnFull.BLOCK
    if request.timeout_s is not None:
        if not critical and not blocks:
            raise InvalidSubscriberError(request.id, "timeout_s needs a critical subscriber or OnFull.BLOCK")
        if not 0 <= request.timeout_s <= policy.wait.timeout_max_s:
            raise InvalidSubscriberError(request.id, f"timeout_s must be from 0 to {policy.wait.timeout_max_s}")
        return request.timeout_s
    if blocks:
        return policy.wait.block_timeout_s
    return policy.wait.critical_timeout_s if critical else 0.0


def _port(request: Request, policy: FramesPolicy) -> Port[Any]:
    channel = request.channel
    if channel is None:
        capacity = policy.channel.capacity if request.capacity is None else request.capacity
        return Channel(_bounded(request, capacity, policy))
    if is_closed(channel):
        raise UnfitChannelError(request.id, "its channel is closed")
    if isinstance(channel, Channel):
        if channel.subscription is not None:
            raise UnfitChannelError(request.id, f"its channel is already used by {channel.subscription.id!r}")
        _bounded(request, channel.capacity, policy)
        return channel
    return _foreign(request, policy)


def _foreign(request: Request, policy: FramesPolicy) -> Port[Any]:
    channel = request.channel
    for needed in ("put_nowait", "qsize"):
        if not callable(getattr(channel, needed, None)):
            raise UnfitChannelError(request.id, f"a {type(channel).__name__} cannot be a channel: it has no {needed}()")
    if request.on_full is OnFull.DROP_OLDEST and not callable(getattr(channel, "get_nowait", None)):
        raise UnfitChannelError(request.id, "its channel needs get_nowait() to drop the oldest frame")
    if _wait_s(request, policy) > 0 and not callable(getattr(channel, "put", None)):
        raise UnfitChannelError(request.id, "its channel needs put() to wait for room")
    bound = bound_of(channel)
    if bound is None:
        bound = request.capacity
    if bound is None:
        raise UnfitChannelError(request.id, "its channel has no known size: pass capacity")
    capacity = _bounded(request, bound, policy)
    if not isinstance(channel, asyncio.Queue):
        return QueuePort(channel, capacity)
    loop = running_loop()
    if loop is None:
        raise UnfitChannelError(request.id, "an asyncio.Queue must be subscribed on the loop that reads it")
    return LoopQueuePort(channel, capacity, loop)


def _bounded(request: Request, capacity: int, policy: FramesPolicy) -> int:
    if not 1 <= capacity <= policy.channel.capacity_max:
        raise UnfitChannelError(
            request.id,
            f"a channel must hold from 1 to {policy.channel.capacity_max} frames, not {capacity or 'any number'}",
        )
    return capacity
