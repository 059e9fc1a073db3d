"""How the lab works: bounds of fidelity, the model of consumers, how much is searched.

No part of a project's policy, since no history depends on it. The defaults are the packaged `lab.yaml`; a file of the
same name beside the data changes some of them.
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
    """What the lab is run by."""

    #: Share of messages with the same outcome that an open-loop replay under the policy in force must reach.
    open_outcomes_min: Share
    #: The same for the closed loop.
    closed_outcomes_min: Share
    #: Largest distance (Kolmogorov-Smirnov) between recorded and replayed waiting times.
    latency_distance_max: Share
    #: A send in a thread later than this after the message that it could answer came from outside, seconds.
    think_max_s: Seconds
    #: Examples of how a consumer treats a kind of message that are kept.
    examples_max: Count
    #: How often a replay looks whether a timer is due, seconds of its own time.
    clock_s: Seconds
    #: Length of a window, seconds.
    window_s: Seconds
    #: A message that waited longer than this for its first offer was starved, seconds.
    starved_after_s: Seconds
    #: Draws of the bootstrap.
    bootstrap_draws: Count
    #: Share of the draws that an interval covers.
    confidence: Annotated[float, Meta(gt=0, lt=1)]
    #: Seeds everything that is drawn.
    seed: int
    #: Policies that a search evaluates at most.
    evaluations: Count
    #: Share of them that fills the space evenly.
    initial_share: Share
    #: Refinements without a new point of the front before a search stops.
    patience: Count
    #: Policies that are evaluated at a time.
    batch: Count
    #: Most agents of a scenario.
    agents_max: Count
    #: Most messages of a scenario.
    messages_max: Count

    @property
    def think_max_us(self) -> int:
        """Return the longest think time in microseconds."""
        return round(self.think_max_s * 1_000_000)

    @property
    def clock_us(self) -> int:
        """Return the grain of a replay's clock in microseconds."""
        return max(1, round(self.clock_s * 1_000_000))

    @property
    def window_us(self) -> int:
        """Return the length of a window in microseconds."""
        return max(1, round(self.window_s * 1_000_000))


def load_settings(path: Path | None = None) -> Settings:
    """Lay a file over the defaults."""
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
