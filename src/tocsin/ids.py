"""Random ids, for everything that runs for real: `{prefix}_{timestamp}_{random}`, as APM §1.2 has them."""

import secrets
from datetime import UTC, datetime

__all__ = ["RandomIds"]

#: Bytes of randomness: two ids of one second collide once in 2^48 pairs.
_RANDOM_BYTES = 6


class RandomIds:
    """Ids that nobody can guess."""

    def fresh(self, prefix: str, now: int) -> str:
        """Return an id that was never used; `now` is microseconds since the epoch."""
        moment = datetime.fromtimestamp(now // 1_000_000, UTC)
        return f"{prefix}_{moment:%Y%m%d_%H%M%S}_{secrets.token_hex(_RANDOM_BYTES)}"
