"""A small task for tests of how models are asked and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.runner.tasks import DataSpec, Item, Items
from steelyard.runner.tasks.prompts import Prompt


@dataclass(frozen=True, kw_only=True)
class TextTask:
    """Asks about the field `text`."""

    labels: tuple[str | int, ...] | None
    spellings: Mapping[str, str | int] = field(default_factory=dict)
    may_decline: bool = True
    range: tuple[float, float] | None = None
    direction: str | None = None
    name: str = "text"
    about: str = "a text"

    def items(self, data: DataSpec | None, *, size: int | None, seed: int) -> Items:
        return Items(items=tuple(Item(id=n, fields={"text": f"{n}?"}, target=None) for n in range(size or 3)))

    def background(self) -> str:
        return ""

    def question(self, item: Item) -> str:
        return str(item.fields["text"])

    def shown(self, item: Item) -> Mapping[str, Any]:
        return item.fields


@dataclass(frozen=True, kw_only=True)
class TemplateTask(TextTask):
    """Asks what a template says."""

    template: str = "{{ question }}"

    def question(self, item: Item) -> str:
        return Prompt(self.template, source="test").text(item.fields)
