"""Errors of the pipeline; the command line prints each as a sentence and exits with a code.

PipelineError
├── NoJava               no suitable Java was found
├── SettingsWrong        a setting is invalid
├── WarehouseBusy        another run or stream holds the writer lock
├── WarehouseDamaged     a release or a table's log cannot be read, or a file that it names is missing
├── WarehouseOutdated    the tables were written by an earlier version, in another format
├── StorageUnknown       a URL names no storage that is known
├── StorageUnreachable   a storage does not answer, or its credentials are missing or wrong
├── UploadIncomplete     a file was not copied completely
└── CommitLost           another writer committed this version first
"""

__all__ = [
    "CommitLost",
    "NoJava",
    "PipelineError",
    "SettingsWrong",
    "StorageUnknown",
    "StorageUnreachable",
    "UploadIncomplete",
    "WarehouseBusy",
    "WarehouseDamaged",
    "WarehouseOutdated",
]


class PipelineError(Exception):
    """Base class of the pipeline's errors."""


class NoJava(PipelineError):
    """No Java that Spark can run on was found."""


class SettingsWrong(PipelineError):
    """A setting is invalid."""


class WarehouseBusy(PipelineError):
    """Another run or stream is writing to the warehouse."""


class WarehouseDamaged(PipelineError):
    """The warehouse does not match its newest release."""


class WarehouseOutdated(PipelineError):
    """The tables were written by an earlier version of Tocsin, in a format that is no longer read."""


class StorageUnknown(PipelineError):
    """A URL names no storage that is known."""


class StorageUnreachable(PipelineError):
    """A storage does not answer, or its credentials are missing or wrong."""


class UploadIncomplete(PipelineError):
    """A file was not copied completely."""


class CommitLost(PipelineError):
    """Another writer committed this version first, so this commit was based on an outdated state."""
