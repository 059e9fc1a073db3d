"""How a hub meets the world: where it listens and what it takes from one caller at a time.

What a project is run by is its policy; this is about one process, so it is no part of the history. The defaults are
the packaged `server.yaml`; a file of the same name in the data directory changes some of them.
"""

import ipaddress
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta

from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.protocol.validation import explain

__all__ = [
    "Channels",
    "DashboardConfig",
    "Destination",
    "FileAgent",
    "HistoryConfig",
    "ServerConfig",
    "SocketConfig",
    "WebhookConfig",
    "is_loopback",
    "load_config",
]

Count = Annotated[int, Meta(ge=1, le=10**9)]
Seconds = Annotated[float, Meta(gt=0, le=3.2e9)]


class SocketConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a WebSocket may take, and how long it may be silent."""

    #: Open sockets, of all agents; a handshake beyond them is refused.
    connections_max: Count
    #: Open sockets of one agent.
    connections_per_agent_max: Count
    #: Operations in one frame.
    batch_max: Count
    #: Largest frame, bytes; a larger one ends the socket with 1009.
    frame_bytes_max: Count
    #: Operations of one socket without an answer; beyond them the hub stops reading it.
    in_flight_max: Count
    #: Operations decided in one turn of the loop, of all sockets; what is urgent does not wait for the others.
    turn_operations_max: Count
    #: Bytes that wait to be written to one socket; beyond them the hub stops reading it, and pushes later.
    outgoing_bytes_max: Count
    #: Operations that cannot be understood before the socket is ended.
    faults_max: Count
    #: Time for a dropped socket's agent to come back for its session, seconds.
    resume_grace_s: Seconds
    #: Time from the handshake to an accepted `hello`, seconds.
    hello_timeout_s: Seconds
    #: How often a client is asked to show that it lives, seconds.
    heartbeat_s: Seconds
    #: Time without any operation after which a socket is ended, seconds.
    silence_max_s: Seconds
    #: Time for a reader to take a frame, seconds.
    slow_reader_timeout_s: Seconds
    #: How often a WebSocket ping looks for a socket whose other end is gone, seconds.
    ping_interval_s: Seconds
    #: Time for its pong, seconds.
    ping_timeout_s: Seconds
    #: Time for the other end to close after the hub has, seconds.
    close_timeout_s: Seconds
    #: How often sockets and tokens are looked at, seconds.
    sweep_interval_s: Seconds

    def __post_init__(self) -> None:
        """Hold the limits against each other."""
        if self.in_flight_max < self.batch_max:
            raise ValueError("in_flight_max must not be less than batch_max: a whole frame has to fit")
        if self.silence_max_s <= self.heartbeat_s:
            raise ValueError("silence_max_s must be more than heartbeat_s: a client must be able to keep it")


class FeedConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the live feed does for those who watch."""

    #: Watchers at a time.
    watchers_max: Count
    #: Commits that wait for one watcher; beyond them it misses some.
    frames_max: Count
    #: Records in one frame of the socket.
    records_max: Count
    #: How often a silent watcher's token is looked at, seconds.
    check_interval_s: Seconds


class DashboardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the dashboard shows, how often, and for how long somebody stays signed in."""

    #: Time after which somebody has to sign in again, seconds.
    browser_session_s: Seconds
    #: Sign-outs remembered until the badge would have ended by itself; beyond them the oldest is forgotten.
    sign_outs_max: Count
    #: Dashboards open at a time.
    viewers_max: Count
    #: How often open dashboards are told what is, seconds.
    tick_s: Annotated[float, Meta(ge=0.05, le=60)]
    #: How often what happened is taken off the feed, seconds.
    listen_s: Annotated[float, Meta(ge=0.01, le=60)]
    #: Lists that all who look at them share are at most so old, seconds.
    shared_s: Annotated[float, Meta(ge=0, le=60)]
    #: Share of the time that looking at the state may take; with very many agents it is looked at less often.
    survey_share: Annotated[float, Meta(gt=0, le=1)]
    #: Between two points of the time series, seconds.
    sample_s: Annotated[float, Meta(ge=0.1, le=3600)]
    #: Points of the time series.
    samples_max: Count
    #: Notices that a newly opened dashboard is shown.
    notices_max: Count
    #: Rows of the list of what expires next.
    pending_max: Count
    #: Messages to who is away from which on pending pickup is hot.
    pending_hot: Count
    #: Sends to nobody within a minute from which on undeliverable is hot.
    undeliverable_hot: Count
    #: Latest messages from which it is found out who talks to whom.
    conversations_window: Count
    #: Pairs of agents that are shown.
    conversations_max: Count


class HistoryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where the past is that the pipeline and the lab leave behind, and how much of it one question may read."""

    #: The extract of the pipeline's tables; null is `warehouse/_extract` in the data directory.
    extract: str | None
    #: The lab's reports; null is `lab/reports` in the data directory.
    reports: str | None
    #: Rows of the extract that one question reads.
    rows_max: Count
    #: Reports that are listed, the newest.
    reports_max: Count


class FileAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent that takes part by appending lines to files."""

    #: User that must own its directories; null is the hub's own.
    uid: Annotated[int, Meta(ge=0)] | None = None
    #: What it is for routing.
    type: str = "AdHoc"
    #: What it may do.
    role: str = "primary"
    #: Protocol versions that it speaks; empty is all.
    versions: list[str] = []


class Channels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file gateway: channels as NDJSON files."""

    #: Where the channels are; null is no file gateway.
    directory: str | None
    #: File agents by name.
    agents: dict[str, FileAgent]
    #: Group that may read what the hub writes; null is nobody but the hub's user.
    group: Annotated[int, Meta(ge=0)] | None
    #: Lines of one file agent under way at a time.
    lines_max: Count
    #: Directories of one file agent that are read.
    files_per_agent_max: Count
    #: Time for a line's end to follow its beginning, seconds.
    partial_line_timeout_s: Seconds
    #: Between two looks at a file agent's directories, if nothing tells of a change, seconds.
    poll_interval_s: Seconds
    #: Time that changes are gathered before a look, seconds.
    watch_step_s: Annotated[float, Meta(ge=0.001, le=10)]
    #: Time that reading rests after a batch in which a line was refused, seconds.
    refusal_pause_s: Annotated[float, Meta(ge=0, le=3.2e9)]
    #: Size at which a file is renamed and a new one begun, bytes.
    rotate_bytes: Count
    #: The same by age, seconds: counted in whole periods since the epoch.
    rotate_age_s: Seconds
    #: Time that a renamed file is kept, seconds.
    keep_s: Seconds
    #: Events that wait in memory to be written; what comes after them is read from the journal.
    backlog_events_max: Count
    #: The same by size, bytes.
    backlog_bytes_max: Count
    #: Files whose end is remembered.
    tails_max: Count
    #: Time before a failed write is tried again, seconds.
    retry_s: Seconds


