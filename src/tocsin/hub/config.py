"""Server configuration: addresses, limits and timeouts of one hub process.

The rules of a project are in its policy. These settings are of one process and are not part of the project's history.
The defaults are in the packaged `server.yaml`; a file of the same name in the data directory overrides some of them.
"""

import ipaddress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import yaml
from msgspec import Meta

from tocsin.core.errors import Problem, error_for, refusal
from tocsin.core.protocol.validation import explain
from tocsin.journal.terms import OwnershipTerms, StoreTimeouts

__all__ = [
    "Channels",
    "DashboardConfig",
    "Destination",
    "FileAgent",
    "HistoryConfig",
    "HubsConfig",
    "ReadinessConfig",
    "ServerConfig",
    "SocketConfig",
    "Waker",
    "WakerConfig",
    "WebhookConfig",
    "is_loopback",
    "load_config",
]

Count = Annotated[int, Meta(ge=1, le=10**9)]
Seconds = Annotated[float, Meta(gt=0, le=3.2e9)]


class SocketConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits and timeouts of WebSockets."""

    #: Open sockets of all agents; a handshake above this number is refused.
    connections_max: Count
    #: Open sockets of one agent.
    connections_per_agent_max: Count
    #: Operations in one frame.
    batch_max: Count
    #: Largest frame, bytes; a larger one ends the socket with 1009.
    frame_bytes_max: Count
    #: Unanswered operations of one socket; above this number the hub stops reading it.
    in_flight_max: Count
    #: Operations of all sockets that are decided in one iteration of the event loop; urgent ones are decided first.
    turn_operations_max: Count
    #: Bytes that wait to be written to one socket; above this the hub stops reading it and delays pushes.
    outgoing_bytes_max: Count
    #: Malformed operations after which the socket is closed.
    faults_max: Count
    #: Time for an agent to resume its session after its socket was lost, seconds.
    resume_grace_s: Seconds
    #: Time from the handshake to an accepted `hello`, seconds.
    hello_timeout_s: Seconds
    #: Interval at which clients are asked to send heartbeats, seconds.
    heartbeat_s: Seconds
    #: Time without any operation after which a socket is closed, seconds.
    silence_max_s: Seconds
    #: Time for a client to read a frame, seconds.
    slow_reader_timeout_s: Seconds
    #: Interval of WebSocket pings, which detect lost connections, seconds.
    ping_interval_s: Seconds
    #: Time to answer a ping, seconds.
    ping_timeout_s: Seconds
    #: Time for the client to close after the hub has closed, seconds.
    close_timeout_s: Seconds
    #: Interval at which idle sockets and ended tokens are checked, seconds.
    sweep_interval_s: Seconds

    def __post_init__(self) -> None:
        """Check limits that depend on each other."""
        if self.in_flight_max < self.batch_max:
            raise ValueError("in_flight_max must not be less than batch_max: a whole frame has to fit")
        if self.silence_max_s <= self.heartbeat_s:
            raise ValueError("silence_max_s must be more than heartbeat_s: a client must be able to keep it")


class FeedConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the live feed."""

    #: Watchers at the same time.
    watchers_max: Count
    #: Commits that wait for one watcher; above this number it misses some.
    frames_max: Count
    #: Records in one WebSocket frame.
    records_max: Count
    #: Interval at which a watcher's token is checked while nothing is sent, seconds.
    check_interval_s: Seconds


class DashboardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits and intervals of the dashboard, and the length of a browser session."""

    #: Time after which a user has to sign in again, seconds.
    browser_session_s: Seconds
    #: Sign-outs that are remembered until the browser session would have expired; above this the oldest is dropped.
    sign_outs_max: Count
    #: Time for which a one-time sign-in link is valid, seconds.
    sign_in_link_s: Seconds
    #: Unused sign-in links; above this the oldest is dropped.
    sign_in_links_max: Count
    #: Dashboards open at the same time.
    viewers_max: Count
    #: Interval at which open dashboards are updated, seconds. Their pages repeat queries in proportion to it.
    tick_s: Annotated[float, Meta(ge=0.05, le=60)]
    #: Greatest age of lists that are cached for all viewers, seconds.
    shared_s: Annotated[float, Meta(ge=0, le=60)]
    #: Share of the time that summarising the state may take; with very many agents it is summarised less often.
    survey_share: Annotated[float, Meta(gt=0, le=1)]
    #: Time between two points of the time series, seconds.
    sample_s: Annotated[float, Meta(ge=0.1, le=3600)]
    #: Points that the time series keep.
    samples_max: Count
    #: Notices shown when a dashboard is opened.
    notices_max: Count
    #: Rows in the list of messages that expire next.
    pending_max: Count
    #: Waiting messages for absent agents from which on their number is highlighted.
    pending_hot: Count
    #: Sends to unknown agents within a minute from which on undeliverable is highlighted.
    undeliverable_hot: Count
    #: Latest messages that the list of conversations is computed from.
    conversations_window: Count
    #: Pairs of agents in the list of conversations.
    conversations_max: Count


class HistoryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Location of the output of the pipeline and the lab, and limits of queries on it."""

    #: Folder with the extract of the pipeline's tables; null is `warehouse/_extract` in the data directory.
    extract: str | None
    #: Folder with reports; null is `reports` and `lab/reports` in the data directory: the pipeline's and the lab's.
    reports: str | None
    #: Rows of the extract that one query may read.
    rows_max: Count
    #: Reports that are listed, newest first.
    reports_max: Count


class FileAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent that takes part by appending lines to files."""

    #: User id that must own the agent's directories; null is the hub's user.
    uid: Annotated[int, Meta(ge=0)] | None = None
    #: Agent type, used for routing.
    type: str = "AdHoc"
    #: Role of the agent, which decides its permissions.
    role: str = "primary"
    #: Protocol versions that the agent supports; empty is all.
    versions: list[str] = []


class Channels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file gateway: channels as NDJSON files."""

    #: Directory of the channels; null turns the file gateway off.
    directory: str | None
    #: File agents by name.
    agents: dict[str, FileAgent]
    #: Group id that may read the files that the hub writes; null is only the hub's user.
    group: Annotated[int, Meta(ge=0)] | None
    #: Lines of one file agent that are processed at the same time.
    lines_max: Count
    #: Directories of one file agent that are read.
    files_per_agent_max: Count
    #: Time to complete a line that has been begun, seconds.
    partial_line_timeout_s: Seconds
    #: Interval at which a file agent's directories are checked without a change notification, seconds.
    poll_interval_s: Seconds
    #: Time that change notifications are collected before the directories are checked, seconds.
    watch_step_s: Annotated[float, Meta(ge=0.001, le=10)]
    #: Pause of reading after a batch in which a line was refused, seconds.
    refusal_pause_s: Annotated[float, Meta(ge=0, le=3.2e9)]
    #: Size at which a file is renamed and a new one begun, bytes.
    rotate_bytes: Count
    #: Age at which a file is renamed, seconds: counted in whole periods since the epoch.
    rotate_age_s: Seconds
    #: Time that a renamed file is kept, seconds.
    keep_s: Seconds
    #: Events that wait in memory to be written; later ones are read from the journal.
    backlog_events_max: Count
    #: Size of the events that wait in memory to be written, bytes.
    backlog_bytes_max: Count
    #: Files whose last line is cached.
    tails_max: Count
    #: Time before a failed write is tried again, seconds.
    retry_s: Seconds


