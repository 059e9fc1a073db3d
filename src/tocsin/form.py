"""The form in which the package runs: pure Python, or compiled to C."""

from importlib.util import find_spec
from typing import Literal

__all__ = ["package_form"]

#: A module that every compiled form has compiled.
_COMPILED = "tocsin.core.exchange"


def package_form() -> Literal["pure", "compiled"]:
    """Return the form of this installation."""
    spec = find_spec(_COMPILED)
    return "pure" if spec is None or spec.origin is None or spec.origin.endswith(".py") else "compiled"
