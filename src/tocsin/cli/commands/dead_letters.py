"""`tocsin dlq`: dead letters."""

from tocsin.cli.commands.messages import trace
from tocsin.cli.operations.commands import group_of

__all__ = ["dlq"]

dlq = group_of("dlq", show=trace)
