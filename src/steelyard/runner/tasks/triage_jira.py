"""How urgent is an issue of a tracker: Critical, Major, Minor or Trivial.

Issues are generated (`issues` has the rule that their priority follows from), or read from a table with the columns
issue_key, title, description and priority. An issue is a cluster of its own; `cluster: group.project` in a spec says
that issues of one project are no independent evidence. Projects and components are groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.runner.tasks.contract import DataSpec, Item, Items, Label, sampled, tasks, too_few
from steelyard.runner.tasks.issues import GENERATED, PRIORITIES, Issue, Issues, generated_bug, read_issues
from steelyard.runner.tasks.prompts import Prompt, shipped


@dataclass(frozen=True, kw_only=True)
class Triage:
    """The priority of an issue."""

    name: str = "triage_jira"
    about: str = "how urgent is an issue: Critical, Major, Minor or Trivial"
    labels: tuple[Label, ...] = PRIORITIES
    spellings: Mapping[str, Label] = field(default_factory=dict)
    may_decline: bool = False
    range: tuple[float, float] | None = None
    direction: str | None = None

    @property
    def prompt(self) -> Prompt:
        return shipped(__package__, self.name)

    def items(self, data: DataSpec | None, *, size: int | None, seed: int) -> Items:
        """Issues of a table, at most `size` of them; or as many generated ones, by default 200."""
        found = Issues(issues=_generated(size, seed), left_out={}) if data is None else read_issues(data, "priority")
        items = sampled([_item(issue) for issue in found.issues], size, seed)
        warnings = (*found.warnings, *too_few(items, size, "issues"))
        return Items(items=items, left_out=found.left_out, warnings=warnings, sources=found.sources)

    def background(self) -> str:
        return shipped(__package__, f"{self.name}_background").text({})

    def context(self) -> str:
        return shipped(__package__, f"{self.name}_context").text({})

    def question(self, item: Item) -> str:
        return self.prompt.text(item.fields)

    def shown(self, item: Item) -> Mapping[str, Any]:
        return self.prompt.shown(item.fields)


def _generated(size: int | None, seed: int) -> tuple[Issue, ...]:
    return tuple(generated_bug(seed, number + 1) for number in range(GENERATED if size is None else size))


def _item(issue: Issue) -> Item:
    return Item(
        id=issue.id,
        fields={"title": issue.title, "description": issue.description},
        target=issue.answer,
        cluster=issue.id,
        groups=issue.groups,
        reason=issue.reason,
    )


tasks.add("triage_jira", Triage())
