"""The time limit of waits in tests."""

__all__ = ["PATIENCE_S"]

#: How long a test waits for something that must happen. It says nothing about speed: on a loaded
#: machine everything takes many times as long. The limit only has to be shorter than that of a whole test
#: (pyproject.toml), so that a failure names what is missing.
PATIENCE_S = 120.0
