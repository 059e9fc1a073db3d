"""The table of operations."""

from tocsin.core.errors import TocsinError, refusal
from tocsin.core.protocol.validation import nearest
from tocsin.wire import agents, archive, history, leases, messages, project, projects, teamwork
from tocsin.wire.operation import Operation

__all__ = ["OPERATIONS", "unknown_operation"]

#: Every operation, by name.
OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for module in (messages, history, agents, leases, project, projects, teamwork, archive)
    for operation in module.OPERATIONS
}


def unknown_operation(name: str) -> TocsinError:
    """Return the error for an operation that is not in the table, with the nearest name that is."""
    near = nearest(name, OPERATIONS)
    expected = f"did you mean {near!r}?" if near else "one of " + ", ".join(OPERATIONS)
    return refusal(
        "E_VALIDATION_003",
        f"{name[:64]!r} is not an operation; {expected}",
        field="$.operation",
        found=name[:64],
        expected=expected,
    )
