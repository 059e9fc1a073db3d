"""What keeps the pipeline from working; the command line turns each into a sentence and an exit code.

PipelineError
├── NoJava               Spark has nothing to run on
├── SettingsWrong        a setting is not as it should be
├── WarehouseBusy        another run or stream is writing
├── WarehouseDamaged     what the manifest names is not there, or not as it says
└── CommitLost           somebody else committed first, and in the way
"""

__all__ = ["CommitLost", "NoJava", "PipelineError", "SettingsWrong", "WarehouseBusy", "WarehouseDamaged"]


class PipelineError(Exception):
    """Base of all."""


class NoJava(PipelineError):
    """There is no Java that Spark can run on."""


class SettingsWrong(PipelineError):
    """A setting is not as it should be."""


class WarehouseBusy(PipelineError):
    """Another run or stream is writing to the warehouse."""


class WarehouseDamaged(PipelineError):
    """The warehouse is not as its manifest says."""


class CommitLost(PipelineError):
    """Somebody else committed first, and changed what this commit was based on."""
