"""Two spellings of one thing: files are named by their place on the line, and older options still name them."""

from __future__ import annotations

from typing import TypeVar

from steelyard.cli.command import say
from steelyard.errors import UsageError

T = TypeVar("T")
FORMER = "The same, as it was spelled before."


def one_of(place: T | None, option: T | None, *, named: str, option_named: str, former: bool = False) -> T:
    """What was given by its place or by an option: one of them. `former` options are said to go."""
    given = at_most_one(place, option, named=named, option_named=option_named, former=former)
    if given is None or given == []:
        raise UsageError(f"missing: {named}; `--help` lists what the command takes")
    return given


def at_most_one(place: T | None, option: T | None, *, named: str, option_named: str, former: bool = False) -> T | None:
    """The same of what need not be given."""
    if place is not None and option is not None:
        raise UsageError(f"{named} is given twice, by its place and by {option_named}; leave {option_named} out")
    if option is not None and former:
        say(f"{option_named} is deprecated and will be removed in two versions: give {named} as an argument")
    return place if option is None else option
