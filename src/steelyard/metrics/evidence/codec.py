"""How evidence is kept: every kind registers its name on disk, what it packs, and how it is made again.

    @kind("Sums", "names keys ids cells rows excluded is_score binary")
    @dataclass(frozen=True)
    class Sums: ...

A packed kind is a mapping from names on disk to numbers, text, bytes, arrays, labels, tuples, mappings, and evidence of
registered kinds; whoever writes a file walks them. The names on disk are constants: a class or an attribute may be
renamed, what was written stays readable. A plug-in registers its own kinds the same way, and they are found again where
it is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from steelyard.errors import StorageError, UsageError, printable
from steelyard.registry import Registry, load_entry_points

T = TypeVar("T", bound=type)
Pack = Callable[[Any], Mapping[str, Any]]
Unpack = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Kind:
    """A class that can be kept: its name on disk, and both ways between an object and its packed fields."""

    name: str
    type: type
    pack: Pack
    unpack: Unpack


kinds: Registry[Kind] = Registry("kind of evidence")
_readings: Registry[type] = Registry("reading of evidence")


def kind(name: str, names: str = "", *, pack: Pack | None = None, unpack: Unpack | None = None) -> Callable[[T], T]:
    """Register a class under its name on disk.

    `names` are the fields on disk, in the order they are written, as "disk=attribute" where the two differ; without
    them, those of the dataclass. A class that is no plain sum of its fields gives `pack` and `unpack` instead.
    """

    def register(class_: T) -> T:
        attributes = _attributes(class_, names) if pack is None or unpack is None else {}
        entry = Kind(
            name,
            class_,
            pack or (lambda value: {disk: getattr(value, attribute) for disk, attribute in attributes.items()}),
            unpack or (lambda packed: class_(**{attributes[disk]: value for disk, value in packed.items()})),
        )
        if name in kinds and _origin(kinds[name].type) == _origin(class_):  # the same class imported again
            kinds.remove(name)
        kinds.add(name, entry)
        return class_

    return register


def reading(name: str) -> Callable[[T], T]:
    """Register a class of readings that evidence refers to, under its name on disk."""

    def register(class_: T) -> T:
        if name in _readings and _origin(_readings[name]) == _origin(class_):
            _readings.remove(name)
        _readings.add(name, class_)
        return class_

    return register


def kind_of(value: Any) -> Kind:
    """The kind of an object that is to be kept."""
    for each in kinds.values():
        if each.type is type(value):
            return each
    raise UsageError(
        f"evidence of the class {printable(type(value).__qualname__)} cannot be kept; register it with "
        "`kind` of steelyard.metrics.evidence.codec"
    )


def kind_named(name: str) -> Kind:
    """The kind of that name on disk."""
    return _known(kinds, name)


def reading_name(class_: type) -> str:
    """The name on disk of a class of readings."""
    for name in _readings:
        if _readings[name] is class_:
            return name
    raise UsageError(
        f"evidence that is read by {printable(class_.__qualname__)} cannot be kept; register it with "
        "`reading` of steelyard.metrics.evidence.codec"
    )


def reading_named(name: str) -> type:
    """The class of readings of that name on disk."""
    return _known(_readings, name)


K = TypeVar("K")


def _known(registry: Registry[K], name: str) -> K:
    if name not in registry:
        load_entry_points()
    if name not in registry:
        raise StorageError(
            f"the evidence holds the {registry.kind} '{printable(str(name))}', which nothing here has registered; "
            "install the plug-in that did"
        )
    return registry[name]


def _attributes(class_: type, names: str) -> dict[str, str]:
    """The attribute of every name on disk."""
    listed = names.split() or [field.name for field in fields(class_)]
    return {name.partition("=")[0]: name.partition("=")[2] or name for name in listed}


def _origin(class_: type) -> tuple[str, str]:
    return class_.__module__, class_.__qualname__
