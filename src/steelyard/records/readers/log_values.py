"""Values in the logs of other tools, read alike whatever the tool."""

from __future__ import annotations

from math import isfinite
from typing import Any

from steelyard.errors import counted, printable

_TRUTH = {"true": True, "false": False}


def real(value: Any) -> float | None:
    """A number as a finite one; None for anything else, and for a whole number larger than any of those.

    >>> [real(value) for value in (3, 0.5, True, "3", 10**400, float("nan"))]
    [3.0, 0.5, 1.0, None, None, None]
    """
    try:
        return float(value) if isinstance(value, int | float) and isfinite(value) else None
    except OverflowError:
        return None


class Due:
    """Whether the model should have declined, as the rows of a log say it; what says neither is counted."""

    def __init__(self) -> None:
        self._unread = 0

    def of(self, stated: Any) -> bool | None:
        """What a row states: true or false, also as a text.

        >>> [Due().of(stated) for stated in (True, "False", " true", "perhaps", None)]
        [True, False, True, None, None]
        """
        if stated is None or isinstance(stated, bool):
            return stated
        due = _TRUTH.get(stated.strip().casefold()) if isinstance(stated, str) else None
        self._unread += due is None
        return due

    def remarks(self, name: str) -> list[str]:
        """What is to be said of a log of that name."""
        if not self._unread:
            return []
        what = counted(self._unread, "value")
        are = "is" if self._unread == 1 else "are"
        return [f"{printable(name)}: {what} of should_abstain {are} neither true nor false, and not used"]
