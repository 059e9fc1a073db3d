"""Turns what a caller asked for into a subscription, or says why it cannot be.

It checks ids, options and brought channels against the policy and against each other. It knows nothing of who else is
on the bus.
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
    """What a caller of `subscribe` said."""

    #: The subscriber's id.
    id: str
    #: The channel it brings; None has the bus make one.
    channel: Any
    #: Its priority.
    priority: Priority
    #: What a full channel means for a frame.
    on_full: OnFull
    #: How long a publisher waits for it; None leaves that to the policy.
    timeout_s: float | None
    #: Frames that its channel holds; None leaves that to the channel or the policy.
    capacity: int | None


def open_subscription(request: Request, policy: FramesPolicy, joined: int) -> Subscription[Any]:
    """Make the subscription that was asked for, not yet attached to its port."""
    if not request.id.strip():
        raise InvalidSubscriberError(request.id, "an id is a text that is not empty")
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
    """Return the number of waiting frames from which on someone may have to be shed, down to the lowest priority."""
    capacity = subscription.port.capacity
    if not subscription.presses or subscription.priority >= lowest:
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
            raise InvalidSubscriberError(request.id, "timeout_s is for critical subscribers and for OnFull.BLOCK")
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
            raise UnfitChannelError(request.id, f"its channel serves {channel.subscription.id!r}")
        _bounded(request, channel.capacity, policy)
        return channel
    return _foreign(request, policy)


def _foreign(request: Request, policy: FramesPolicy) -> Port[Any]:
    channel = request.channel
    for needed in ("put_nowait", "qsize"):
        if not callable(getattr(channel, needed, None)):
            raise UnfitChannelError(request.id, f"a {type(channel).__name__} is no channel: it has no {needed}()")
    if request.on_full is OnFull.DROP_OLDEST and not callable(getattr(channel, "get_nowait", None)):
        raise UnfitChannelError(request.id, "to drop the oldest frame its channel needs get_nowait()")
    if _wait_s(request, policy) > 0 and not callable(getattr(channel, "put", None)):
        raise UnfitChannelError(request.id, "to wait for room its channel needs put()")
    bound = bound_of(channel)
    if bound is None:
        bound = request.capacity
    if bound is None:
        raise UnfitChannelError(request.id, "its channel does not say how much it holds: give capacity")
    capacity = _bounded(request, bound, policy)
    if not isinstance(channel, asyncio.Queue):
        return QueuePort(channel, capacity)
    loop = running_loop()
    if loop is None:
        raise UnfitChannelError(request.id, "an asyncio.Queue is subscribed on the loop that reads it")
    return LoopQueuePort(channel, capacity, loop)


def _bounded(request: Request, capacity: int, policy: FramesPolicy) -> int:
    if not 1 <= capacity <= policy.channel.capacity_max:
        raise UnfitChannelError(
            request.id,
            f"a channel holds from 1 to {policy.channel.capacity_max} frames, this one {capacity or 'any number'}",
        )
    return capacity
