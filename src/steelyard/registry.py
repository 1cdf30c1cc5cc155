"""Named things that can be found, listed and added from outside: metrics, readers, losses.

A lookup that fails says what was meant. Third parties register by importing: a package that declares an entry
point in the group "steelyard" has it loaded before a name is given up as unknown. A module that somebody asked for as
`module:name` may lie in the working folder of a command: `allow_plugin` says so, and `findable` finds it.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from steelyard.errors import UsageError, printable

T = TypeVar("T")

ENTRY_POINT_GROUP = "steelyard"


class Registry(Generic[T]):
    """An ordered mapping from names (and aliases) to things of one kind.

    A name is found as it is written, else whatever its case. `hint` says what may have been meant by one that is not
    here; by default the nearest name does.

    >>> losses = Registry[int]("loss")
    >>> losses.add("abs", 1)
    >>> losses["abs"], losses["ABS"]
    (1, 1)
    """

    def __init__(self, kind: str, *, hint: Callable[[str], str] | None = None) -> None:
        self.kind = kind
        self.hint = hint
        self._items: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self.changes = 0  # how often something came or went: what was found before may mean something else since

    def add(self, name: str, item: T, *, aliases: tuple[str, ...] = ()) -> None:
        for key in (name, *aliases):
            if key in self._items or key in self._aliases:
                raise UsageError(f"the {self.kind} '{key}' is defined twice; choose another name")
        self._items[name] = item
        self.changes += 1
        for alias in aliases:
            self._aliases[alias] = name

    def remove(self, name: str) -> None:
        del self._items[name]
        self.changes += 1
        self._aliases = {alias: target for alias, target in self._aliases.items() if target != name}

    def __getitem__(self, name: str) -> T:
        item = self._find(name)
        if item is None and load_entry_points():
            item = self._find(name)
        if item is None:
            raise UsageError(self.unknown(name))
        return item

    def __contains__(self, name: object) -> bool:
        return name in self._items or name in self._aliases

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> Iterator[T]:
        return iter(self._items.values())

    def meant(self, name: str) -> str | None:
        """The name of what is called so: as it is written, else whatever its case; None where nothing is."""
        exact = self._aliases.get(name, name)
        if exact in self._items:
            return exact
        folded = name.casefold()
        alike = {known: known for known in self._items} | self._aliases
        targets = list(dict.fromkeys(target for known, target in alike.items() if known.casefold() == folded))
        if len(targets) > 1:
            raise UsageError(f"'{printable(name)}' may mean {' or '.join(targets)}; write it as one of them")
        return targets[0] if targets else None

    def _find(self, name: str) -> T | None:
        meant = self.meant(name)
        return None if meant is None else self._items[meant]

    def unknown(self, name: str) -> str:
        """What to say of a name that is not here."""
        if self.hint is not None:
            return f"unknown {self.kind} '{printable(name)}'; {self.hint(name)}"
        close = closest(name, [*self._items, *self._aliases])
        hint = f"did you mean '{close}'?" if close else f"known: {', '.join(self._items)}"
        return f"unknown {self.kind} '{printable(name)}'; {hint}"


def closest(name: str, known: list[str]) -> str | None:
    """The known name most like `name`, or None if none is near: one that holds it as a word, else one spelled so.

    >>> closest("site", ["item", "group.site"]), closest("patient", ["patient_id"]), closest("tragets", ["targets"])
    ('group.site', 'patient_id', 'targets')
    """
    words = name.casefold()
    if words:
        holding = [each for each in known if words in re.split(r"[._ -]", each.casefold())]
        plain = [each for each in known if re.sub(r"[._ -]", "", each.casefold()) == re.sub(r"[._ -]", "", words)]
        if len(plain or holding) == 1:
            return (plain or holding)[0]
    match = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return match[0] if match else None


_folders: dict[str, str] = {}  # where a module that somebody named may lie


def allow_plugin(module: str, folder: str) -> None:
    """Let a module be found in this folder too, because somebody named it; names that stand in data never come here."""
    _folders[module] = folder


@contextmanager
def findable(module: str) -> Iterator[None]:
    """While it is imported, a module that was allowed in a folder is found there, and so is what it imports.

    The folder comes after all others: nothing in it stands in for a package that is installed.
    """
    folder = _folders.get(module)
    if folder is None or folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module may have taken it out itself
            sys.path.remove(folder)


_loaded: list[str] = []


def load_entry_points() -> bool:
    """Import every installed plug-in once; True if this call loaded any."""
    if _loaded:
        return False
    from importlib.metadata import entry_points

    points = entry_points(group=ENTRY_POINT_GROUP)
    _loaded.append(ENTRY_POINT_GROUP)
    for point in points:
        try:
            point.load()
        except Exception as problem:
            raise UsageError(
                f"the plug-in '{printable(point.name)}' ({printable(point.value)}) cannot be loaded: "
                f"{type(problem).__name__}. Repair or uninstall it"
            ) from None
    return bool(points)
