"""Settings of a client: timeouts, limits and reconnection.

The defaults are in the packaged `client.yaml`. The settings of a project are its policy; the limits of a hub are in its
welcome.
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
    """Timeouts and limits of one client."""

    #: Address of the hub if neither `connect` nor `TOCSIN_URL` gives one; several are separated by commas.
    url: str
    #: Hubs that one attempt to connect is sent on to; then it has failed.
    hops_max: Count
    #: Timeout of one attempt to connect to the hub, seconds.
    dial_timeout_s: Seconds
    #: Timeout of the first connection, all attempts together, seconds.
    connect_timeout_s: Seconds
    #: Timeout of reconnecting after a lost connection, seconds; null is no limit.
    reconnect_timeout_s: Seconds | None
    #: Timeout of a call, including reconnection, seconds.
    call_timeout_s: Seconds
    #: Default timeout of a request to another agent, seconds.
    request_timeout_s: Seconds
    #: Default duration of a lease, seconds; it is renewed while it is held.
    lease_ttl_s: Seconds
    #: Interval at which the state of a waiting lease request is polled, besides the messages about it, seconds.
    lease_look_s: Seconds
    #: Timeout of closing an agent while calls are under way, seconds.
    close_timeout_s: Seconds
    #: Timeout of a socket's closing handshake, seconds.
    goodbye_timeout_s: Seconds
    #: Whether SIGTERM closes the session before it ends the process, if the program leaves it its default action.
    close_on_sigterm: bool
    #: Interval at which call timeouts are checked, seconds.
    sweep_interval_s: Seconds
    #: Longest silence of the hub after a call before the connection is given up, seconds.
    silence_max_s: Seconds
    #: Longest wait before the first reconnection attempt, seconds; it doubles with each attempt.
    backoff_first_s: Seconds
    #: Longest wait before any reconnection attempt, seconds.
    backoff_max_s: Seconds
    #: Maximum operations per frame.
    batch: Count
    #: Maximum calls without an answer, including those not yet written.
    backlog_max: Count
    #: Largest frame accepted from the hub, bytes.
    frame_bytes_max: Count
    #: Messages without a receipt while the application keeps up.
    window: Count
    #: Maximum messages without a receipt in any case.
    held_max: Count
    #: Time that a message waits for the application before pushing is paused, seconds.
    pause_after_s: Seconds
    #: Messages remembered to recognise repeated deliveries.
    remembered_max: Count


@cache
def _defaults() -> dict[str, Any]:
    text = resources.files("tocsin.client").joinpath("client.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def client_config(**changes: Any) -> ClientConfig:
    """Return the default settings with some changes."""
    document = _defaults() | changes
    try:
        return msgspec.convert(document, ClientConfig)
    except msgspec.ValidationError:
        wrong = explain(ClientConfig, document)
        raise error_for(Problem("E_POLICY_001", wrong.detail, wrong.field, wrong.found, wrong.expected)) from None
