"""What a task is: items to ask about, the question about each, and the answers there may be.

A task is one file in this folder that adds it to `tasks`, or a file of the user's (`from_file`). What a model is shown
of an item are the fields that the task's prompt names: never the target, and never whether it should decline. A task
may also have a method `context`, which says at length what a newcomer should know before the first question: the
strategy `contextual` begins with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from steelyard.errors import UsageError
from steelyard.ground.chance import lot
from steelyard.records.readers import read_as_is
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.registry import Registry

Label = str | int
Target = str | int | float
AnswerKind = Literal["labels", "numbers", "text"]


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing to ask about. `fields` may be shown in a prompt, `reason` in a solved example, all else never.

    `options` are the labels in the order in which they are listed, where that is not the task's own.
    """

    id: str | int
    fields: Mapping[str, Any]
    target: Target | None
    cluster: str | int | None = None
    groups: Mapping[str, Any] = field(default_factory=dict)
    should_abstain: bool | None = None
    more: Mapping[str, Any] = field(default_factory=dict)  # further columns of the records
    reason: str | None = None  # why the target is right
    options: tuple[Label, ...] | None = None
    columns: Mapping[str, Any] = field(
        default_factory=dict, repr=False
    )  # of its row: what a spec may name as a cluster


@dataclass(frozen=True, kw_only=True)
class Items:
    """The items of a task, and what must be said of them."""

    items: tuple[Item, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)  # rows that are no items, by reason
    warnings: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()  # the files that were read, with their digests


@dataclass(frozen=True, kw_only=True)
class DataSpec:
    """A file that a task's items come from: `map` is {name here: name in the file}, `where` the rows to keep."""

    path: str
    map: Mapping[str, str] = field(default_factory=dict)
    where: Sequence[str] | str = ()

    def read(self) -> Records:
        """What is in it, its columns as they are."""
        return read_as_is(self.path, map=self.map, where=self.where)


class Task(Protocol):
    """What can be asked of models. One whose answers are free texts has an attribute `answers` that says so: "text".

    One that knows further replies that decline has them, or /patterns/ of them, in an attribute `abstain`.
    """

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str:
        """One line for people who choose a task."""

    @property
    def labels(self) -> tuple[Label, ...] | None:
        """The answers there are, texts or whole numbers; None where the answer is a number or a free text."""

    @property
    def spellings(self) -> Mapping[str, Label]:
        """What else a label may be called in a reply, as in {"stage 3": 3}; case and white space make no difference."""

    @property
    def may_decline(self) -> bool:
        """True if models are told that they may decline."""

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest number, where answers are numbers."""

    @property
    def direction(self) -> str | None:
        """Which numbers are better, higher or lower, where that is known."""

    def items(self, data: DataSpec | None, *, size: int | None, seed: int) -> Items:
        """The items: of a file, or generated. At most `size`; the same for the same data, size and seed."""

    def background(self) -> str:
        """What is said before any question; may be empty."""

    def question(self, item: Item) -> str:
        """The question about an item, without how to reply, which is the strategy's."""

    def shown(self, item: Item) -> Mapping[str, Any]:
        """The fields of an item that its question shows."""


tasks: Registry[Task] = Registry("task")


def context_of(task: Task) -> str:
    """What a newcomer to a task should know; empty where the task says nothing."""
    context = getattr(task, "context", None)
    return "" if context is None else str(context())


def too_few(items: Sequence[Item], size: int | None, what: str) -> tuple[str, ...]:
    """What is said where there are fewer items than were asked for; `what` they are."""
    if size is None or len(items) >= size:
        return ()
    return (f"there are {len(items):,} {what}, fewer than the {size:,} asked for",)


def answers_are(task: Task) -> AnswerKind:
    """Of which kind the answers to a task are."""
    if task.labels is not None:
        return "labels"
    return "text" if getattr(task, "answers", None) == "text" else "numbers"


def sampled(items: Sequence[Item], size: int | None, seed: int) -> tuple[Item, ...]:
    """At most `size` of the items, in their order: at random, with labels as often as they are among all.

    A smaller sample is a part of a larger one, and the order of the items makes no difference to which are taken. The
    items of a label come in random order, the j-th of n at (j − u)/n for a u between 0 and 1 that is drawn per label:
    a label has its share to within one item, exactly where that is a whole number, but for what the rounding of other
    labels leaves. Where every target is another, as numbers often are, this is a plain random sample.

    >>> labels = ["yes"] * 6 + ["no"] * 3
    >>> items = [Item(id=n, fields={}, target=label) for n, label in enumerate(labels)]
    >>> [item.target for item in sampled(items, 3, seed=1)]
    ['yes', 'yes', 'no']
    """
    if size is None or size >= len(items):
        return tuple(items)
    if size < 1:
        raise UsageError("`size=` is at least 1")
    by_label: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        by_label[str(item.target)].append(place)
    seats = []
    for label, places in by_label.items():
        drawn = lot(seed, "label", label)
        offset = (int.from_bytes(drawn[:8]) >> 11) * 2.0**-53
        places.sort(key=lambda place: lot(seed, items[place].id))
        seats += [((j + offset) / len(places), drawn, place) for j, place in enumerate(places)]
    return tuple(items[place] for place in sorted(place for _, _, place in sorted(seats)[:size]))
