"""Settings of the frame bus: thresholds, timeouts, intervals and limits, and its enums.

The structs are frozen and check themselves when they are created. The bus reads them once; no other module of the bus
has a number of its own.
"""

import enum
import math

import msgspec


class Priority(enum.IntEnum):
    """Importance of a subscriber when not all can be served; it belongs to the subscriber, not to the frame."""

    #: Retried until its timeout; a drop raises an alarm. For workers with guarantees.
    CRITICAL = 0
    #: Shed only under severe load. Important, but tolerates a gap.
    HIGH = 1
    #: The default.
    NORMAL = 2
    #: Shed first. Experiments, logging, telemetry.
    BEST_EFFORT = 3


class OnFull(enum.Enum):
    """What to do with a frame when its subscriber's channel is full."""

    #: The new frame is dropped.
    DROP_NEWEST = "drop_newest"
    #: The oldest waiting frame is dropped, and the new one is put.
    DROP_OLDEST = "drop_oldest"
    #: The publisher waits up to the subscriber's timeout, then the new frame is dropped.
    BLOCK = "block"


class _Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the settings of one subject: frozen, keyword-only, unknown names refused."""


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(rule)


class ChannelPolicy(_Policy, frozen=True, kw_only=True):
    """Sizes of channels, and the number of subscribers."""

    #: Frames that a channel created by the bus holds, if `subscribe` does not set it. Default 64 frames.
    capacity: int = 64
    #: Maximum frames of any channel. Default 65536 frames.
    capacity_max: int = 65_536
    #: Maximum subscribers of one bus. Default 4096 subscribers.
    subscribers_max: int = 4096
    #: Events that a watcher's channel holds; beyond it the oldest event is dropped. Default 256 events.
    watch_capacity: int = 256

    def __post_init__(self) -> None:
        """Check that the limits agree."""
        _require(1 <= self.capacity <= self.capacity_max, "capacity must be from 1 to capacity_max")
        _require(self.subscribers_max >= 1, "subscribers_max must be at least 1")
        _require(self.watch_capacity >= 1, "watch_capacity must be at least 1")


class WaitPolicy(_Policy, frozen=True, kw_only=True):
    """Time that a publisher waits for a full channel.

    The waits of one publish run at the same time, not one after another.
    """

    #: Time for which a critical subscriber is retried, if `subscribe` does not set it. Default 0.001 s.
    critical_timeout_s: float = 0.001
    #: Time that `OnFull.BLOCK` waits, if `subscribe` does not set it. Default 0.01 s.
    block_timeout_s: float = 0.01
    #: Longest wait that a subscription may set. Default 60 s.
    timeout_max_s: float = 60.0

    def __post_init__(self) -> None:
        """Check that every wait is bounded."""
        _require(math.isfinite(self.timeout_max_s), "timeout_max_s must be finite")
        _require(
            0 <= self.critical_timeout_s <= self.timeout_max_s, "critical_timeout_s must be from 0 to timeout_max_s"
        )
        _require(0 < self.block_timeout_s <= self.timeout_max_s, "block_timeout_s must be above 0, up to timeout_max_s")


class SheddingPolicy(_Policy, frozen=True, kw_only=True):
    """Thresholds at which a subscriber loses frames in favour of a more important one.

    Each number is a fill (waiting frames divided by capacity) of the fullest more important channel; from that fill on
    the level is shed.
    """

    #: Fill of a critical channel from which high subscribers are shed. Default 0.8 of its capacity.
    high: float = 0.8
    #: Fill of a more important channel from which normal subscribers are shed. Default 0.5 of its capacity.
    normal: float = 0.5
    #: Fill of a more important channel from which best-effort subscribers are shed. Default 0.2 of its capacity.
    best_effort: float = 0.2
    #: A subscriber whose full channel took no frame for this long is stalled: publishers do not wait for it and nobody
    #: is shed for it until it takes a frame again. Default 5 s.
    stalled_after_s: float = 5.0

    def __post_init__(self) -> None:
        """Check that less important subscribers are shed first."""
        _require(
            0 < self.best_effort <= self.normal <= self.high <= 1,
            "fill thresholds must be above 0, up to 1, and best_effort <= normal <= high",
        )
        _require(self.stalled_after_s > 0, "stalled_after_s must be above 0")

    def threshold(self, priority: Priority) -> float:
        """Return the fill of a more important channel from which a level is shed; critical is never shed."""
        return (math.inf, self.high, self.normal, self.best_effort)[priority]


class HealthPolicy(_Policy, frozen=True, kw_only=True):
    """Health of a subscriber: the share of frames lost to its own full channel, over a sliding window.

    A state is entered at one share and left below a smaller one, so that a subscriber near a threshold does not
    alternate.
    """

    #: Length of the sliding window. Default 10 s.
    window_s: float = 10.0
    #: Steps of the sliding window. Default 20 steps.
    window_steps: int = 20
    #: Minimum frames in the window for a judgement. Default 10 frames.
    judged_from: int = 10
    #: Share lost from which a subscriber is degraded. Default 0.05 of the frames.
    degraded_from: float = 0.05
    #: Share lost below which it is healthy again. Default 0.02 of the frames.
    healthy_below: float = 0.02
    #: Share lost from which a subscriber is saturated. Default 0.5 of the frames.
    saturated_from: float = 0.5
    #: Share lost below which it is degraded again. Default 0.35 of the frames.
    unsaturated_below: float = 0.35

    def __post_init__(self) -> None:
        """Check that the states do not overlap and that each is left at a lower share than entered."""
        _require(0 < self.window_s < math.inf, "window_s must be above 0 and finite")
        _require(1 <= self.window_steps <= 1000, "window_steps must be from 1 to 1000")
        _require(self.judged_from >= 1, "judged_from must be at least 1")
        _require(
            0 < self.healthy_below <= self.degraded_from <= self.unsaturated_below <= self.saturated_from <= 1,
            "0 < healthy_below <= degraded_from <= unsaturated_below <= saturated_from <= 1 must hold",
        )

    @property
    def step_s(self) -> float:
        """Return the time between two steps of the window, seconds."""
        return self.window_s / self.window_steps


class ReportPolicy(_Policy, frozen=True, kw_only=True):
    """Reports of the bus."""

    #: Time between two reports of drop counts per priority. Default 5 s.
    interval_s: float = 5.0

    def __post_init__(self) -> None:
        """Check that the interval is positive."""
        _require(0 < self.interval_s < math.inf, "interval_s must be above 0 and finite")


class FramesPolicy(_Policy, frozen=True, kw_only=True):
    """All settings of one frame bus."""

    #: Sizes of channels and number of subscribers.
    channel: ChannelPolicy = ChannelPolicy()
    #: Waits of the publisher.
    wait: WaitPolicy = WaitPolicy()
    #: Fill thresholds.
    shedding: SheddingPolicy = SheddingPolicy()
    #: Window, thresholds and hysteresis of health.
    health: HealthPolicy = HealthPolicy()
    #: Reports.
    report: ReportPolicy = ReportPolicy()
