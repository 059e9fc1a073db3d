"""What a client goes by: how long it waits, how much it holds, how it comes back.

The defaults are the packaged `client.yaml`. What a project is run by is its policy, and what a hub takes it says when a
client attaches; this is about one client alone.
"""

from functools import cache
from importlib import resources
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta

from tocsin.core.errors import Problem, error_for
from tocsin.core.protocol.validation import explain

__all__ = ["ClientConfig", "client_config"]

Count = Annotated[int, Meta(ge=1, le=10**9)]
Seconds = Annotated[float, Meta(gt=0, le=3.2e9)]


class ClientConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One client's patience and limits."""

    #: The hub, where neither the call nor `TOCSIN_URL` says.
    url: str
    #: Time for one attempt to reach the hub and be greeted, seconds.
    dial_timeout_s: Seconds
    #: Time for the first connection, all attempts together, seconds.
    connect_timeout_s: Seconds
    #: Time to try coming back after a drop, seconds; null is for ever.
    reconnect_timeout_s: Seconds | None
    #: Time for the hub to answer a call, reconnecting included, seconds.
    call_timeout_s: Seconds
    #: Time for another agent to answer a request, seconds.
    request_timeout_s: Seconds
    #: How long a lease is for where the call does not say, seconds; it is renewed while it is held.
    lease_ttl_s: Seconds
    #: Between two looks at a lease that is waited for, should no message say that it is granted, seconds.
    lease_look_s: Seconds
    #: Time for what is under way to be answered when the agent closes, seconds.
    close_timeout_s: Seconds
    #: Time for a socket's closing handshake, seconds.
    goodbye_timeout_s: Seconds
    #: Between two looks at which calls have waited too long, seconds.
    sweep_interval_s: Seconds
    #: Time without any sign of the hub after something was asked before the connection is given up, seconds.
    silence_max_s: Seconds
    #: Longest wait before the first new attempt, seconds; it doubles with each.
    backoff_first_s: Seconds
    #: Longest wait before any attempt, seconds.
    backoff_max_s: Seconds
    #: Operations per frame.
    batch: Count
    #: Calls without an answer, those that wait to be written included.
    backlog_max: Count
    #: Largest frame taken from the hub, bytes.
    frame_bytes_max: Count
    #: Messages taken before a receipt, while the application keeps up.
    window: Count
    #: Messages held without a receipt, whatever happens.
    held_max: Count
    #: Time that a message waits for the application before no more are taken, seconds.
    pause_after_s: Seconds
    #: Messages remembered to drop their repeats.
    remembered_max: Count


@cache
def _defaults() -> dict[str, Any]:
    text = resources.files("tocsin.client").joinpath("client.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def client_config(**changes: Any) -> ClientConfig:
    """Lay some changes over the defaults."""
    document = _defaults() | changes
    try:
        return msgspec.convert(document, ClientConfig)
    except msgspec.ValidationError:
        wrong = explain(ClientConfig, document)
        raise error_for(Problem("E_POLICY_001", wrong.detail, wrong.field, wrong.found, wrong.expected)) from None
