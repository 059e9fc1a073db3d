"""The exchange that a host serves, and the storage limits in force."""

from tocsin.core.policy import Policy, Storage
from tocsin.journal.changes import ObservedExchange

__all__ = ["LiveState"]


class LiveState:
    """Holds the exchange, which is replaced as a whole when the state is rebuilt."""

    def __init__(self, first_policy: Policy) -> None:
        self._first_policy = first_policy
        #: It may be ahead of the journal by the groups that are not yet committed.
        self.exchange: ObservedExchange

    @property
    def storage(self) -> Storage:
        """Return the storage limits of the project's policy, or those of the first policy until one is adopted."""
        state = self.exchange.state
        return state.policy.storage if state.has_policy else self._first_policy.storage
