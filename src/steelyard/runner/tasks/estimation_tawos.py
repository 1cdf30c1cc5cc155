"""How much work is a story: story points, a number.

Stories are generated (`issues` has the rule that their points follow from), or read from a table with the columns
project, title, description and story_points, and issue_key where there is one. A story is a cluster of its own.
`mae_by_bin` says where estimates go wrong: among small stories or among large ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.runner.tasks.contract import DataSpec, Item, Items, Label, sampled, tasks, too_few
from steelyard.runner.tasks.issues import GENERATED, Issue, Issues, generated_story, read_issues
from steelyard.runner.tasks.prompts import Prompt, shipped


@dataclass(frozen=True, kw_only=True)
class Estimation:
    """The story points of a story."""

    name: str = "estimation_tawos"
    about: str = "how much work is a story, in story points"
    labels: tuple[Label, ...] | None = None
    spellings: Mapping[str, Label] = field(default_factory=dict)
    may_decline: bool = False
    range: tuple[float, float] | None = None
    direction: str | None = None

    @property
    def prompt(self) -> Prompt:
        return shipped(__package__, self.name)

    def items(self, data: DataSpec | None, *, size: int | None, seed: int) -> Items:
        """Stories of a table, at most `size` of them; or as many generated ones, by default 200."""
        if data is None:
            count = GENERATED if size is None else size
            found = Issues(issues=tuple(generated_story(seed, number + 1) for number in range(count)), left_out={})
        else:
            found = read_issues(data, "story_points")
        items = sampled([_item(issue) for issue in found.issues], size, seed)
        warnings = (*found.warnings, *too_few(items, size, "stories"))
        return Items(items=items, left_out=found.left_out, warnings=warnings, sources=found.sources)

    def background(self) -> str:
        return shipped(__package__, f"{self.name}_background").text({})

    def context(self) -> str:
        return shipped(__package__, f"{self.name}_context").text({})

    def question(self, item: Item) -> str:
        return self.prompt.text(item.fields)

    def shown(self, item: Item) -> Mapping[str, Any]:
        return self.prompt.shown(item.fields)


def _item(issue: Issue) -> Item:
    return Item(
        id=issue.id,
        fields={"title": issue.title, "description": issue.description},
        target=issue.answer,
        cluster=issue.id,
        groups=issue.groups,
        reason=issue.reason,
    )


tasks.add("estimation_tawos", Estimation())
