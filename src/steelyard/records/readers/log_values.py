"""Values in the logs of other tools, read alike whatever the tool."""

from __future__ import annotations

from math import isfinite
from typing import Any


def real(value: Any) -> float | None:
    """A number as a finite one; None for anything else, and for a whole number larger than any of those.

    >>> [real(value) for value in (3, 0.5, True, "3", 10**400, float("nan"))]
    [3.0, 0.5, 1.0, None, None, None]
    """
    try:
        return float(value) if isinstance(value, int | float) and isfinite(value) else None
    except OverflowError:
        return None
