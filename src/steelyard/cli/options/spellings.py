"""Two spellings of one thing: files are named by their place on the line, and options still name them."""

from __future__ import annotations

from typing import TypeVar

from steelyard.errors import UsageError

T = TypeVar("T")


def one_of(place: T | None, option: T | None, *, named: str, option_named: str) -> T:
    """What was given by its place or by an option: one of them."""
    given = at_most_one(place, option, named=named, option_named=option_named)
    if given is None or given == []:
        raise UsageError(f"missing: {named}; `--help` lists what the command takes")
    return given


def at_most_one(place: T | None, option: T | None, *, named: str, option_named: str) -> T | None:
    """The same of what need not be given."""
    if place is not None and option is not None:
        raise UsageError(f"{named} is given twice, by its place and by {option_named}; leave {option_named} out")
    return place if option is None else option