class Destination(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One address that receives events."""

    #: Name of the destination: letters, digits, dashes, underscores.
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    #: URL to post to, http or https; redirects are not followed.
    url: str
    #: File with the secret that deliveries are signed with, in the data directory.
    secret_file: str
    #: Format of the body: `tocsin`, or `cloudevents` (CloudEvents 1.0, structured mode).
    format: Literal["tocsin", "cloudevents"] = "tocsin"
    #: Names of the events that it receives.
    events: tuple[str, ...] = (
        "EscalationOpened",
        "EscalationMoved",
        "ApprovalRequested",
        "ApprovalOverdue",
        "AlertRaised",
        "AlertCleared",
    )


class WebhookConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Webhooks: destinations, retries and limits."""

    #: Destinations; none by default.
    destinations: list[Destination]
    #: Time for one delivery, seconds.
    timeout_s: Seconds
    #: Attempts to deliver one event before it is dropped.
    attempts_max: Count
    #: Waits between the attempts, seconds; the last one repeats.
    backoff_s: Annotated[list[Seconds], Meta(min_length=1)]
    #: Time that an event which a destination refuses may delay later events, seconds.
    hold_s: Seconds
    #: Refused events of one destination that are retried beside later ones; above this number later events wait.
    aside_max: Count


class ProjectsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The projects of a hub beside its home project: when they are open."""

    #: Time without calls and connections after which a project is closed, seconds.
    quiet_s: Seconds
    #: Projects that are open at the same time; above this number the one that has been quiet longest is closed.
    open_max: Count
    #: Projects that are opened at the same time because something falls due in them, or closed because they are quiet.
    opening_max: Count
    #: Time for a project to open before its caller is asked to try again, seconds.
    open_timeout_s: Seconds
    #: Projects of one process that have metrics of their own, with their name as a label; others are only counted.
    metrics_max: Count
    #: Time for another process of the hub to answer a question about its projects, seconds.
    worker_timeout_s: Seconds


class HubsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hubs that share the projects of one PostgreSQL database: this hub's part, and how it follows the others."""

    #: URL at which callers and other hubs reach this hub, such as `http://hub-1.example:7077`; null is made from
    #: `address` and `port`. It is also the hub's name in the placement, so it should not change with a restart.
    address: str | None
    #: Share of the projects, relative to the weights of the other hubs; 0 takes projects only while no hub has more.
    weight: Annotated[float, Meta(ge=0, le=1000)]
    #: Interval at which this hub shows that it works and looks at the others, seconds.
    beat_s: Seconds
    #: Time without such a sign after which the other hubs take its projects over, seconds. For as long this hub accepts
    #: tokens of the home project that it cannot read again, and a change of them waits for a hub that does not answer.
    lease_s: Seconds
    #: Time for the callers of a project that moves to another hub to leave, seconds; then their connections are closed.
    drain_s: Seconds
    #: Projects whose former owner is waited for at the same time.
    waiting_max: Count

    def __post_init__(self) -> None:
        """Check fields that depend on each other."""
        if self.lease_s < 3 * self.beat_s:
            raise ValueError("hubs.lease_s must be at least three times beat_s: one late sign must not end it")
        if self.address is not None and not self.address.startswith(("http://", "https://")):
            raise ValueError("hubs.address must be a URL: http://host:port or https://host:port")


class Waker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A way to start one agent, or the agents of one role: a command or a webhook."""

    #: Program and arguments; no shell is used.
    command: tuple[str, ...] = ()
    #: URL to post to, http or https; redirects are not followed.
    webhook: str | None = None
    #: File with the secret that the posts are signed with, in the data directory.
    secret_file: str | None = None
    #: Working directory of the command; null is that of the hub.
    directory: str | None = None
    #: File with the agent's token, in the data directory; null is `tokens/NAME.token`.
    token_file: str | None = None
    #: Whether programs of its process group may run on when the command has ended with 0; otherwise they are ended.
    leaves_programs: bool = False

    def __post_init__(self) -> None:
        """Check fields that depend on each other."""
        if bool(self.command) == (self.webhook is not None):
            raise ValueError("a waker has either a command or a webhook")
        if (self.webhook is None) != (self.secret_file is None):
            raise ValueError("secret_file is for a webhook, which needs one")
        if self.leaves_programs and not self.command:
            raise ValueError("leaves_programs is for a command")


class WakerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wakers: how agents without a live session are started; the policy's `wake` says when."""

    #: Wakers by agent.
    agents: dict[str, Waker]
    #: Wakers by role, for agents that have none of their own.
    roles: dict[str, Waker]
    #: Largest log of one wake, bytes; the newest output is kept.
    log_bytes_max: Annotated[int, Meta(ge=1024, le=10**9)]
    #: Logs kept of one agent.
    logs_max: Count
    #: Longest interval at which processes are checked, seconds.
    check_s: Seconds
    #: Time from asking a process group to end to ending it by force, seconds.
    kill_after_s: Seconds
    #: Time for one post to a webhook, seconds.
    webhook_timeout_s: Seconds


class ReadinessConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer of `/ready`, which means that a commit has just worked."""

    #: Age up to which a commit counts as just made, seconds; otherwise `/ready` makes one without events.
    fresh_s: Seconds
    #: Time for that commit, seconds; then the answer is 503.
    timeout_s: Seconds


#: Groups of MCP tools.
Toolset: TypeAlias = Literal["core", "history", "leases", "work", "teamwork", "directing", "all", "schemas"]


class ServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one hub process."""

    #: Address to listen on; loopback by default.
    address: str
    #: TCP port; 0 chooses a free one.
    port: Annotated[int, Meta(ge=0, le=65535)]
    #: HTTP connections of all callers; a new one above this number replaces the one that has been idle longest.
    connections_max: Count
    #: Unanswered requests of one connection; above this number it is closed after these are answered.
    pipelined_max: Count
    #: Largest request head, bytes: the request line and the headers, each counted with 32 bytes more.
    head_bytes_max: Annotated[int, Meta(ge=1024, le=10**9)]
    #: Time for a caller to send a request head, from connecting or from its first byte, seconds.
    head_timeout_s: Seconds
    #: Largest body of a batch, bytes; other bodies may be as large as a message.
    batch_bytes_max: Count
    #: Concurrent requests of all agents.
    requests_max: Count
    #: Concurrent requests of one agent.
    requests_per_agent_max: Count
    #: Bytes of a body that is too large that are read and discarded, so that its caller sees the answer; a longer body
    #: is refused at once.
    discard_bytes_max: Count
    #: Time for a caller to send its body, also one that is no longer read, seconds.
    body_timeout_s: Seconds
    #: Time for a caller to read its response, seconds; then the connection is dropped.
    write_timeout_s: Seconds
    #: Time that an idle connection is kept, seconds.
    keep_alive_s: Seconds
    #: Time for requests under way to finish when the hub shuts down, seconds.
    shutdown_timeout_s: Seconds
    #: Rows in one page of a list, on every interface.
    page_max: Count
    #: Payloads, metadata and histories of the messages in one page of a list, bytes; the first message always fits.
    page_bytes_max: Count
    #: Rows of the live state that a list examines before other callers are served; one list is read at a time.
    rows_per_turn: Count
    #: Sequence numbers that the search for one page of messages covers; the next page continues from there.
    find_depth: Count
    #: Characters of a message's text that a list shows.
    preview_max: Count
    #: Valid tokens of one agent.
    tokens_per_agent_max: Count
    #: Tokens of one project, ended ones included, from which on only an admin token issues more.
    tokens_max: Count
    #: Time that a reader of history waits for tables to which nothing is written, seconds; then it is refused.
    fresh_timeout_s: Seconds
    #: Time that a reader of history waits while the tables catch up with the journal, seconds.
    fresh_max_s: Seconds
    #: Different values of one metric label; further values are counted as `other`.
    label_values_max: Count
    #: Messages that telemetry remembers as parents of later spans; above this number the oldest is dropped.
    telemetry_messages_max: Count
    #: Largest body of an MCP request, bytes.
    mcp_bytes_max: Count
    #: Urgent messages that the answer to an MCP call may include.
    mcp_urgent_max: Annotated[int, Meta(ge=1, le=500)]
    #: Payloads of those messages in total, bytes; larger messages have to be fetched.
    mcp_urgent_bytes_max: Count
    #: Messages of one `fetch_inbox`.
    mcp_inbox_max: Annotated[int, Meta(ge=1, le=500)]
    #: Payloads of one `fetch_inbox` in total, bytes; a larger message is returned in parts. Claude Code and Codex cut
    #: the result of a tool above about 48,000 characters.
    mcp_inbox_bytes_max: Count
    #: Metadata of one message in an MCP answer, bytes; the rest is left out, and `get_message` returns it.
    mcp_metadata_bytes_max: Count
    #: Nesting levels in MCP answers; deeper values are shown as JSON text.
    mcp_depth_max: Annotated[int, Meta(ge=8, le=100)]
    #: Origins, in addition to those on this machine, whose pages may call MCP.
    mcp_origins: list[str]
    #: Toolsets that an agent's coding assistant is shown by role, unless it asks for others; `core` for other roles.
    mcp_toolsets: dict[str, list[Toolset]]
    #: WebSockets.
    socket: SocketConfig
    #: The live feed.
    feed: FeedConfig
    #: The dashboard.
    dashboard: DashboardConfig
    #: Output of the pipeline and the lab.
    history: HistoryConfig
    #: The file gateway.
    channels: Channels
    #: Python's switch interval: how long one thread may hold the interpreter while another waits, seconds.
    switch_interval_s: Annotated[float, Meta(ge=0.0001, le=1)]
    #: New lists, mappings and other containers after which Python's garbage collector looks for cycles among them. With
    #: a small number it looks often while a body that is mostly brackets is parsed; with a large one it looks longer.
    collection_objects: Annotated[int, Meta(ge=100, le=100_000)]
    #: Time slice that the hub's threads request from Linux (6.12 or newer), seconds; 0 is the kernel's default. With a
    #: shorter one than other programs have, a thread that wakes up does not wait for them on busy processors.
    time_slice_s: Annotated[float, Meta(ge=0, le=0.1)]
    #: Threads for calls that block: files, databases, the ends of other threads.
    threads_max: Count
    #: Blocks of memory of at least this size, such as large payloads, are returned to the system when they are freed,
    #: bytes. Only with the GNU C library, which otherwise keeps them for later.
    returned_block_bytes_min: Annotated[int, Meta(ge=4096, le=32 << 20)]
    #: Interval at which the hub measures its health, seconds.
    health_interval_s: Seconds
    #: Period that the health percentiles cover, seconds.
    health_window_s: Seconds
    #: Webhooks.
    webhooks: WebhookConfig
    #: Wakers.
    wakers: WakerConfig
    #: Ownership of a project on PostgreSQL.
    ownership: OwnershipTerms
    #: Time limits of the store.
    store: StoreTimeouts
    #: The answer of `/ready`.
    readiness: ReadinessConfig
    #: Projects beside the home project.
    projects: ProjectsConfig
    #: The hubs that share the projects of one PostgreSQL database.
    hubs: HubsConfig

    def __post_init__(self) -> None:
        """Check settings that depend on each other."""
        serving_s = self.ownership.lease_s - self.ownership.renew_s + self.hubs.beat_s
        if self.hubs.lease_s < serving_s:
            raise ValueError(
                f"hubs.lease_s must be at least {serving_s:g}, which is ownership.lease_s - ownership.renew_s +"
                " hubs.beat_s: a hub that hangs must have stopped serving before its projects are taken over"
            )


def load_config(path: Path | None = None, **changes: Any) -> ServerConfig:
    """Return the defaults, overridden by a file and then by `changes` from the command line."""
    document = _defaults()
    if path is not None and path.exists():
        try:
            own = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise refusal("E_POLICY_001", f"{path.name} is not YAML: {error}") from None
        if not isinstance(own, dict | None):
            raise refusal("E_POLICY_001", f"{path.name} must be a mapping", field="$")
        document = _overridden(document, own or {})
    document = _overridden(document, {name: value for name, value in changes.items() if value is not None})
    try:
        return msgspec.convert(document, ServerConfig)
    except msgspec.ValidationError as error:
        wrong = explain(ServerConfig, document)
        if isinstance(error.__cause__, ValueError):
            raise refusal("E_POLICY_001", str(error)) from None
        raise error_for(Problem("E_POLICY_001", wrong.detail, wrong.field, wrong.found, wrong.expected)) from None


@cache
def _defaults() -> dict[str, Any]:
    """Return the packaged document, which is parsed once."""
    text = resources.files("tocsin.hub").joinpath("server.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def _overridden(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a document with some settings replaced; sections are merged one level deep."""
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
