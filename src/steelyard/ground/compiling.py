"""The compiler, where it is installed: imported at the first use only. Everything works without it, slower."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any


@cache
def available() -> bool:
    """True if the compiler is installed (the extra `fast`)."""
    return find_spec("numba") is not None


def compile_(function: Any, **options: Any) -> Any:
    """The function compiled; the code is kept for the next process where there is a place to keep it."""
    import numba

    try:
        return numba.njit(cache=True, boundscheck=False, error_model="numpy", **options)(function)
    except RuntimeError:  # nowhere to keep the compiled code
        return numba.njit(boundscheck=False, error_model="numpy", **options)(function)
