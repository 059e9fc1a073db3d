"""What goes before all others: seen by a glance at a frame, before it has been read.

Most frames hold nothing urgent, and a busy hub has hundreds of them in line; reading each only to learn that would cost
the urgent ones the time that they do not have. So a frame in which no word stands that urgency could be spelled with
is not read before its turn. Where one does, its envelopes are looked at, and they decide: a text may speak of
"Critical". A word written with JSON's escapes is not recognised and stands in line.
"""

from collections.abc import Callable, Sequence

import msgspec

from tocsin.core.policy import Policy
from tocsin.core.protocol.priority import VOCABULARY, Priority
from tocsin.wire import socket as wire

__all__ = ["PriorityScan"]

_NAMES = tuple(f'"{name}"' for name, level in VOCABULARY.items() if level >= Priority.CRITICAL)


class _Glance(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What of an envelope says how urgent it is."""

    message_type: str
    priority: str | None = None


_GLANCE = msgspec.json.Decoder(_Glance)


class PriorityScan:
    """Tells what is urgent under the policy in force."""

    def __init__(self, policy: Callable[[], Policy]) -> None:
        self._policy = policy
        self._known: Policy | None = None
        self._words: tuple[str, ...] = ()

    def may_be_in(self, text: str) -> bool:
        """Tell whether a frame could hold something urgent, without reading it."""
        policy = self._policy()
        if policy is not self._known:
            self._known, self._words = policy, _words_of(policy)
        return any(word in text for word in self._words)

    def is_among(self, operations: Sequence[wire.Operation | wire.Fault]) -> bool:
        """Tell whether something among them asks to go before all others."""
        policy = self._policy()
        for operation in operations:
            if type(operation) is wire.Send:
                try:
                    seen = _GLANCE.decode(operation.envelope)
                except (msgspec.DecodeError, RecursionError):
                    continue
                if seen.priority is None:
                    contract = policy.contract_of(seen.message_type)
                    level = contract.default_priority if contract is not None else Priority.INFO
                else:
                    level = VOCABULARY.get(seen.priority, Priority.INFO)
                if level >= Priority.CRITICAL:
                    return True
        return False


def _words_of(policy: Policy) -> tuple[str, ...]:
    types = [f'"{name}"' for name, each in policy.contracts.items() if each.default_priority >= Priority.CRITICAL]
    if policy.custom_contract.default_priority >= Priority.CRITICAL:
        types.append('"CUSTOM_')
    return (*_NAMES, *types)