class Destination(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One address that is told of events."""

    #: Letters, digits, dashes, underscores.
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    #: Where to post, exactly; http or https.
    url: str
    #: File with the secret that deliveries are signed with, in the data directory.
    secret_file: str
    #: Events that it is told of, by name.
    events: tuple[str, ...] = (
        "EscalationOpened",
        "EscalationMoved",
        "ApprovalRequested",
        "ApprovalOverdue",
        "AlertRaised",
        "AlertCleared",
    )


class WebhookConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whom the hub tells of what happens, outside."""

    #: Addresses; none unless the operator names them.
    destinations: list[Destination]
    #: Time for one delivery, seconds.
    timeout_s: Seconds
    #: Deliveries of one event that are tried before it is given up.
    attempts_max: Count
    #: Waits between them, seconds; the last repeats.
    backoff_s: Annotated[list[Seconds], Meta(min_length=1)]
    #: How long an event that a destination does not take may hold up those after it, seconds.
    hold_s: Seconds
    #: Events of one destination that may be put aside for that; with more, the others wait.
    aside_max: Count


class ServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One process's doors and limits."""

    #: Where it listens; loopback unless said otherwise.
    address: str
    #: TCP port; 0 takes any free one.
    port: Annotated[int, Meta(ge=0, le=65535)]
    #: HTTP connections, of all callers; one more takes the place of the one that has been idle longest.
    connections_max: Count
    #: Requests of one connection without an answer; it is closed after the answers to these.
    pipelined_max: Count
    #: Largest head of a request, bytes: its line and its headers, for each of which 32 more are counted.
    head_bytes_max: Annotated[int, Meta(ge=1024, le=10**9)]
    #: Time for a caller to send a head, from its first byte or from connecting, seconds.
    head_timeout_s: Seconds
    #: Largest body of a batch, bytes; any other body may be as large as a message.
    batch_bytes_max: Count
    #: Requests under way at a time, of all agents.
    requests_max: Count
    #: Requests under way at a time, of one agent.
    requests_per_agent_max: Count
    #: Time for a caller to send its body, also one that nobody waits for any more, seconds.
    body_timeout_s: Seconds
    #: Time for a caller to take what was written to it, seconds; then it is dropped.
    write_timeout_s: Seconds
    #: Time that an idle connection is kept, seconds.
    keep_alive_s: Seconds
    #: Time for requests under way to finish when the hub shuts down, seconds.
    shutdown_timeout_s: Seconds
    #: Rows of one page of history.
    page_max: Count
    #: Sequence numbers that finding one page of messages looks at; the next page goes on from there.
    find_depth: Count
    #: Live tokens of one agent.
    tokens_per_agent_max: Count
    #: Time that a reader of history waits for the tables to catch up with the journal, seconds.
    fresh_timeout_s: Seconds
    #: Different values of one metric's label; what comes after them counts as `other`.
    label_values_max: Count
    #: Messages that telemetry remembers at a time, to hang later spans on; beyond that the oldest is forgotten.
    telemetry_messages_max: Count
    #: Largest body of an MCP request, bytes.
    mcp_bytes_max: Count
    #: Urgent messages that the answer to any MCP call carries.
    mcp_urgent_max: Annotated[int, Meta(ge=1, le=500)]
    #: Payloads of those messages, bytes in all; what is larger waits to be fetched.
    mcp_urgent_bytes_max: Count
    #: Payloads of one `fetch_inbox`, bytes in all; a larger message comes alone.
    mcp_inbox_bytes_max: Count
    #: Metadata that MCP shows of one message, bytes; what does not fit is left out, and `get_message` shows it.
    mcp_metadata_bytes_max: Count
    #: Levels of what MCP shows; what is nested deeper is shown as JSON text.
    mcp_depth_max: Annotated[int, Meta(ge=8, le=100)]
    #: Origins, beside those on this machine, whose pages may call MCP.
    mcp_origins: list[str]
    #: What a WebSocket may take.
    socket: SocketConfig
    #: The live feed.
    feed: FeedConfig
    #: The dashboard.
    dashboard: DashboardConfig
    #: What the pipeline and the lab leave behind.
    history: HistoryConfig
    #: Channels as files.
    channels: Channels
    #: How long a thread of the hub may keep the interpreter from one that waits for it, seconds.
    switch_interval_s: Annotated[float, Meta(ge=0.0001, le=1)]
    #: How often the hub reports its own health, seconds.
    health_interval_s: Seconds
    #: How far back its percentiles look, seconds.
    health_window_s: Seconds
    #: Whom the hub tells of what happens.
    webhooks: WebhookConfig


def load_config(path: Path | None = None, **changes: Any) -> ServerConfig:
    """Lay a file and what was said on the command line over the defaults."""
    document = yaml.safe_load(resources.files("tocsin.hub").joinpath("server.yaml").read_text(encoding="utf-8"))
    if path is not None and path.exists():
        try:
            own = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise refusal("E_POLICY_001", f"{path.name} is not YAML: {error}") from None
        if not isinstance(own, dict | None):
            raise refusal("E_POLICY_001", f"{path.name} must be a mapping", field="$")
        document = _laid_over(document, own or {})
    document = _laid_over(document, {name: value for name, value in changes.items() if value is not None})
    try:
        return msgspec.convert(document, ServerConfig)
    except msgspec.ValidationError as error:
        wrong = explain(ServerConfig, document)
        if isinstance(error.__cause__, ValueError):
            raise refusal("E_POLICY_001", str(error)) from None
        raise error_for(Problem("E_POLICY_001", wrong.detail, wrong.field, wrong.found, wrong.expected)) from None


def _laid_over(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Change what is named, one level into the sections."""
    sections = {
        name: {**document[name], **value}
        for name, value in changes.items()
        if isinstance(value, dict) and isinstance(document.get(name), dict)
    }
    return {**document, **changes, **sections}


def is_loopback(address: str) -> bool:
    """Tell whether an address can only be reached from this machine."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
