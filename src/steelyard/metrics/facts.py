"""What is stated of a metric where it is defined: facts, in parts that can be read one at a time, and methods.

Every keyword of the decorators in `contract.py` is a field of `Definition` or of one of these parts, or a method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from steelyard.ground.arrays import Floats
from steelyard.metrics.vocabulary import Default, OverGroups, Spread

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True, kw_only=True)
class Names:
    """What it is called, and what its options are called."""

    title: str = ""  # for people; names its options as {base} or {label}. By default made from the name
    member_titles: Mapping[str, str] = field(default_factory=dict)  # of a family with members of its own
    option_titles: Mapping[str, str] = field(default_factory=dict)  # how an option is said in a title: "{} bins"
    aliases: tuple[str, ...] = ()  # other names; `P_{k}` and `per_class.{label}.f1` hold an option or the label
    option_aliases: Mapping[str, str] = field(default_factory=dict)  # other names of its options
    also: tuple[str, ...] = ()  # words that people use for it: no names, but a name with one of them suggests it
    documented_as: str = ""  # the key of its value in documents that other tools read, where that is not its name

    @property
    def typed(self) -> tuple[str, ...]:
        """What may be typed for it, besides its name."""
        return (*self.aliases, *filter(None, [self.documented_as]))


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is shown with it, and where it is shown without being asked for."""

    formula: str = ""
    unit: str = ""
    reference: str = ""
    undefined: str = ""  # what the metric needs to be defined, said where it is not
    default_for: tuple[Default, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What it reads of the rows, beyond its columns."""

    perturbed_only: bool = False
    by_cluster: bool = False  # the value itself depends on the clusters
    reads_order: bool = False  # of its score only the order matters: two runs may state it on different scales
    texts: bool = False  # what it reads are texts of people, no labels that may be shown


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """How its interval is made."""

    no_interval: str | Callable[..., str] = ""  # the reason why no interval is honest, where that is so
    norm: Callable[[Floats], Floats] | None = None  # of a vector of noise; the value is a function of the norm
    spread: Spread = ""
    over_groups: OverGroups = ""


@dataclass(frozen=True, kw_only=True)
class Comparing:
    """What to heed where runs are compared by it."""

    no_delta: str = ""  # why it cannot be compared between runs, where that is so
    # for metrics that reward declining: the form up to a common coverage that is judged instead, "" if there is none
    common_coverage: str | None = None
    rewards_declining: bool = False  # answering less can better it, though the rows that count are all that were asked


_PARTS = {"names": Names, "shown": Shown, "rows": Rows, "uncertainty": Uncertainty, "comparing": Comparing}


def in_parts(**facts: Any) -> dict[str, Any]:
    """The facts gathered in their parts; what is a field of none stays as it is."""
    parts = {
        name: kind(**{field.name: facts.pop(field.name) for field in fields(kind) if field.name in facts})
        for name, kind in _PARTS.items()
    }
    return {**facts, **parts}


class Method:
    """A decorator that registers a function as a method of its owner: `@ece.finish` how the sums of `ece` are read."""

    def __init__(self, methods: Callable[[Any], dict[str, Function]] = lambda owner: owner.methods) -> None:
        self._methods = methods

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: Any, _type: type) -> Callable[[F], F]:
        def register(function: F) -> F:
            self._methods(owner)[self._name] = function
            return function

        return register
