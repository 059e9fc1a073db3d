"""The `tocsin pipeline` commands. They read segment files and need no running hub."""

from tocsin.cli.pipeline import building, reading, reports
from tocsin.cli.pipeline.options import pipeline

__all__ = ["building", "pipeline", "reading", "reports"]
