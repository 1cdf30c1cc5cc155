"""What a perturbation is: from the fields that a question shows to other ones, by chance that is the item's own.

A new one is a function of a text in a file of this folder,

    @of_texts("shouting", "the text ends with exclamation marks")
    def shouting(text: str, chance: Chance) -> str:
        return f"{text.rstrip('.')}!!!"

or, where it is not about texts, one of everything that is shown, which says what becomes of it:

    @perturbation("mirrored", "the answers are listed from the last to the first")
    def mirrored(shown: Shown, chance: Chance) -> Altered:
        return Altered(options=None if shown.options is None else shown.options[::-1])

The target cannot be reached from here. Texts are the field `question`, and every other that has more than one word: a
code such as "female" or "ckd", which a template may compare with, stays as it is. What is drawn depends on the spec's
seed, the perturbation and the item's id: not on other items, their order, or the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.ground.chance import Chance
from steelyard.registry import Registry
from steelyard.runner.tasks.contract import Item, Label, Task

QUESTION = "question"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a model is shown of an item: fields, and the labels in the order in which they are listed."""

    fields: Mapping[str, Any]
    options: tuple[Label, ...] | None

    @property
    def texts(self) -> dict[str, str]:
        """The fields that are texts, by name."""
        return {name: value for name, value in self.fields.items() if _is_text(name, value)}

    @property
    def main(self) -> str | None:
        """The field that holds the question itself, or else the longest text; None where there is none."""
        texts = self.texts
        if QUESTION in texts:
            return QUESTION
        return max(texts, key=lambda name: (len(texts[name]), name), default=None)


@dataclass(frozen=True, kw_only=True)
class Altered:
    """What becomes of it: fields that are other ones, another order, and further columns of the records."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[Label, ...] | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Perturbation:
    """A way to ask otherwise."""

    name: str
    about: str
    alter: Callable[[Shown, Chance], Altered]


perturbations: Registry[Perturbation] = Registry("perturbation")


def perturbation(name: str, about: str) -> Callable[[Callable[[Shown, Chance], Altered]], Any]:
    """Add a function of everything that is shown."""

    def add(function: Callable[[Shown, Chance], Altered]) -> Callable[[Shown, Chance], Altered]:
        perturbations.add(name, Perturbation(name=name, about=about, alter=function))
        return function

    return add


def of_texts(name: str, about: str) -> Callable[[Callable[[str, Chance], str]], Callable[[str, Chance], str]]:
    """Add a function of one text, which is applied to every text that is shown."""

    def add(function: Callable[[str, Chance], str]) -> Callable[[str, Chance], str]:
        def alter(shown: Shown, chance: Chance) -> Altered:
            return Altered(fields={each: function(text, chance) for each, text in sorted(shown.texts.items())})

        perturbations.add(name, Perturbation(name=name, about=about, alter=alter))
        return function

    return add


def perturbed(name: str, task: Task, item: Item, seed: int) -> Item | None:
    """An item as it is asked about under a perturbation; None where the question would be the same."""
    other = altered_item(name, task, item, seed)
    same = other.options == item.options and task.question(other) == task.question(item)
    return None if same else other


def altered_item(name: str, task: Task, item: Item, seed: int) -> Item:
    """An item as a perturbation leaves it, which may be as it was."""
    shown = Shown(fields=task.shown(item), options=item.options or task.labels)
    altered = perturbations[name].alter(shown, Chance(seed, "perturbation", name, item.id))
    return replace(
        item,
        fields={**item.fields, **altered.fields},
        options=item.options if altered.options in (None, shown.options) else altered.options,
        more={**item.more, **altered.columns},
    )


def _is_text(name: str, value: Any) -> bool:
    return isinstance(value, str) and (name == QUESTION or len(value.split()) > 1)
