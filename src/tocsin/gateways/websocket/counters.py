"""Counters of the WebSocket gateway, with their labels resolved in advance because every frame uses them."""

from tocsin.hub.observability.counters import Count
from tocsin.hub.observability.metrics import Metrics
from tocsin.wire.socket import OPERATION_NAMES, Fault

__all__ = ["SocketMetrics"]


class SocketMetrics:
    """Counters that all sockets share."""

    def __init__(self, metrics: Metrics) -> None:
        self._problems = metrics.socket_problems
        self.frames_in = metrics.socket_frames.of("in")
        self.frames_out = metrics.socket_frames.of("out")
        self.pushes = metrics.socket_pushes.of()
        #: By type of operation.
        self.operations: dict[type, Count] = {
            shape: metrics.socket_operations.of(name) for name, shape in OPERATION_NAMES.items()
        }
        self.operations[Fault] = metrics.socket_operations.of("unreadable")

    def count_problem(self, code: str) -> None:
        """Count a refusal by its code."""
        self._problems.add(code)
