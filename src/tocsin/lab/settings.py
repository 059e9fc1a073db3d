"""Settings of the lab: bounds of fidelity, the model of consumers, size of a search.

They are not part of a project's policy, since no decision of the bus depends on them. The defaults are in the packaged
`lab.yaml`; a file of the same name in the data directory overrides some of them.
"""

from importlib import resources
from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta

from tocsin.core.errors import refusal
from tocsin.core.protocol.validation import explain

__all__ = ["Settings", "load_settings"]

Count = Annotated[int, Meta(ge=1, le=10**9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0, le=3.2e9)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings, with the packaged defaults filled in."""

    #: Smallest share of messages with the same outcome in an open-loop replay under the policy in force.
    open_outcomes_min: Share
    #: The same for the closed loop.
    closed_outcomes_min: Share
    #: Largest Kolmogorov-Smirnov distance between recorded and replayed waiting times.
    latency_distance_max: Share
    #: Longest time between a message and its answer; a later send in the thread counts as independent, seconds.
    think_max_s: Seconds
    #: Number of examples in the model of a consumer, per message type.
    examples_max: Count
    #: Interval at which a replay checks its timers, seconds of simulated time.
    clock_s: Seconds
    #: Length of a window, seconds.
    window_s: Seconds
    #: Waiting time for the first offer from which a message counts as starved, seconds.
    starved_after_s: Seconds
    #: Number of bootstrap samples.
    bootstrap_draws: Count
    #: Confidence level of the intervals.
    confidence: Annotated[float, Meta(gt=0, lt=1)]
    #: Random seed.
    seed: int
    #: Largest number of policies that a search evaluates.
    evaluations: Count
    #: Share of them that samples the space evenly.
    initial_share: Share
    #: Number of refinements without an improvement of the front after which a search stops.
    patience: Count
    #: Number of policies that are evaluated at a time.
    batch: Count
    #: Largest number of events on which a recommendation is tried; of a longer history the last ones are replayed.
    trial_events_max: Count
    #: Largest number of events that are read for it, because a replay needs the state at its start.
    trial_read_max: Count
    #: Number of parts of the replayed time that the spread of an effect is taken from.
    trial_parts: Count
    #: Smallest effect with which a recommendation is shown, as a share of the figure before.
    trial_effect_min: Share
    #: Largest number of agents in a scenario.
    agents_max: Count
    #: Largest number of messages in a scenario.
    messages_max: Count

    @property
    def think_max_us(self) -> int:
        """Return `think_max_s` in microseconds."""
        return round(self.think_max_s * 1_000_000)

    @property
    def clock_us(self) -> int:
        """Return `clock_s` in microseconds."""
        return max(1, round(self.clock_s * 1_000_000))

    @property
    def window_us(self) -> int:
        """Return `window_s` in microseconds."""
        return max(1, round(self.window_s * 1_000_000))


def load_settings(path: Path | None = None) -> Settings:
    """Read the defaults and apply the overrides of a file."""
    document = yaml.safe_load(resources.files("tocsin.lab").joinpath("lab.yaml").read_text(encoding="utf-8"))
    if path is not None and path.exists():
        try:
            own = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise refusal("E_LAB_003", f"{path.name} is not YAML: {error}") from None
        if not isinstance(own, dict | None):
            raise refusal("E_LAB_003", f"{path.name} must be a mapping")
        document |= own or {}
    try:
        return msgspec.convert(document, Settings)
    except msgspec.ValidationError:
        wrong = explain(Settings, document)
        expected = f" (expected {wrong.expected})" if wrong.expected else ""
        raise refusal("E_LAB_003", f"{wrong.field}: {wrong.detail}{expected}", field=wrong.field) from None
