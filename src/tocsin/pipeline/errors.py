"""Errors of the pipeline; the command line prints each as a sentence and exits with a code.

PipelineError
├── NoJava               no suitable Java was found
├── SettingsWrong        a setting is invalid
├── WarehouseBusy        another run or stream holds the writer lock
├── WarehouseDamaged     a manifest cannot be read, or a file that it names is missing
└── CommitLost           another writer committed this version first
"""

__all__ = ["CommitLost", "NoJava", "PipelineError", "SettingsWrong", "WarehouseBusy", "WarehouseDamaged"]


class PipelineError(Exception):
    """Base class of the pipeline's errors."""


class NoJava(PipelineError):
    """No Java that Spark can run on was found."""


class SettingsWrong(PipelineError):
    """A setting is invalid."""


class WarehouseBusy(PipelineError):
    """Another run or stream is writing to the warehouse."""


class WarehouseDamaged(PipelineError):
    """The warehouse does not match its manifest."""


class CommitLost(PipelineError):
    """Another writer committed this version first, so this commit was based on an outdated state."""
