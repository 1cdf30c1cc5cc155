"""Keys of numbers in runs: which number a key means, which keys are near, and which direction is better."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from steelyard.errors import UsageError, printable


def looked_up(metrics: Mapping[str, float], key: str, *, exact: bool) -> float | None:
    """A number by its key; `exact` is False for other tools' files, whose keys are read whatever their case."""
    value = metrics.get(key)
    if value is None and not exact:
        return next((v for k, v in metrics.items() if k.lower() == key.lower()), None)
    return value


def same_but_case(key: str, known: Iterable[str]) -> str | None:
    """The known key that is meant: the same, else the only one that differs in case only; None where there is none."""
    alike = dict.fromkeys(k for k in known if k.casefold() == key.casefold())
    if key in alike:
        return key
    if len(alike) > 1:
        raise UsageError(f"'{printable(key)}' may mean {', '.join(map(printable, alike))}; write it as one of them")
    return next(iter(alike), None)


def nearest_keys(key: str, known: Iterable[str]) -> list[str]:
    """The keys most like one that nobody has, else the first few there are.

    A key may hold a label from the data: such are shown only to who wrote the same first word.
    """
    named = list(dict.fromkeys(known))
    plain_ = [k for k in named if k == _head(k) or _head(k) == _head(key)]
    close = difflib.get_close_matches(key, plain_, n=3)
    return close or list(dict.fromkeys(map(_head, named)))[:8]


def checked_key(key: str, known: Sequence[str]) -> str:
    """The known key that is meant; one that nobody has is an error that names the nearest."""
    meant = same_but_case(key, known)
    if meant is None:
        raise no_such_key(key, known)
    return meant


def no_such_key(key: str, known: Iterable[str]) -> UsageError:
    """What to say of a key that no run has."""
    near = nearest_keys(key, known)
    hint = f"; the nearest are {', '.join(map(printable, near))}" if near else "; there are no runs with numbers here"
    return UsageError(f"no run has a value of '{printable(key)}'{hint}")


def _head(key: str) -> str:
    """The first word of a key, which is no label from the data."""
    return key.partition("{")[0].partition("(")[0].partition(".")[0]
